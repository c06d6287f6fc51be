"""Columns of an Arrow file that is mapped into memory: nothing is copied but the rows that are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from grain.elements.stacking import Allocate
from grain.sources.arrow_columns import Arrows, is_number, pa, values_of
from grain.sources.columns import Column, Flat, Values, gathered


def mapped_column(memory: Any, batches: Sequence[Any], may_be_null: bool) -> Column:
    """The column with an array for each record batch; those as they are in `memory` are read from there."""
    kind = batches[0].type
    if not may_be_null and all(is_inside(memory, batch) and not batch.null_count for batch in batches):
        if is_number(kind) and not pa.types.is_boolean(kind):
            return Numbers(memory, batches, batches[0][:0].to_numpy(zero_copy_only=False).dtype)
        if pa.types.is_string(kind) or pa.types.is_binary(kind):
            return Strings(memory, batches, np.dtype(np.int32))
        if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
            return Strings(memory, batches, np.dtype(np.int64))
    return Spread(batches, may_be_null)


def is_inside(memory: Any, array: Any) -> bool:
    """Whether an Arrow array is part of `memory`."""
    start, end = memory.address, memory.address + memory.size
    return all(start <= buffer.address < end for buffer in array.buffers() if buffer is not None and buffer.size)


class _Batches:
    """Which record batch a row is in, and where in it."""

    def __init__(self, batches: Sequence[Any]) -> None:
        lengths = [len(batch) for batch in batches]
        self._ends = np.cumsum(lengths, dtype=np.int64)
        self._starts = self._ends - lengths

    def places(self, keys: Any) -> tuple[Any, Any]:
        numbers = np.searchsorted(self._ends, keys, side="right")
        return numbers, keys - self._starts[numbers]


class _Buffer:
    """One of the buffers of each record batch. The file itself is one array, in which each of them begins somewhere."""

    def __init__(self, memory: Any, batches: Sequence[Any], number: int, dtype: Any) -> None:
        self.file = np.frombuffer(memory, dtype, memory.size // dtype.itemsize)
        buffers = [batch.buffers()[number] for batch in batches]
        begins = [buffer.address - memory.address if buffer is not None and buffer.size else 0 for buffer in buffers]
        self.begins = np.array(begins, np.int64) // dtype.itemsize  # Arrow aligns buffers to 8 bytes


class Numbers(Column):
    """Numbers of which none is missing."""

    nbytes = 0

    def __init__(self, memory: Any, batches: Sequence[Any], dtype: Any) -> None:
        self._batches, self._buffer = _Batches(batches), _Buffer(memory, batches, 1, dtype)

    def take(self, keys: Any, allocate: Allocate | None = None) -> Flat:
        numbers, places = self._batches.places(keys)
        return Flat(gathered(self._buffer.file, self._buffer.begins[numbers] + places, allocate))


class Strings(Column):
    """Strings or bytes of which none is missing."""

    nbytes = 0

    def __init__(self, memory: Any, batches: Sequence[Any], offset_type: Any) -> None:
        self._type, self._batches = batches[0].type, _Batches(batches)
        self._offsets = _Buffer(memory, batches, 1, offset_type)
        self._data = _Buffer(memory, batches, 2, np.dtype(np.uint8))

    def take(self, keys: Any, allocate: Allocate | None = None) -> Arrows:
        numbers, places = self._batches.places(keys)
        places += self._offsets.begins[numbers]
        begins, ends = self._offsets.file.take(places), self._offsets.file.take(places + 1)
        offsets = np.zeros(len(keys) + 1, begins.dtype)
        np.cumsum(ends - begins, out=offsets[1:])
        data, file = self._data.begins[numbers], self._data.file.data
        extents = zip((data + begins).tolist(), (data + ends).tolist(), strict=True)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join([file[begin:end] for begin, end in extents]))]
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
