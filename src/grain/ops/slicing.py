"""Operators that leave out elements by their place: slices, given indices, limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from grain.fields import Fields, brief
from grain.graph.node import IterNode, MapNode, Parent
from grain.indices.arithmetic import integer
from grain.ops.passing_on import PassingOn, Reordering
from grain.plan.index_steps import Lookup, Stride
from grain.plan.kinds import Gather
from grain.plan.picking import UsersTable


class Slice(Reordering):
    """Every `step`-th element from `start` to `stop`, in each epoch."""

    start: int
    stop: int
    step: int
    parent_length: int

    @property
    def length(self) -> int:
        return len(range(self.start, self.stop, self.step))

    def index_step(self) -> Stride:
        return Stride(self.start, self.step, self.length, self.parent_length)

    def __str__(self) -> str:
        return f"SliceMapDataset[{self.start}:{self.stop}:{self.step}]"


class Reindex(Reordering):
    """The elements at given indices, in their order."""

    indices: Sequence[int]
    parent_length: int

    @property
    def length(self) -> int:
        return len(self.indices)

    def lower(self, parent: Any) -> Any:
        lookup = Lookup(self.indices, self.parent_length)
        if isinstance(self.indices, np.ndarray | list | tuple | range):
            return parent.then(lookup)
        return Gather((parent,), UsersTable(lookup))

    @property
    def call(self) -> str:
        return f"slice({brief(self.indices)})"

    def __str__(self) -> str:
        count = len(self.indices)
        shown = (
            str(self.indices)
            if count <= 5
            else f"[{self.indices[0]}, {self.indices[1]}, ..., {self.indices[count - 2]}, {self.indices[count - 1]}]"
        )
        return f"ReindexMapDataset(indices={shown}, len={count})"


def slice_node(parent: MapNode, sl: slice | Sequence[int]) -> Slice | Reindex:
    """The slice `sl` of one epoch of `parent`, or its elements at the indices `sl`."""
    if isinstance(sl, slice):
        return Slice(parent, *sl.indices(parent.length), parent_length=parent.length)
    if not hasattr(sl, "__len__") or not hasattr(sl, "__getitem__"):
        raise ValueError(f"sl is not a slice: {type(sl)}. Pass a slice, or a sequence of indices.")
    return Reindex(parent, sl, parent.length)


class LimitState(Fields):
    count_elements_read: int = 0


class Limit(PassingOn[LimitState]):
    """At most `count` elements of the parent."""

    count: int
    State = LimitState

    def run(self, state: LimitState, *parents: Parent) -> Iterator[Any]:
        (parent,) = parents
        if state.count_elements_read >= self.count:
            return
        for element in parent:
            state.count_elements_read += 1
            yield element
            if state.count_elements_read >= self.count:
                return

    def get_next_index(self, state: LimitState, parent: Parent) -> int:
        return int(state.count_elements_read)

    def set_next_index(self, state: LimitState, parent: Parent, index: int) -> None:
        parent.set_next_index(index)
        state.count_elements_read = index

    def __str__(self) -> str:
        return f"LimitIterDataset(count={self.count})"


def limit_node(parent: IterNode[Any], count: int) -> Limit:
    """At most `count` elements of `parent`."""
    if integer("count", count) <= 0:
        raise ValueError(f"Count must be a positive integer. Got {count}.")
    return Limit(parent, count)
