"""Passes: pure functions from plan to plan, each named for its effect."""

from __future__ import annotations

import numpy as np

from grain.indices.arithmetic import IndexArray, exact
from grain.indices.permutation import permuted_each
from grain.plan.kinds import Ahead, Boundary, Gather, ShuffleStep, Step, Stream


def batch_reads(step: Step) -> Step:
    """Let an operator that takes elements in groups ask the source for all records of a group at once.

    Only where each element of the stream is one of the source's: a filter in between would make it read ahead.
    """
    if step.operator.group_size == 1:
        return step
    return step.replaced(parents=(_reading_together(step.parents[0], step.operator.group_size),))


def _reading_together(plan: Stream, count: int) -> Stream:
    if isinstance(plan, Boundary):
        return plan.replaced(read_together=count) if plan.is_dense else plan
    if isinstance(plan, Ahead):
        return plan.replaced(parent=_reading_together(plan.parent, count))
    if isinstance(plan, Step) and plan.operator.is_one_to_one and len(plan.parents) == 1:
        return plan.replaced(parents=(_reading_together(plan.parents[0], count),))
    return plan


def hoist_shuffles(gather: Gather) -> Gather:
    """Do the shuffles of all children at once, above them, where each child is a shuffle."""
    tops = [child.steps[-1] if child.steps else None for child in gather.children]
    if gather.pick_array is None or not tops or not all(isinstance(top, ShuffleStep) and top.length for top in tops):
        return gather
    lengths, seeds = (np.array([getattr(top, name) for top in tops]) for name in ("length", "seed"))
    longest = int(lengths.max())
    pick, pick_array = gather.pick, gather.pick_array

    def pick_shuffled(index: int) -> tuple[int, int]:
        child, below = pick(index)
        return child, tops[child].function(below)  # type: ignore[union-attr]

    def pick_shuffled_array(indices: IndexArray) -> tuple[IndexArray, IndexArray]:
        children, below = pick_array(indices)
        length = lengths[children]
        below = exact(below, 1, longest)
        epoch, place = below // length, below % length
        shuffled = permuted_each(place, length, ((seeds[children] + epoch) % 2**32).astype(np.int64))
        return children, shuffled + epoch * length

    bare = [child.replaced(steps=child.steps[:-1]) for child in gather.children]
    return gather.replaced(children=bare, pick=pick_shuffled, pick_array=pick_shuffled_array)
