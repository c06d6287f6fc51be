"""A table in chunks that are read when rows of them are asked for, and kept while there is room."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Protocol, TypeGuard

import numpy as np

from grain.elements.stacking import Allocate
from grain.forks import begins_again
from grain.options import warn
from grain.sources.arrow_columns import MOST_BYTES
from grain.sources.columns import Column, Columns, Flat, Table, Values, raise_unreadable, taken

CACHE_BYTES = 1 << 30
"""How much of a source is kept in each process, unless told otherwise."""
_READS_BEFORE_WARNING = 4


class ChunkReader(Protocol):
    """What reads the chunks of a table, which it knows by their numbers."""

    def __call__(self, number: int) -> Columns: ...

    def where(self, number: int) -> str:
        """What a chunk is called in errors."""


class Chunks:
    """Rows of chunks that `read` gives, of which up to `limit` bytes are kept in each process.

    1. A chunk that is kept is not read again. Threads that want the same one wait for the first of them to read it.
    2. While a chunk is read, no lock is held but its own; an interrupt leaves none behind.
    3. When all have been read, and take at most half of the limit, they become one table: a batch is one gather of
       each column then, however many chunks its rows were in.
    4. Where they do not fit, those that were not used for the longest time are dropped.
    """

    def __init__(self, lengths: Sequence[int], read: ChunkReader, limit: int) -> None:
        self._lengths, self._read, self._limit = lengths, read, limit
        self._ends = np.cumsum(lengths, dtype=np.int64)
        self._starts = self._ends - lengths
        self._length = sum(lengths)
        self._kept: OrderedDict[int, Columns] = OrderedDict()
        self._bytes = self._reads = 0
        self._whole: Table | None = None
        self.begin_again()
        begins_again(self)

    def begin_again(self) -> None:
        """In a forked process, too: a thread that held a lock is not there to release it."""
        self._lock = threading.Lock()
        self._read_locks: dict[int, threading.Lock] = {}

    def __reduce__(self) -> Any:
        return Chunks, (self._lengths, self._read, self._limit)

    def __len__(self) -> int:
        return self._length

    def row(self, key: int) -> dict[str, Any]:
        """The row with one key."""
        table: Columns | None = self._whole
        place = key
        if table is None:
            number = int(np.searchsorted(self._ends, key, side="right"))
            table, place = self._chunk(number), key - int(self._starts[number])
        try:
            return {name: column.row(place) for name, column in table.items()}
        except Exception:
            number = int(np.searchsorted(self._ends, key, side="right"))
            raise_unreadable(table, place, f"row {key - self._starts[number]} of {self._read.where(number)}")
            raise

    def taken(self, keys: Any, allocate: Allocate | None = None) -> Table:
        """The rows at an array of keys."""
        if self._whole is not None:
            return taken(self._whole, keys, allocate)
        numbers = np.searchsorted(self._ends, keys, side="right")
        wanted, counts = np.unique(numbers, return_counts=True)
        if len(wanted) == 1:
            return taken(self._chunk(wanted[0]), keys - self._starts[wanted[0]], allocate)
        order = np.argsort(numbers, kind="stable")
        pieces, stop = [], 0
        for number, count in zip(wanted.tolist(), counts.tolist(), strict=True):
            start, stop = stop, stop + count
            pieces.append(taken(self._chunk(number), keys[order[start:stop]] - self._starts[number]))
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return taken(_joined(pieces), back, allocate)

    def _chunk(self, number: int) -> Columns:
        chunk = self._kept_chunk(number)
        if chunk is None:
            with self._read_locks.setdefault(number, threading.Lock()):
                chunk = self._kept_chunk(number)  # another thread may have read it meanwhile
                if chunk is None:
                    chunk = self._read(number)
                    self._keep(number, chunk)
        return chunk

    def _kept_chunk(self, number: int) -> Columns | None:
        with self._lock:
            chunk = self._kept.get(number)
            if chunk is not None:
                self._kept.move_to_end(number)
            return chunk

    def _keep(self, number: int, chunk: Columns) -> None:
        with self._lock:
            if self._whole is not None:
                return
            self._kept[number] = chunk
            self._bytes += _size(chunk)
            self._reads += 1
            while self._bytes > self._limit and len(self._kept) > 1:
                self._bytes -= _size(self._kept.popitem(last=False)[1])
            is_complete = len(self._kept) == np.count_nonzero(self._lengths) and self._bytes <= self._limit / 2
            chunks = [self._kept[number] for number in sorted(self._kept)] if is_complete else []
            is_wasteful = self._reads == _READS_BEFORE_WARNING * len(self._lengths)
        if _can_be_joined(chunks):
            self._whole = _joined(chunks)
            self._kept = OrderedDict()
        elif is_wasteful:
            warn(
                f"Each of {len(self._lengths)} chunks (row groups, record batches) was decoded {_READS_BEFORE_WARNING} "
                f"times on average, because no more than {self._limit / 2**20:.0f} MiB of them are kept. Let more be "
                "kept (`cache_bytes`), read fewer columns (`columns`), shuffle within windows only (`window_shuffle`), "
                "or convert the data to ArrayRecord, which is made for random access."
            )


def _size(chunk: Columns) -> int:
    return sum(column.nbytes for column in chunk.values())


def _joined(chunks: Sequence[Table]) -> Table:
    return {name: type(values).joined([chunk[name] for chunk in chunks]) for name, values in chunks[0].items()}


def _can_be_joined(chunks: Sequence[Columns]) -> TypeGuard[Sequence[Table]]:
    """Whether all is in memory, and no column is larger than an array of Arrow can be."""

    def fits(columns: Sequence[Column]) -> bool:
        size = sum(column.nbytes for column in columns)
        return isinstance(columns[0], Flat) or (isinstance(columns[0], Values) and size < MOST_BYTES)

    return bool(chunks) and all(fits([chunk[name] for chunk in chunks]) for name in chunks[0])
