"""Operators that join elements to batches, or batches to other batches."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from grain.elements.stacking import Place, stacked
from grain.elements.trees import branch_of, map_structure, spec_like
from grain.errors import add_place
from grain.fields import Fields
from grain.graph.naming import transform_name
from grain.graph.node import IterNode, MapNode, Node, Parent, ancestors
from grain.graph.specs import ShapeDtypeStruct
from grain.indices.arithmetic import integer
from grain.plan.kinds import Extent, Group

_END = object()
BatchFunction = Callable[[Sequence[Any]], Any]


class Batching(Node):
    """What both kinds of batch share."""

    parent: Any
    batch_size: int
    drop_remainder: bool
    batch_fn: BatchFunction | None
    keep_bytes: bool
    place: Place | None

    @property
    def parents(self) -> tuple[Any]:
        return (self.parent,)

    def placed(self, place: Place) -> Batching:
        return self if self.batch_fn else self.replaced(place=place)

    def add_place(self, error: Exception, index: int | None) -> None:
        """Say in the error which batch failed."""
        function = "" if self.batch_fn is None else f" with batch_fn {transform_name(self.batch_fn)}"
        add_place(error, f"{self}{function}", index, self)

    @property
    def call(self) -> str:
        others = [", drop_remainder=True"] if self.drop_remainder else []
        others += [f", batch_fn={transform_name(self.batch_fn)}"] if self.batch_fn else []
        others += [", keep_bytes=True"] if self.keep_bytes else []
        return f"batch({self.batch_size}{''.join(others)})"

    def element_spec(self, parent: Any) -> Any:
        spec = batch_spec(parent, self.batch_fn, self.batch_size, self.drop_remainder)
        return map_structure(_with_objects, spec) if self.keep_bytes else spec


def _with_objects(leaf: ShapeDtypeStruct) -> ShapeDtypeStruct:
    """The spec of a leaf where bytes and text are kept as objects."""
    return ShapeDtypeStruct(leaf.shape, np.dtype(object)) if np.dtype(leaf.dtype).kind in "SU" else leaf


def batch_spec(parent: Any, batch_fn: BatchFunction | None, batch_size: int | None, drop_remainder: bool) -> Any:
    """The spec of batches of elements like `parent`."""
    if batch_fn is None:
        rows = batch_size if drop_remainder else None
        return map_structure(lambda leaf: ShapeDtypeStruct((rows, *leaf.shape), leaf.dtype), parent)
    function: Any = batch_fn
    while isinstance(function, functools.partial):
        function = function.func
    if not hasattr(function, "output_spec"):
        raise NotImplementedError(
            "Element spec inference is not supported with custom batching functions, unless they have a method "
            "`output_spec(input_spec, batch_size, drop_remainder)`."
        )
    return function.output_spec(parent, batch_size=batch_size, drop_remainder=drop_remainder)


class MapBatch(Batching, MapNode):
    """Batches of consecutive elements, each epoch by itself."""

    parent_length: int
    epoch_length: int
    is_divisible = True

    @property
    def length(self) -> int:
        return self.epoch_length

    def with_parents(self, *parents: Any) -> MapBatch:
        return _map_batch(parents[0], self.batch_size, self.drop_remainder, self.batch_fn, self.keep_bytes)

    def lower(self, parent: Any) -> Group:
        extent = Extent(self.batch_size, self.length, self.parent_length)
        return Group(parent, extent, self.batch_fn, str(self), self.place, self.keep_bytes)

    def __str__(self) -> str:
        return f"BatchMapDataset(batch_size={self.batch_size}, drop_remainder={self.drop_remainder})"


class BatchState(Fields):
    _values: list[Any] | None = None
    """What has been collected of the next batch, once that is begun."""


class IterBatch(Batching, IterNode[BatchState]):
    """Batches of consecutive elements."""

    State = BatchState

    @property
    def group_size(self) -> int:
        return self.batch_size

    def holds(self, state: BatchState) -> bool:
        return state._values is not None

    def run(self, state: BatchState, *parents: Parent) -> Iterator[Any]:
        join, place, size, drop_remainder = self.batch_fn, self.place, self.batch_size, self.drop_remainder
        keep_bytes = self.keep_bytes
        elements = iter(parents[0])
        while True:
            values = state._values = state._values or []
            values.extend(islice(elements, size - len(values)))
            state._values = None
            if not values or (drop_remainder and len(values) < size):
                return
            try:
                batch = stacked(values, place and place(), keep_bytes) if join is None else join(values)
            except Exception as error:
                self.add_place(error, None)
                raise
            yield batch

    def get_next_index(self, state: BatchState, parent: Parent) -> int:
        return -(-parent.get_next_index() // self.batch_size)

    def set_next_index(self, state: BatchState, parent: Parent, index: int) -> None:
        state._values = None
        parent.set_next_index(index * self.batch_size)

    def __str__(self) -> str:
        return f"BatchIterDataset(batch_size={self.batch_size}, drop_remainder={self.drop_remainder})"


def batch_node(
    parent: Any, batch_size: int, drop_remainder: bool, batch_fn: BatchFunction | None, keep_bytes: bool = False
) -> Node:
    """`ds.batch(...)`."""
    batch_size = checked_size(batch_size)
    if keep_bytes and batch_fn is not None:
        raise ValueError(f"Batch keeps bytes where it stacks elements itself, not with {batch_fn=}.")
    if not parent.is_random_access:
        return IterBatch(parent, batch_size, drop_remainder, batch_fn, keep_bytes, None)
    for ancestor in ancestors(parent):
        if ancestor.may_drop:
            dropping = "filter" if ancestor.name.startswith("Filter") else ancestor.name
            raise ValueError(
                f"`MapDataset.batch` can not follow `MapDataset.{dropping}` because `{dropping}` can discard elements. "
                "Convert the dataset with `to_iter_dataset()` before calling `batch`."
            )
    return _map_batch(parent, batch_size, drop_remainder, batch_fn, keep_bytes)


def _map_batch(
    parent: Any, batch_size: int, drop_remainder: bool, batch_fn: BatchFunction | None, keep_bytes: bool
) -> MapBatch:
    length = parent.length // batch_size if drop_remainder else _batch_count(parent.length, batch_size)
    return MapBatch(parent, batch_size, drop_remainder, batch_fn, keep_bytes, None, parent.length, length)


def _batch_count(length: int, batch_size: int) -> int:
    """How many batches `length` elements make."""
    if length == sys.maxsize:  # there is no end: Grain's number, which is rounded
        return math.ceil(length / batch_size)
    return -(-length // batch_size)


def checked_size(batch_size: int) -> int:
    """`batch_size`, where batches can have it."""
    batch_size = integer("batch_size", batch_size)
    if batch_size <= 0:
        raise ValueError(f"batch_size must be positive. Got {batch_size}.")
    return batch_size


class RebatchState(Fields):
    parent: Any
    """Where the parent was before the batch that is being cut."""
    batch_idx: int = 0
    """How many of its rows have been handed out."""
    _batch: Any = None
    """That batch; None: it is to be read."""
    _pieces: list[Any] | None = None
    """What has been cut for the next batch, once that is begun."""


class Rebatch(IterNode[RebatchState]):
    """Batches of another size, cut and joined along the first axis."""

    parent: Any
    batch_size: int
    drop_remainder: bool
    parent_field = "parent"
    State = RebatchState

    @property
    def parents(self) -> tuple[Any]:
        return (self.parent,)

    def fresh(self, *parents: Parent) -> RebatchState:
        return RebatchState(parents[0].save())

    def holds(self, state: RebatchState) -> bool:
        return state._pieces is not None

    def run(self, state: RebatchState, *parents: Parent) -> Iterator[Any]:
        (parent,) = parents
        while True:
            pieces = state._pieces = state._pieces or []
            missing = self.batch_size - sum(map(_rows, pieces))
            while missing:
                if state._batch is None:  # it is the one that is being cut
                    state._batch = self._next_batch(state, parent)
                elif state.batch_idx >= _rows(state._batch):
                    if not parent.holds():
                        state.parent = parent.save()
                    state._batch = self._next_batch(state, parent)
                    state.batch_idx = 0 if state._batch is not None else state.batch_idx
                if state._batch is None:
                    break
                stop = min(state.batch_idx + missing, _rows(state._batch))
                if stop > state.batch_idx:
                    pieces.append(_cut(state._batch, state.batch_idx, stop))
                    missing -= stop - state.batch_idx
                    state.batch_idx = stop
            state._pieces = None
            if not pieces or (missing and self.drop_remainder):
                return
            yield pieces[0] if len(pieces) == 1 else map_structure(lambda *parts: np.concatenate(parts), *pieces)

    def _next_batch(self, state: RebatchState, parent: Parent) -> Any:
        """The parent's next batch, None at the end. If there is an error, that batch is passed over."""
        try:
            batch = self._read(state, parent)
            if batch is _END:
                return None
            if not _rows(batch):
                raise ValueError(f"Rebatching with starting batch size of 0 is not supported. Got {spec_like(batch)}.")
        except Exception:
            if not parent.holds():
                state.parent, state._batch, state.batch_idx = parent.save(), None, 0
            raise
        return batch

    @staticmethod
    def _read(state: RebatchState, parent: Parent) -> Any:
        while True:
            try:
                return next(iter(parent), _END)
            except Exception:
                # Of a batch that is read again rows were handed out: what failed on the way has been raised before.
                if state._batch is not None or not state.batch_idx or not parent.holds():
                    raise

    def element_spec(self, parent: Any) -> Any:
        return map_structure(lambda leaf: ShapeDtypeStruct((self.batch_size, *leaf.shape[1:]), leaf.dtype), parent)

    @property
    def held_back(self) -> str:
        return "the batch that is being cut"

    def __str__(self) -> str:
        return f"RebatchIterDataset(batch_size={self.batch_size}, drop_remainder={self.drop_remainder})"


def rebatch_node(parent: Any, batch_size: int, drop_remainder: bool) -> Rebatch:
    """`ds.rebatch(...)`."""
    return Rebatch(parent, checked_size(batch_size), drop_remainder)


def _rows(batch: Any) -> int:
    """The length of the first leaf."""
    while (branch := branch_of(batch)) is not None:
        if not branch.children:
            return 0
        batch = branch.children[0]
    return len(batch)


def _cut(batch: Any, start: int, stop: int) -> Any:
    return map_structure(lambda leaf: leaf[start:stop], batch)
