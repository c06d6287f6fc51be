"""Passes: pure functions from plan to plan, each named for its effect, in the order in which they are applied.

A pass gets a whole plan and may not change it: plans are shared, between operators and between iterators.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from grain.graph.folding import folded
from grain.plan.index_steps import Permute
from grain.plan.kinds import Ahead, Boundary, Gather, Step, Stream
from grain.plan.picking import PermuteEach


def hoist_shuffles(plan: Any) -> Any:
    """Do the shuffles of all children of a `Gather` at once, above them, where each child is a shuffle."""
    return _everywhere(plan, _with_hoisted_shuffles)


def _with_hoisted_shuffles(plan: Any) -> Any:
    if not isinstance(plan, Gather) or plan.picks.pick_array is None:
        return plan
    tops = [child.steps[-1] if child.steps else None for child in plan.children]
    shuffles = [top for top in tops if isinstance(top, Permute) and top.length]
    if not tops or len(shuffles) < len(tops):
        return plan
    picks = PermuteEach(plan.picks, tuple(top.length for top in shuffles), tuple(top.seed for top in shuffles))
    bare = tuple(child.replaced(steps=child.steps[:-1]) for child in plan.children)
    return plan.replaced(children=bare, picks=picks)


def batch_reads(plan: Any) -> Any:
    """Let an operator that takes elements in groups ask the source for all records of a group at once.

    Only where each element of the stream is one of the source's: a filter in between would make it read ahead.
    """
    return _everywhere(plan, _with_batched_reads)


def _with_batched_reads(plan: Any) -> Any:
    if not isinstance(plan, Step) or plan.operator.group_size == 1:
        return plan
    return plan.replaced(parents=(_reading_together(plan.parents[0], plan.operator.group_size),))


def _reading_together(plan: Stream, count: int) -> Stream:
    between: list[Stream] = []
    below = plan
    while isinstance(below, Ahead) or (
        isinstance(below, Step) and below.operator.is_one_to_one and len(below.parents) == 1
    ):
        between.append(below)
        below = below.inputs[0]
    if not (isinstance(below, Boundary) and below.is_dense):
        return plan
    changed: Stream = below.replaced(read_together=count)
    for each in reversed(between):
        changed = each.with_inputs(changed)
    return changed


PASSES: tuple[Callable[[Any], Any], ...] = (hoist_shuffles, batch_reads)


def _everywhere(plan: Any, rule: Callable[[Any], Any]) -> Any:
    """`rule` applied to a plan and to all that it reads from, from the sources up; what is shared stays shared."""

    def rewritten(each: Any, changed: list[Any]) -> Any:
        is_same = all(map(operator.is_, each.inputs, changed))
        return rule(each if is_same else each.with_inputs(*changed))

    return folded(plan, operator.attrgetter("inputs"), rewritten)
