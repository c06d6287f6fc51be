"""What a source is, and the simplest one."""

from __future__ import annotations

import abc
import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, SupportsIndex, TypeVar, runtime_checkable

import numpy as np

from grain.elements.stacking import Allocate

if TYPE_CHECKING:
    import numpy.typing as npt

T = TypeVar("T", covariant=True)


@runtime_checkable
class RandomAccessDataSource(Protocol[T]):
    """Records by their numbers: lists and arrays are sources. With `__getitems__(indices)` a batch is read in one call.

    It is pickled for worker processes, and checkpoints of a DataLoader are validated by its `repr`.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, record_key: int, /) -> T: ...


class ColumnarDataSource(abc.ABC, Generic[T]):
    """A source that keeps its records in columns: a batch of them is made without making the records."""

    @abc.abstractmethod
    def __len__(self) -> int: ...

    @abc.abstractmethod
    def __getitems__(self, record_keys: Sequence[int], /) -> Sequence[T]:
        """One record for each key."""

    @abc.abstractmethod
    def batch(self, record_keys: npt.NDArray[np.int64], allocate: Allocate | None = None) -> Any:
        """What `stacked` makes of the records of an array of keys; large arrays are made by `allocate`.

        The keys are in range and not negative, as those of pipelines are: nobody looks at each of them again.
        """

    def __getitem__(self, record_key: SupportsIndex) -> T:
        key, count = operator.index(record_key), len(self)
        if not -count <= key < count:
            raise _out_of_range(key, count)
        return self._record(key % count)

    def _keys(self, record_keys: Any) -> Any:
        """The keys as an array, of which none is negative."""
        keys: Any = np.asarray(record_keys, np.int64)
        count = len(self)
        if len(keys) and keys.view(np.uint64).max() >= count:  # as one that has no sign a negative number is large
            wrong = keys[(keys < -count) | (keys >= count)]
            if len(wrong):
                raise _out_of_range(wrong[0], count)
            keys = keys % count
        return keys

    def _record(self, key: int) -> T:
        """One record; overridden where that is cheaper than a batch of one."""
        return self.__getitems__([key])[0]


def _out_of_range(key: int, count: int) -> IndexError:
    return IndexError(f"Index {key} out of range for {count} records.")


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
