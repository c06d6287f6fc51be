"""Where a plan's records come from: by index one by one, many at once, or as a column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from grain.elements.stacking import Allocate, stacked
from grain.errors import add_place
from grain.fields import Compared
from grain.indices.arithmetic import IndexArray
from grain.sources.random_access import ColumnarDataSource

Columns: TypeAlias = Callable[[int, int, Allocate | None], Any]
"""The records from one position to another, as one array."""


class Indices(Compared):
    """The index itself is the record."""

    name = "range"

    def one(self, index: Any) -> Any:
        return index

    def columns(self, indices: IndexArray) -> Columns:
        if indices.dtype == object:
            return lambda start, stop, _: stacked(indices[start:stop].tolist())
        return lambda start, stop, _: indices[start:stop].copy()


class Items(Compared):
    """`source[index]`."""

    field_names = ("source",)
    columns: Callable[[IndexArray], Columns] | None = None

    def __init__(self, source: Any) -> None:
        self.source = source

    @property
    def name(self) -> str:
        return f"{type(self.source).__name__}.__getitem__"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self.source).__name__})"

    def one(self, index: Any) -> Any:
        return self.source[index]

    def one_by_one(self, indices: Iterable[int]) -> Iterator[Any]:
        """The record at each of `indices`; an error says which one it was."""
        source = self.source
        for index in indices:
            try:
                record = source[index]
            except Exception as error:
                add_place(error, self.name, index)
                raise
            yield record


class Batches(Items):
    """A source that reads many records in one call of `__getitems__`."""

    def many(self, indices: list[int]) -> Sequence[Any]:
        records: Sequence[Any] = self.source.__getitems__(indices)
        if len(records) != len(indices):
            raise ValueError(
                f"{type(self.source).__name__}.__getitems__ was asked for {len(indices)} records and returned "
                f"{len(records)}: it must return one for each index, in their order."
            )
        return records

    def before_failure(self, indices: list[int]) -> tuple[list[Any], Exception | None]:
        """The records before the one because of which `many` fails, and its error; nothing if none fails by itself."""
        found: list[Any] = []
        try:
            for record in self.one_by_one(indices):
                found.append(record)
        except Exception as error:
            return found, error
        return [], None


class Rows(Items):
    """An array of numbers: a batch of rows is one gather."""

    def columns(self, indices: IndexArray) -> Columns:
        source, wanted = self.source, indices.astype(np.int64, copy=False)
        axis = None if source.ndim == 1 else 0

        def gather(start: int, stop: int, allocate: Allocate | None) -> Any:
            if allocate is None:
                return source.take(wanted[start:stop], axis)
            rows = allocate((stop - start, *source.shape[1:]), source.dtype)
            return source.take(wanted[start:stop], axis, rows, "clip")  # "raise" would make a copy first

        return gather


class Tables(Batches):
    """A source that gives whole batches, column by column."""

    def columns(self, indices: IndexArray) -> Columns:
        source, wanted = self.source, indices.astype(np.int64, copy=False)
        return lambda start, stop, allocate: source.batch(wanted[start:stop], allocate)


Records: TypeAlias = Indices | Items


def records_of(source: Any) -> Items:
    """How to read `source`."""
    if type(source) is np.ndarray and source.ndim and source.dtype.kind in "biufc" and source.dtype.isnative:
        return Rows(source)
    if isinstance(source, ColumnarDataSource):
        return Tables(source)
    if hasattr(type(source), "__getitems__"):
        return Batches(source)
    return Items(source)
