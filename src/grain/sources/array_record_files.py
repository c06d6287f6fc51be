"""One ArrayRecord file, read by several threads at once.

There are two ways. Going to a record and reading it takes 4 µs for 1 kB, and tells what is damaged, but holds the
interpreter's lock and is for one thread at a time. A list of numbers is read by the reader's own threads without that
lock, but takes 100 µs to begin and 10 µs for each record. So one is for files in memory, the other for slow disks.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import time
import weakref
from collections import deque
from typing import Any

from grain.escaping import printable_message
from grain.files.cache_folder import local_copy
from grain.files.paths import File
from grain.files.systems import is_remote
from grain.files.versions import FileChangedError
from grain.forks import Undivided, begins_again, never_freed
from grain.options import warn

_SLOW_GROUP = 50_000
"""Bytes in a group of records from which on unpacking it takes longer than all else about a random read."""
_UNPACKED_UNTIL_WARNING = 100


class _Readers:
    """The readers that this process has open. They share threads, which a fork leaves behind.

    Readers in a forked process go without threads, because even new ones would wait for those.
    """

    def __init__(self) -> None:
        self._files: deque[weakref.ref[RecordFile]] = deque()
        """Once for each reader, beginning with what was opened first."""
        self.have_threads = True
        begins_again(self)

    def begin_again(self) -> None:
        self.have_threads = self.have_threads and not self._files
        self._files.clear()

    def open(self, path: str, options: str) -> Any:
        with _PARALLEL:
            return _reader_class()(path, options if self.have_threads else _THREADS.sub(r"\1:0", options))

    def keep(self, file: RecordFile) -> None:
        """Take note that a file has another reader, and close the oldest one where there are too many."""
        self._files.append(weakref.ref(file))
        if len(self._files) > _most_open():
            oldest = self._files.popleft()()
            if oldest is not None:
                with contextlib.suppress(IndexError):  # all its readers are in use, or closed
                    oldest._idle.pop()


_READERS = _Readers()
_PARALLEL = Undivided()
_THREADS = re.compile(r"(readahead_buffer_size|max_parallelism):[^,]*")


class RecordFile:
    """The records of one file from `start` to `stop`, or to its end."""

    def __init__(
        self, path: str, start: int, stop: int | None, options: str, pace: Pace, file: File | None = None
    ) -> None:
        self.path, self.start, self.stop = path, start, stop
        self._options, self._pace = options, pace
        self._idle: list[Any] = []
        self._file = file
        self._local: File | None = None
        self._group: tuple[int, int] | None = None
        """How many records, and bytes, are packed together, where that is slow."""
        self._last_unpacked, self._unpacked, self._read = -1, 0, 0
        begins_again(self)

    def __reduce__(self) -> Any:
        return RecordFile, (self.path, self.start, self.stop, self._options, self._pace, self._file)

    def begin_again(self) -> None:
        """In a forked process: readers share threads and locks that do not work there."""
        never_freed(self._idle)
        self._idle = []

    def check_exists(self) -> None:
        """Raise an error now, not at the first record, if there is no such file on this machine."""
        if not is_remote(self.path):
            self._file = File(self.path)

    def count(self) -> int:
        """How many records there are."""
        if self.stop is None:
            self._idle.append(self._opened())
        assert self.stop is not None
        return self.stop - self.start

    def read(self, keys: list[int]) -> list[bytes]:
        """The records of this part of the file at ascending `keys`."""
        if self.start:
            keys = [key + self.start for key in keys]
        try:
            reader = self._idle.pop()
        except IndexError:
            reader = self._opened()
        if (group := self._group) is not None:
            self._notice_unpacking(keys, *group)
        records = self._pace.in_parallel(reader, keys) if self._pace.is_slow() and _READERS.have_threads else None
        if records is None:
            records = self._in_order(reader, keys)
        if self._local is not None:
            self._local.look(self.path)  # only now: it may have been changed meanwhile
        self._idle.append(reader)
        return records

    def _in_order(self, reader: Any, keys: list[int]) -> list[bytes]:
        records: list[bytes] = []
        seek, read, began = reader.seek, reader.read, time.perf_counter()
        try:
            for key in keys:
                seek(key)
                records.append(read())
        except RuntimeError as error:
            raise self._damage(f"Record {keys[len(records)]} of {self.path!r}", printable_message(error)) from None
        self._pace.judge(time.perf_counter() - began, len(keys))
        return records

    def close(self) -> None:
        """Close what is open and not being read from."""
        self._idle.clear()

    def _opened(self) -> Any:
        """A reader for one thread at a time."""
        file = self._file or File(self.path)
        path = local_copy(file)
        reader = _READERS.open(path, self._options)
        if not reader.ok():
            raise self._damage(repr(self.path), _reason(reader) or "its end is missing", file)
        count = reader.num_records()
        if self.stop is None:
            self.stop = count
        if not self.start <= self.stop <= count:
            raise ValueError(f"{self.path!r} has {count} records, not those from {self.start} to {self.stop}.")
        if self._group is None:
            self._group = _slow_group(reader, file, count)
        self._file = file
        if not file.is_remote:  # the copy of one that is stays what it is
            self._local = file
            file.check()
        _READERS.keep(self)
        return reader

    def _damage(self, what: str, reason: str, file: File | None = None) -> Exception:
        """The error to raise; `file` is given where the whole of it could not be opened."""
        before = file or self._file
        assert before is not None
        path = local_copy(before)
        os.stat(path)  # it may be gone
        if not os.access(path, os.R_OK):
            return PermissionError(f"{what} can not be read: this user has no permission to.")
        if os.path.isdir(path):
            return IsADirectoryError(f"{what} is a folder. To read the files in it, pass {self.path + '/*'!r}.")
        try:
            if not before.is_remote:
                before.check()
        except FileChangedError as error:
            return error
        if file is not None:
            return ValueError(
                f"{what} is not an ArrayRecord file, or was cut off while it was written or copied: "
                f"{reason if file.size else 'it is empty'}."
            )
        return ValueError(f"{what} can not be read: {reason or 'the file is damaged'}.")

    def _notice_unpacking(self, keys: list[int], records: int, size: int) -> None:
        """Warn, once, if a file is read at random that is made for being read in order."""
        for key in keys:
            self._unpacked += key // records != self._last_unpacked
            self._last_unpacked = key // records
        self._read += len(keys)
        if self._unpacked < _UNPACKED_UNTIL_WARNING or self._unpacked < self._read / 4:
            return
        self._group = None
        if self._pace.is_first_warning():
            warn(
                f"{self.path!r} is read at random, and each record of it means unpacking {records} records "
                f"({size // 1000} kB), because they were written with group_size:{records}. Write it again to read it "
                "faster: grain.sources.write(grain.ArrayRecordDataSource(...), path), or `grain convert SRC DST`."
            )


class Pace:
    """Whether records come from memory or from something slow, as the files of one source have shown so far."""

    _PATIENCE = 100e-6
    """Seconds for a record: beyond that, the reader's own threads are no slower."""
    _MOST_FOR_A_RECORD = 1e-3
    """Seconds that are taken to be its own: beyond that, another process may have had the processor meanwhile."""
    _RECORDS_TO_JUDGE = 64
    _MOST_IN_PARALLEL = 64

    def __init__(self) -> None:
        self._seconds, self._count = 0.0, 0
        self._in_parallel = 0
        """How many more reads are left to the reader's threads before the other way is tried again."""
        self._next_time = 1
        self._has_warned = False

    def is_slow(self) -> bool:
        """Whether the next read is to be left to the reader's threads."""
        if self._in_parallel > 0:  # threads that count down at the same time may go beyond zero
            self._in_parallel -= 1
            return True
        return False

    def judge(self, seconds: float, count: int) -> None:
        """Take note of how long `count` records took."""
        self._seconds += min(seconds, self._MOST_FOR_A_RECORD * count)
        self._count += count
        if self._seconds > self._PATIENCE * max(self._count, self._RECORDS_TO_JUDGE):
            self._in_parallel = self._next_time
            self._next_time = min(2 * self._next_time, self._MOST_IN_PARALLEL)
            self._seconds, self._count = 0.0, 0
        elif self._count >= self._RECORDS_TO_JUDGE:
            self._next_time = 1
            self._seconds, self._count = 0.0, 0

    @staticmethod
    def in_parallel(reader: Any, keys: list[int]) -> list[bytes] | None:
        """The records, read by the reader's threads, or None where they must be looked at one by one."""
        try:
            with _PARALLEL:
                records: list[bytes] = reader.read(keys)
        except RuntimeError:  # it does not say for which record
            return None
        return records if all(records) else None  # also what has been cut off is empty

    def is_first_warning(self) -> bool:
        """Whether there has been no warning about the source's files; one stands for all."""
        has_warned, self._has_warned = self._has_warned, True
        return not has_warned


def _slow_group(reader: Any, file: File, count: int) -> tuple[int, int] | None:
    found = re.search(r"group_size:(\d+)", reader.writer_options_string() or "")
    records = min(int(found[1]), count) if found else 1
    size = file.size // max(count, 1) * records
    return (records, size) if records > 1 and size > _SLOW_GROUP else None


def _reason(reader: Any) -> str:
    try:
        reader.read_all()
    except RuntimeError as error:
        return printable_message(error)
    return ""


@functools.cache
def _reader_class() -> Any:
    try:
        from array_record.python.array_record_module import ArrayRecordReader
    except ImportError as error:
        raise ImportError("Reading ArrayRecord files takes array-record, which is not made for Windows.") from error
    return ArrayRecordReader


@functools.cache
def _most_open() -> int:
    """How many readers a process keeps open: half of the files that the system lets it have."""
    import resource

    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 4096 if limit < 0 else max(16, min(limit // 2, 4096))
