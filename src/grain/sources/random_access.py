"""What a source is, and the simplest one."""

from __future__ import annotations

import math
import operator
from typing import Protocol, SupportsIndex, TypeVar, runtime_checkable

T = TypeVar("T", covariant=True)


@runtime_checkable
class RandomAccessDataSource(Protocol[T]):
    """Records by their numbers: lists and arrays are sources. With `__getitems__(indices)` a batch is read in one call.

    It is pickled for worker processes, and checkpoints of a DataLoader are validated by its `repr`.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, record_key: SupportsIndex, /) -> T: ...


class RangeDataSource:
    """The numbers from `start` to `stop`, as a source.

    >>> list(RangeDataSource(2, 9, 3))
    [2, 5, 8]
    """

    def __init__(self, start: int, stop: int, step: int) -> None:
        if step == 0:
            raise AssertionError("step can't be zero.")
        self._start, self._stop, self._step = start, stop, step
        self._length = math.ceil((stop - start) / step)
        if self._length < 0:
            raise AssertionError(f"length can't be negative. Got {self!r}.")

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, record_key: SupportsIndex) -> int:
        key = operator.index(record_key)
        if not 0 <= key < self._length:
            raise IndexError(f"Index {key} out of range for {self._length}")
        return self._start + key * self._step

    def __repr__(self) -> str:
        return f"RangeDataSource(start={self._start}, stop={self._stop}, step={self._step})"
