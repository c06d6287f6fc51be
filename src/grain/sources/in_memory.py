"""Records in memory that all processes share."""

from __future__ import annotations

import contextlib
import operator
import pickle
from collections.abc import Iterable
from typing import Any, Generic, SupportsIndex, TypeVar, overload

import numpy as np

from grain.elements.shared_memory import SharedMemoryArray, named_block, opened_block

T = TypeVar("T", covariant=True)


class SharedMemoryDataSource(Generic[T]):
    """Records of any kind that can be pickled, kept once for all processes that read them.

    With a `name`, other programs open the same records by it: `SharedMemoryDataSource(name=...)`. They stay until
    `unlink` is called, or the program that made them ends.

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
            self._load(opened_block(name))
        elif name is None:
            # An array in a pipeline goes to all workers in one piece of shared memory: it needs no name.
            self._load(_packed(elements))
        else:
            self._load(named_block(name, _packed(elements)))

    def _load(self, memory: Any) -> None:
        self._memory, everything = memory, memory.view(np.ndarray)
        count = int(everything[:8].view(np.int64)[0])
        self._ends = everything[8 : 8 + 8 * count].view(np.int64)
        self._records = everything[8 + 8 * count :]

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, record_key: SupportsIndex) -> T:
        key, count = operator.index(record_key), len(self)
        place = key + count if key < 0 else key
        if not 0 <= place < count:
            raise IndexError(f"Index {key} out of range for {count} records.")
        start = self._ends[place - 1] if place else 0
        return pickle.loads(self._records[start : self._ends[place]])  # type: ignore[no-any-return]

    @property
    def shm(self) -> Any:
        """The block of shared memory, where it has a name."""
        return self._memory.shm if isinstance(self._memory, SharedMemoryArray) else None

    def close(self) -> None:
        """Let go of the records in this process."""
        self._load(_packed(()))

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


def _packed(elements: Iterable[Any]) -> Any:
    """How many there are, where each one ends, and then all of them, pickled."""
    records = [_pickled(element) for element in elements]
    ends = np.cumsum([len(record) for record in records], dtype=np.int64)
    header = np.concatenate([np.array([len(records)], np.int64), ends])
    return np.frombuffer(b"".join([header.tobytes(), *records]), np.uint8)


def _pickled(element: Any) -> bytes:
    pickled = pickle.dumps(element, protocol=5)
    if b"__main__" not in pickled:
        return pickled
    import cloudpickle  # for what workers cannot import, because it is defined in the program itself

    return cloudpickle.dumps(element, protocol=5)  # type: ignore[no-any-return]
