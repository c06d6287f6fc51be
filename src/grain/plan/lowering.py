"""From what was asked for to what will be run: nodes to plans."""

from __future__ import annotations

from typing import Any

from grain.graph.node import IterNode, MapNode, Node, ancestors
from grain.plan.kinds import Boundary, RandomAccess, Step, Stream
from grain.plan.passes import PASSES


def random_access(node: MapNode) -> RandomAccess:
    """The plan of a MapDataset."""
    return _improved(_random_access(node, {}))  # type: ignore[no-any-return]


def stream(node: IterNode) -> Stream:
    """The plan of an IterDataset."""
    return _improved(_stream(node))  # type: ignore[no-any-return]


def _improved(plan: Any) -> Any:
    for rewritten in PASSES:
        plan = rewritten(plan)
    return plan


def _random_access(node: MapNode, done: dict[int, RandomAccess]) -> RandomAccess:
    """The plan of `node` as it is lowered; one that is used several times is lowered once."""
    if id(node) not in done:
        done[id(node)] = node.lower(*(_random_access(parent, done) for parent in _visible_parents(node)))
    return done[id(node)]


def _stream(node: IterNode) -> Stream:
    if node.reads_by_index:
        (parent,) = node.parents
        assert isinstance(parent, MapNode)
        is_dense = not any(ancestor.may_drop for ancestor in ancestors(parent))
        return Boundary(node, _random_access(parent, {}), parent.length, is_dense)
    return Step(node, tuple(_stream(parent) for parent in _visible_parents(node)))


def _visible_parents(node: Node) -> tuple[Any, ...]:
    return () if node.is_opaque else node.parents
