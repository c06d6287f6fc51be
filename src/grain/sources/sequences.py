"""Files of records that lie one after the other, by index and as streams.

A format says where records lie (`spans`) and what the bytes of one hold (`record`); all else is here. What is damaged
has a span too, and its error comes from `record`: so it is met where it lies, and what comes after it is read.
"""

from __future__ import annotations

import functools
import operator
import os
import sys
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, Generic, Protocol, SupportsIndex, TypeVar

import numpy as np

from grain.fields import Fields, Frozen
from grain.files.paths import File, PathLike, Range, described, files_of, for_each, read_ranges
from grain.files.streamed_files import StreamedFile
from grain.files.versions import FileChangedError
from grain.sources.byte_streams import Reading, is_gzip
from grain.sources.indexing import kept_index

T = TypeVar("T", covariant=True)

_OPEN_INDEXES = 64
_PASSED_OVER = sys.maxsize
"""In place of an offset: the file was changed, and what is left of it is of another version."""


class Format(Hashable, Protocol):
    """How records lie in a file; it is pickled with the sources that read such files."""

    name: str
    """Of the format: in errors, in the names of its indexes and of its classes."""

    def is_compressed(self, start: bytes) -> bool:
        """Whether a file that begins with these bytes is compressed."""

    def spans(self, reading: Reading, offset: int) -> Iterator[tuple[int, int]]:
        """Where the records from `offset` on start and stop."""

    def offsets(self, reading: Reading) -> Any:
        """Where every record starts, and at the end where the last one stops, perhaps beyond the end of the file."""

    def record(self, data: bytes, path: str, offset: int) -> Any:
        """What the bytes of a span hold. After those of the record there may be some that belong to none."""


class Spanned(Frozen):
    """A format whose files are indexed by going through them."""

    is_compressed = staticmethod(is_gzip)

    def offsets(self: Any, reading: Reading) -> Any:
        """All spans as one array."""
        return offsets_of(self.spans(reading, 0))


def offsets_of(spans: Iterable[tuple[int, int]]) -> Any:
    """Where each span starts, and at the end where the last one stops."""
    starts, end = [], 0
    for start, stop in spans:
        starts.append(start)
        end = stop
    return np.array([*starts, end], np.int64)


class SequenceDataSource(Generic[T]):
    """The records of files by index. Where they lie is found once for each file, and kept."""

    def __init__(self, paths: PathLike | Sequence[PathLike], format: Format, index_folder: PathLike | None) -> None:
        self._format, self._folder = format, None if index_folder is None else os.fsdecode(index_folder)
        self._files = files_of(paths)
        found = for_each(self._count_and_index, self._files)
        # What could not be kept is held here, and goes to workers with the source.
        self._held = {number: index for number, (_, index) in enumerate(found) if index is not None}
        self._ends = np.cumsum([count for count, _ in found])

    def _count_and_index(self, file: File) -> tuple[int, Any]:
        """How many records a file has and, where that cannot be mapped into memory, where they are."""
        index = _index(file, self._format, self._folder)
        return len(index) - 1, None if isinstance(index, np.memmap) else index

    @property
    def paths(self) -> list[str]:
        """The files, in order."""
        return [file.path for file in self._files]

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, record_key: SupportsIndex) -> T:
        key, count = operator.index(record_key), len(self)
        if not -count <= key < count:
            raise self._out_of_range(key)
        # The same as for many, without arrays, which take longer for one.
        number = int(self._ends.searchsorted(key % count, "right"))
        row = key % count - (int(self._ends[number - 1]) if number else 0)
        start, stop = self._index(number)[row : row + 2].tolist()
        file = self._files[number]
        return self._record(key, file.path, start, file.read(start, stop))

    def __getitems__(self, record_keys: Sequence[int]) -> list[T]:
        ranges = self._ranges(record_keys)
        found = zip(record_keys, ranges, read_ranges(ranges), strict=True)
        return [self._record(key, file.path, start, data) for key, (file, start, _), data in found]

    def _ranges(self, record_keys: Sequence[int]) -> list[Range]:
        """Where the records are."""
        keys, count = np.asarray(record_keys, np.int64), len(self)
        for key in keys[(keys < -count) | (keys >= count)].tolist():
            raise self._out_of_range(key)
        keys = np.where(keys < 0, keys + count, keys)
        numbers = self._ends.searchsorted(keys, "right")
        ranges: list[Any] = [None] * len(keys)
        for number in np.unique(numbers).tolist():
            members = np.flatnonzero(numbers == number)
            rows = keys[members] - (self._ends[number - 1] if number else 0)
            file, index = self._files[number], self._index(number)
            starts, stops = index[rows].tolist(), index[rows + 1].tolist()
            for member, start, stop in zip(members.tolist(), starts, stops, strict=True):
                ranges[member] = file, start, stop
        return ranges

    def _out_of_range(self, key: int) -> IndexError:
        return IndexError(f"Index {key} out of range for {len(self)} records.")

    def _index(self, number: int) -> Any:
        held = self._held.get(number)
        return _mapped(self._files[number], self._format, self._folder) if held is None else held

    def _record(self, key: int, path: str, start: int, data: bytes) -> T:
        try:
            return self._format.record(data, path, start)  # type: ignore[no-any-return]
        except Exception as error:
            error.add_note(f"Raised by reading record {key} of {self!r}.")
            raise

    def __repr__(self) -> str:
        return f"{type(self).__name__}({described([file.path for file in self._files])})"


