"""Records in memory that all processes share."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterable
from typing import Any, Generic, SupportsIndex, TypeVar, overload

import numpy as np

from grain.elements.plain_encoding import decoded, encoded, pickled, unpickled
from grain.elements.shared_memory import SharedMemoryArray, named_block, opened_block

T = TypeVar("T", covariant=True)
_MARK = b"grain.1\n"
"""With which blocks begin."""
_HEADER = len(_MARK) + 8


class SharedMemoryDataSource(Generic[T]):
    """Records of any kind that can be pickled, kept once for all processes that read them.

    With a `name`, other programs of the same user open the same records by it: `SharedMemoryDataSource(name=...)`. They
    stay until `unlink` is called, or the program that made them ends. A block of another user, one that others may use,
    and one that is not of this kind are refused before anything in them is read. Of what a named block holds, only
    that is pickled which is not made of plain values, bytes and arrays.

    >>> source = SharedMemoryDataSource([{"a": 1}, {"a": [2, 3]}])
    >>> source[1], len(source)
    ({'a': [2, 3]}, 2)
    """

    @overload
    def __init__(self, elements: Iterable[T], *, name: str | None = None) -> None: ...
    @overload
    def __init__(self: SharedMemoryDataSource[Any], elements: None = None, *, name: str) -> None: ...
    def __init__(self, elements: Iterable[T] | None = None, *, name: str | None = None) -> None:
        if elements is None and name is None:
            raise ValueError("Elements or name must be provided.")
        self._name = name
        if elements is None:
            assert name is not None
            memory = opened_block(name)
            _check(memory.view(np.ndarray), name)
            self._load(memory)
        elif name is None:
            # An array in a pipeline goes to all workers in one piece of shared memory: it needs no name.
            self._load(_packed([pickled(element) for element in elements]))
        else:
            self._load(named_block(name, _packed([encoded(element) for element in elements])))

    def _load(self, memory: Any) -> None:
        self._memory, everything = memory, memory.view(np.ndarray)
        count = _count(everything)
        self._ends = everything[_HEADER : _HEADER + 8 * count].view(np.int64)
        self._records = everything[_HEADER + 8 * count :]
        self._view = memoryview(self._records)
        # Others have no say in what a block without a name holds; it is pickled, which is faster to read.
        self._decode = unpickled if self._name is None else decoded

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, record_key: SupportsIndex) -> T:
        key, count = operator.index(record_key), len(self)
        place = key + count if key < 0 else key
        if not 0 <= place < count:
            raise IndexError(f"Index {key} out of range for {count} records.")
        start = self._ends[place - 1] if place else 0
        return self._decode(self._view[start : self._ends[place]])  # type: ignore[no-any-return]

    @property
    def shm(self) -> Any:
        """The block of shared memory, where it has a name."""
        return self._memory.shm if isinstance(self._memory, SharedMemoryArray) else None

    def close(self) -> None:
        """Let go of the records in this process."""
        self._load(_packed([]))

    def unlink(self) -> None:
        """Remove the records; who has opened them keeps them."""
        if isinstance(self._memory, SharedMemoryArray):
            with contextlib.suppress(FileNotFoundError):
                self._memory.metadata.close_and_unlink_shm()

    def _accepts_description(self, description: str) -> bool:
        """Grain described such a source by all its records and a name that was new in every run."""
        return description.startswith("SharedMemoryDataSource([")

    def __reduce__(self) -> Any:
        if self._name is None:
            return _from_memory, (self._memory,)
        return _from_name, (self._name,)

    def __str__(self) -> str:
        return f"InMemoryDataSource(name={self._name}, len={len(self)})"

    def __repr__(self) -> str:
        return f"SharedMemoryDataSource(len={len(self)})"


def _from_memory(memory: Any) -> SharedMemoryDataSource[Any]:
    source: SharedMemoryDataSource[Any] = SharedMemoryDataSource.__new__(SharedMemoryDataSource)
    source._name = None
    source._load(memory)
    return source


def _from_name(name: str) -> SharedMemoryDataSource[Any]:
    return SharedMemoryDataSource(name=name)


def _packed(records: list[bytes]) -> Any:
    """A mark, how many there are, where each one ends, and then all of them."""
    ends = np.cumsum([len(record) for record in records], dtype=np.int64)
    header = np.concatenate([np.array([len(records)], np.int64), ends])
    return np.frombuffer(b"".join([_MARK, header.tobytes(), *records]), np.uint8)


def _count(everything: Any) -> int:
    return int(everything[len(_MARK) : _HEADER].view(np.int64)[0])


def _check(everything: Any, name: str) -> None:
    """Raise an error if a block does not hold records; it may be larger than they are."""
    room = len(everything) - _HEADER
    if room >= 0 and everything[: len(_MARK)].tobytes() == _MARK and 0 <= _count(everything) <= room // 8:
        count = _count(everything)
        ends = np.concatenate([[0], everything[_HEADER : _HEADER + 8 * count].view(np.int64)])
        if (np.diff(ends) >= 0).all() and ends[-1] <= room - 8 * count:
            return
    raise ValueError(
        f"The block of shared memory {name!r} was not made by a SharedMemoryDataSource, or is damaged: it is not read. "
        "Choose another name."
    )
