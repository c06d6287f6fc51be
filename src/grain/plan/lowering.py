"""From what was asked for to what will be run: nodes to plans."""

from __future__ import annotations

from typing import Any

from grain.graph.node import IterNode, MapNode, Node, ancestors
from grain.plan.kinds import Boundary, Gather, RandomAccess, Step, Stream
from grain.plan.passes import batch_reads, hoist_shuffles


def random_access(node: MapNode) -> RandomAccess:
    """The plan of a MapDataset."""
    return _lowered(node, {})


def _lowered(node: MapNode, done: dict[int, RandomAccess]) -> RandomAccess:
    """The plan of `node`; one that is used several times is lowered once."""
    if id(node) not in done:
        plan: RandomAccess = node.lower(*(_lowered(parent, done) for parent in _visible_parents(node)))
        done[id(node)] = hoist_shuffles(plan) if isinstance(plan, Gather) else plan
    return done[id(node)]


def stream(node: IterNode) -> Stream:
    """The plan of an IterDataset."""
    if node.reads_by_index:
        (parent,) = node.parents
        assert isinstance(parent, MapNode)
        is_dense = not any(ancestor.may_drop for ancestor in ancestors(parent))
        return Boundary(node, random_access(parent), parent.length, is_dense)
    return batch_reads(Step(node, tuple(stream(parent) for parent in _visible_parents(node))))


def _visible_parents(node: Node) -> tuple[Any, ...]:
    return () if node.is_opaque else node.parents
