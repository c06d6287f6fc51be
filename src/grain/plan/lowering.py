"""From what was asked for to what will be run: nodes to plans."""

from __future__ import annotations

from typing import Any

from grain.graph.node import IterNode, MapNode, Node, ancestors
from grain.plan.kinds import Boundary, Gather, RandomAccess, Step, Stream
from grain.plan.passes import batch_reads, hoist_shuffles


def random_access(node: MapNode) -> RandomAccess:
    """The plan of a MapDataset."""
    plan: RandomAccess = node.lower(*(random_access(parent) for parent in _visible_parents(node)))
    return hoist_shuffles(plan) if isinstance(plan, Gather) else plan


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
