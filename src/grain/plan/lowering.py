"""From what was asked for to what will be run: nodes to plans."""

from __future__ import annotations

import sys
from typing import Any

from grain.graph.folding import folded
from grain.graph.node import IterNode, MapNode
from grain.plan.kinds import RandomAccess, Step, Stream
from grain.plan.passes import PASSES


def random_access(node: MapNode) -> RandomAccess:
    """The plan of a MapDataset."""
    return _improved(_lowered(node))  # type: ignore[no-any-return]


def stream(node: IterNode[Any]) -> Stream:
    """The plan of an IterDataset."""
    return _improved(_lowered(node))  # type: ignore[no-any-return]


def _improved(plan: Any) -> Any:
    for rewritten in PASSES:
        plan = rewritten(plan)
    return plan


def _seen(node: Any) -> tuple[Any, ...]:
    """The parents of which the plan of `node` is made."""
    return () if node.is_opaque else node.parents


def _lowered(node: Any) -> Any:
    """The plan of `node` as it is lowered; one that is used several times is lowered once."""
    return folded(node, _seen, lambda each, parents: each.lower(*parents) or Step(each, tuple(parents)))


_CALLS = 2
"""At least so many calls upon each other takes a level of a plan, to be read and to tell its position."""
_SPARE = 100


def check_height(plan: Any) -> None:
    """Refuse a plan that is higher than calls can be upon each other."""
    levels = folded(plan, lambda each: each.inputs, lambda each, below: 1 + max(below, default=0))
    limit = sys.getrecursionlimit()
    if _CALLS * levels + _SPARE > limit:
        raise RecursionError(
            f"This pipeline has {levels:,} operators upon each other, which is more than Python's limit of {limit:,} "
            "calls upon each other allows. Join functions to one, or use `map`, `filter` and `shuffle` on a "
            "MapDataset: before `to_iter_dataset` any number of them is one step."
        )
