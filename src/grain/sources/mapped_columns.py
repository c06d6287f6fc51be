"""Columns of an Arrow file that is mapped into memory: nothing is copied but the rows that are asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from grain.elements.stacking import Allocate
from grain.sources.arrow_checks import wrong_extent
from grain.sources.arrow_columns import Arrows, is_number, pa, values_of
from grain.sources.columns import Column, Flat, Values, gathered


def mapped_column(
    memory: Any, arrays: Sequence[Any], may_be_null: bool, read: Callable[[int], Any], where: Callable[[int], str]
) -> Column:
    """The column with an array for each record batch; those as they are in `memory` are read from there.

    `read` gives the array of a record batch by its number, checked and of its plain type; `where` names it in errors.
    """
    stored = [array.storage if isinstance(array, pa.ExtensionArray) else array for array in arrays]
    kind = stored[0].type
    dtype = _number_type(kind) or _offset_type(kind)
    if may_be_null or dtype is None or not all(_is_read_in_place(memory, array, dtype) for array in stored):
        return Spread(arrays, may_be_null, read)
    return Numbers(memory, stored, dtype) if _number_type(kind) else Strings(memory, stored, dtype, where)


def is_inside(memory: Any, array: Any) -> bool:
    """Whether an Arrow array is part of `memory`."""
    start, end = memory.address, memory.address + memory.size
    return all(start <= buffer.address < end for buffer in array.buffers() if buffer is not None and buffer.size)


def _is_read_in_place(memory: Any, array: Any, dtype: Any) -> bool:
    buffer = array.buffers()[1]
    is_aligned = buffer is None or (buffer.address - memory.address) % dtype.itemsize == 0
    return is_aligned and array.offset == 0 and not array.null_count and is_inside(memory, array)


def _number_type(kind: Any) -> Any:
    """The type of NumPy whose numbers lie in memory as those of an Arrow type do, if there is one."""
    if not is_number(kind):
        return None
    dtype = pa.array([], kind).to_numpy(zero_copy_only=False).dtype
    return dtype if kind.bit_width == 8 * dtype.itemsize else None  # days are larger in NumPy, and bools too


def _offset_type(kind: Any) -> Any:
    """The type of the offsets of strings or bytes."""
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return np.dtype(np.int32)
    return np.dtype(np.int64) if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind) else None


class _Batches:
    """Which record batch a row is in, and where in it."""

    def __init__(self, batches: Sequence[Any]) -> None:
        lengths = [len(batch) for batch in batches]
        self._ends = np.cumsum(lengths, dtype=np.int64)
        self._starts = self._ends - lengths

    def places(self, keys: Any) -> tuple[Any, Any]:
        numbers = np.searchsorted(self._ends, keys, side="right")
        return numbers, keys - self._starts.take(numbers)


class _Buffer:
    """One of the buffers of each record batch. The file itself is one array, in which each of them begins somewhere."""

    def __init__(self, memory: Any, batches: Sequence[Any], number: int, dtype: Any) -> None:
        self.file = np.frombuffer(memory, dtype, memory.size // dtype.itemsize)
        buffers = [batch.buffers()[number] for batch in batches]
        self.sizes = np.array([buffer.size if buffer is not None else 0 for buffer in buffers], np.int64)
        begins = [buffer.address - memory.address if buffer is not None and buffer.size else 0 for buffer in buffers]
        self.begins = np.array(begins, np.int64) // dtype.itemsize


class Numbers(Column):
    """Numbers of which none is missing."""

    nbytes = 0

    def __init__(self, memory: Any, batches: Sequence[Any], dtype: Any) -> None:
        self._batches, self._buffer = _Batches(batches), _Buffer(memory, batches, 1, dtype)

    def take(self, keys: Any, allocate: Allocate | None = None) -> Flat:
        numbers, places = self._batches.places(keys)
        return Flat(gathered(self._buffer.file, self._buffer.begins.take(numbers) + places, allocate))


class Strings(Column):
    """Strings or bytes of which none is missing."""

    nbytes = 0

    def __init__(self, memory: Any, batches: Sequence[Any], offset_type: Any, where: Callable[[int], str]) -> None:
        self._type, self._batches, self._where = batches[0].type, _Batches(batches), where
        self._offsets = _Buffer(memory, batches, 1, offset_type)
        self._data = _Buffer(memory, batches, 2, np.dtype(np.uint8))

    def take(self, keys: Any, allocate: Allocate | None = None) -> Arrows:
        numbers, places = self._batches.places(keys)
        at = self._offsets.begins.take(numbers) + places
        begins, ends = self._offsets.file.take(at), self._offsets.file.take(at + 1)
        lengths, sizes = ends - begins, self._data.sizes.take(numbers)
        if (begins | ends | lengths | (sizes - ends)).min() < 0:  # one of them, at least
            wrong = wrong_extent(begins, ends, sizes)
            raise ValueError(
                f"{self._where(int(numbers[wrong]))} cannot be read: row {places[wrong]} of it reaches from byte "
                f"{begins[wrong]} to {ends[wrong]}, where there are {sizes[wrong]}."
            )
        offsets = np.zeros(len(keys) + 1, begins.dtype)
        np.cumsum(lengths, out=offsets[1:])
        data, file = self._data.begins.take(numbers), self._data.file.data
        extents = zip((data + begins).tolist(), (data + ends).tolist(), strict=True)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join([file[begin:end] for begin, end in extents]))]
        return Arrows(pa.Array.from_buffers(self._type, len(keys), buffers))


class Spread(Column):
    """Values of any type, in an Arrow array for each record batch, which is read when a row of it is first wanted."""

    nbytes = 0

    def __init__(self, batches: Sequence[Any], may_be_null: bool, read: Callable[[int], Any]) -> None:
        self._batches, self._may_be_null, self._read = _Batches(batches), may_be_null, read
        self._arrays: list[Any] = [None] * len(batches)

    def take(self, keys: Any, allocate: Allocate | None = None) -> Values:
        found = self._batches.places(keys)
        numbers, places, arrays = found[0].tolist(), found[1].tolist(), self._arrays
        for number in set(numbers):
            if arrays[number] is None:
                arrays[number] = self._read(number)
        rows = [arrays[number].slice(place, 1) for number, place in zip(numbers, places, strict=True)]
        return values_of(pa.concat_arrays(rows), self._may_be_null)
