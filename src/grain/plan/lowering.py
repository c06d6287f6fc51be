"""From what was asked for to what will be run: nodes to plans."""

from __future__ import annotations

from itertools import repeat
from typing import Any

from grain.graph.node import IterNode, MapNode
from grain.plan.kinds import Gather, RandomAccess, Step, Stream
from grain.plan.passes import batch_reads, hoist_shuffles


def random_access(node: MapNode) -> RandomAccess:
    """The plan of a MapDataset."""
    plan: RandomAccess = _lowered(node, {})
    return plan


def stream(node: IterNode[Any]) -> Stream:
    """The plan of an IterDataset."""
    plan: Stream = _lowered(node, {})
    return plan


def _lowered(node: Any, done: dict[int, Any]) -> Any:
    """The plan of `node`; one that is used several times is lowered once."""
    if id(node) not in done:
        parents = tuple(map(_lowered, () if node.is_opaque else node.parents, repeat(done)))
        done[id(node)] = _improved(node.lower(*parents) or Step(node, parents))
    return done[id(node)]


def _improved(plan: Any) -> Any:
    if isinstance(plan, Gather):
        return hoist_shuffles(plan)
    return batch_reads(plan) if isinstance(plan, Step) else plan