def _index(file: File, format: Format, folder: str | None) -> Any:
    return kept_index(file, format.name.lower(), lambda: _offsets(file, format), folder)


# Each one that is mapped into memory takes a file descriptor, of which there may be few.
@functools.lru_cache(_OPEN_INDEXES)
def _mapped(file: File, format: Format, folder: str | None) -> Any:
    return _index(file, format, folder).view(np.ndarray)


def _offsets(file: File, format: Format) -> Any:
    with Reading.of(file.path, format.is_compressed, file.version) as reading:
        if reading.is_compressed:
            raise ValueError(
                f"{file.path!r} is compressed, so its records cannot be read by index. Unpack it, or read it as a "
                f"stream with {format.name}IterDataset."
            )
        return np.minimum(format.offsets(reading), file.size)


class SequenceStream(Frozen):
    """The records of one file, from its start to its end."""

    file: StreamedFile
    format: Any

    class State(Fields):
        reader_offset: int = 0
        _reading: Any = None
        """Left open where a record was bad: a compressed file would have to be unpacked again up to there."""

        def __del__(self) -> None:
            if self._reading is not None:
                self._reading.close()

    def read(self, state: Any) -> Iterator[Any]:
        if state.reader_offset == _PASSED_OVER:
            return
        reading, state._reading = state._reading or self._opened(state), None
        try:
            yield from records_from(reading, self.format, state)
        except FileChangedError:
            state.reader_offset = _PASSED_OVER
            raise
        except ValueError:
            state._reading = reading
            raise
        finally:
            if state._reading is None:
                reading.close()

    def _opened(self, state: Any) -> Reading:
        try:
            version = self.file.version(is_start=state.reader_offset == 0)
            return Reading.of(self.file.path, self.format.is_compressed, version)
        except FileChangedError:
            state.reader_offset = _PASSED_OVER
            raise

    def __str__(self) -> str:
        return repr(self.file.path)


def records_from(reading: Reading, format: Format, state: Any) -> Iterator[Any]:
    """The records from `state` on; whenever it yields or raises, `state` tells how to go on."""
    for start, stop in format.spans(reading, state.reader_offset):
        data = reading.piece(start, stop)
        state.reader_offset = start + len(data)
        try:
            record = format.record(data, reading.path, start)
        except ValueError:
            if reading.damage is None or state.reader_offset < reading.damage[0]:
                raise
            break  # it is cut off there, which is said below
        yield record
    if reading.damage is not None and state.reader_offset <= reading.damage[0]:
        end, reason = reading.damage
        state.reader_offset = end + 1  # so that it is said once
        raise ValueError(f"{reading.path!r} is compressed, and damaged after byte {end} of what it holds: {reason}.")
