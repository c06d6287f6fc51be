"""Columns of an Arrow file that is mapped into memory: nothing is copied but the rows that are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from grain.sources.arrow_columns import Arrows, is_number, pa, values_of
from grain.sources.columns import Column, Flat, Values, gathered
from grain.stacking import Allocate


def mapped_column(memory: Any, batches: Sequence[Any], may_be_null: bool) -> Column:
    """The column whose arrays, one for each record batch, are in `memory`."""
    kind = batches[0].type
    if not may_be_null and not any(batch.null_count for batch in batches):
        if is_number(kind) and not pa.types.is_boolean(kind):
            return Numbers(memory, batches, batches[0][:0].to_numpy().dtype)
        if pa.types.is_string(kind) or pa.types.is_binary(kind):
            return Strings(memory, batches, np.dtype(np.int32))
        if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
            return Strings(memory, batches, np.dtype(np.int64))
    return Spread(batches, may_be_null)


class _Batches:
    """Which record batch a row is in, and where in it."""

    def __init__(self, batches: Sequence[Any]) -> None:
        lengths = [len(batch) for batch in batches]
        self._ends = np.cumsum(lengths, dtype=np.int64)
        self._starts = self._ends - lengths

    def places(self, keys: Any) -> tuple[Any, Any]:
        numbers = np.searchsorted(self._ends, keys, side="right")
        return numbers, keys - self._starts[numbers]


class Numbers(Column):
    """Numbers of which none is missing: the file itself is one array of them, in which each batch begins somewhere."""

    nbytes = 0

    def __init__(self, memory: Any, batches: Sequence[Any], dtype: Any) -> None:
        self._batches = _Batches(batches)
        self._file = np.frombuffer(memory, dtype, memory.size // dtype.itemsize)
        begins = [_begin(memory, batch, 1) // dtype.itemsize + batch.offset for batch in batches]
        self._begins = np.array(begins, np.int64)

    def take(self, keys: Any, allocate: Allocate | None = None) -> Flat:
        numbers, places = self._batches.places(keys)
        return Flat(gathered(self._file, self._begins[numbers] + places, allocate))


class Strings(Column):
    """Strings or bytes of which none is missing."""

    nbytes = 0

    def __init__(self, memory: Any, batches: Sequence[Any], offset_type: Any) -> None:
        self._type, self._batches, self._bytes = batches[0].type, _Batches(batches), memoryview(memory)
        self._offsets = np.frombuffer(memory, offset_type, memory.size // offset_type.itemsize)
        offsets = [_begin(memory, batch, 1) // offset_type.itemsize + batch.offset for batch in batches]
        self._begins = np.array(offsets, np.int64)
        self._data = np.array([_begin(memory, batch, 2) for batch in batches], np.int64)

    def take(self, keys: Any, allocate: Allocate | None = None) -> Arrows:
        numbers, places = self._batches.places(keys)
        places += self._begins[numbers]
        begins, ends = self._offsets.take(places), self._offsets.take(places + 1)
        offsets = np.zeros(len(keys) + 1, self._offsets.dtype)
        np.cumsum(ends - begins, out=offsets[1:])
        data, whole = self._data[numbers], self._bytes
        extents = zip((data + begins).tolist(), (data + ends).tolist(), strict=True)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join([whole[begin:end] for begin, end in extents]))]
        return Arrows(pa.Array.from_buffers(self._type, len(keys), buffers))


class Spread(Column):
    """Values of any type, in an Arrow array for each record batch."""

    nbytes = 0

    def __init__(self, arrays: Sequence[Any], may_be_null: bool) -> None:
        self._arrays, self._batches, self._may_be_null = arrays, _Batches(arrays), may_be_null

    def take(self, keys: Any, allocate: Allocate | None = None) -> Values:
        numbers, places = self._batches.places(keys)
        arrays = self._arrays
        rows = [arrays[number].slice(place, 1) for number, place in zip(numbers.tolist(), places.tolist(), strict=True)]
        return values_of(pa.concat_arrays(rows), self._may_be_null)


def _begin(memory: Any, array: Any, number: int) -> int:
    """Where a buffer of an array begins in the file."""
    buffer = array.buffers()[number]
    return int(buffer.address - memory.address) if buffer is not None and buffer.size else 0
