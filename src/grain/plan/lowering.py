"""From what was asked for to what will be run: nodes to plans."""

from __future__ import annotations

from itertools import repeat
from typing import Any

from grain.graph.node import IterNode, MapNode
from grain.plan.kinds import RandomAccess, Step, Stream
from grain.plan.passes import PASSES


def random_access(node: MapNode) -> RandomAccess:
    """The plan of a MapDataset."""
    return _improved(_lowered(node, {}))  # type: ignore[no-any-return]


def stream(node: IterNode[Any]) -> Stream:
    """The plan of an IterDataset."""
    return _improved(_lowered(node, {}))  # type: ignore[no-any-return]


def _improved(plan: Any) -> Any:
    for rewritten in PASSES:
        plan = rewritten(plan)
    return plan


def _lowered(node: Any, done: dict[int, Any]) -> Any:
    """The plan of `node` as it is lowered; one that is used several times is lowered once."""
    if id(node) not in done:
        parents = tuple(map(_lowered, () if node.is_opaque else node.parents, repeat(done)))
        done[id(node)] = node.lower(*parents) or Step(node, parents)
    return done[id(node)]
