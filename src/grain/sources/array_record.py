"""ArrayRecord files as one source."""

from __future__ import annotations

import hashlib
import operator
import os
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Protocol, SupportsIndex, TypeAlias, runtime_checkable

from grain.errors import RecordKeyError
from grain.files.paths import PathLike, for_each, paths_of
from grain.sources.array_record_files import Pace, RecordFile

_SLICE = re.compile(r"(?P<path>.*)\[(?P<start>\d+):(?P<stop>\d+)\]", re.DOTALL)


@runtime_checkable
class FileInstruction(Protocol):
    """The records of a file from number `skip` on, `take` of them (-1: all), as TFDS asks for them."""

    filename: str
    skip: int
    take: int
    examples_in_shard: int


Instruction: TypeAlias = PathLike | FileInstruction


class ArrayRecordDataSource:
    """The records of ArrayRecord files, one file after the other.

    `paths` is a path, a glob, `file[a:b]` for the records from a to b, what TFDS calls a file instruction, or a
    sequence of those. Files are opened when they are needed. `reader_options` are those of the ArrayRecord reader.

    >>> import grain, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> grain.sources.write([b"a", b"b", b"c"], f"{folder.name}/letters.arrayrecord", shards=2)  # doctest: +ELLIPSIS
    ['...letters-00000-of-00002.arrayrecord', '...letters-00001-of-00002.arrayrecord']
    >>> source = ArrayRecordDataSource(f"{folder.name}/letters-*.arrayrecord")
    >>> source[2], source.__getitems__([1, 0, 1]), len(source)
    (b'c', [b'b', b'a', b'b'], 3)
    >>> folder.cleanup()
    """

    def __init__(
        self, paths: Instruction | Sequence[Instruction], reader_options: Mapping[str, Any] | None = None
    ) -> None:
        pace, options = Pace(), _reader_options(reader_options or {})
        self._files = [RecordFile(*part, options, pace) for part in _parts(paths)]
        self._known_ends: list[int] | None = None
        for file in self._files:
            file.check_exists()

    @property
    def paths(self) -> list[str]:
        """The files, in order."""
        return [file.path for file in self._files]

    @property
    def _ends(self) -> list[int]:
        """Where each file's records end among all."""
        if self._known_ends is None:
            for_each(RecordFile.count, [file for file in self._files if file.stop is None])
            self._known_ends = list(accumulate(file.count() for file in self._files))
        return self._known_ends

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, record_key: SupportsIndex) -> bytes:
        key, ends = operator.index(record_key), self._known_ends or self._ends
        if not 0 <= key < ends[-1]:
            raise _no_record(key, ends[-1])
        number = bisect_right(ends, key)
        return self._files[number].read([key - (ends[number - 1] if number else 0)])[0]

    def __getitems__(self, record_keys: Sequence[SupportsIndex]) -> list[bytes]:
        keys, ends = list(map(operator.index, record_keys)), self._known_ends or self._ends
        # Ascending, so that each file is read once and forwards, whatever was asked for.
        order = sorted(range(len(keys)), key=keys.__getitem__)
        if keys and not 0 <= keys[order[0]] <= keys[order[-1]] < ends[-1]:
            raise _no_record(keys[order[0]] if keys[order[0]] < 0 else keys[order[-1]], ends[-1])
        records, position = [b""] * len(keys), 0
        while position < len(order):
            number = bisect_right(ends, keys[order[position]])
            begin = ends[number - 1] if number else 0
            last = bisect_left(order, ends[number], position, key=keys.__getitem__)
            places = order[position:last]
            found = self._files[number].read([keys[place] - begin for place in places])
            for place, record in zip(places, found, strict=True):
                records[place] = record
            position = last
        return records

    def __iter__(self) -> Iterator[bytes]:
        return (self[key] for key in range(len(self)))

    def __enter__(self) -> ArrayRecordDataSource:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files; whoever reads on opens them again."""
        for file in self._files:
            file.close()

    def __repr__(self) -> str:
        digest = hashlib.sha1("".join(self.paths).encode()).hexdigest()
        return f"ArrayRecordDataSource(hash_of_paths={digest})"


def _no_record(key: int, count: int) -> RecordKeyError:
    return RecordKeyError(f"Record key should be in [0, num_records): got {key}, and there are {count} records.")


def _reader_options(asked: Mapping[str, Any]) -> str:
    options = {"readahead_buffer_size": 0, "max_parallelism": 0, **asked}
    if options.get("index_storage_option") == "offloaded":
        options.setdefault("footer_prefetch_bytes", 0)  # the reader refuses its own default there
    return ",".join(f"{name}:{value}" for name, value in options.items())


def _parts(paths: Any) -> list[tuple[str, int, int | None]]:
    """Each file with the numbers of its first record and of the one after its last, None for all that it has."""
    if isinstance(paths, str | bytes | os.PathLike | FileInstruction):
        return _parts_of_one(paths)
    if not isinstance(paths, Sequence):
        raise ValueError(
            "Unsupported path format was used. Path format must be a Sequence, String, pathlib.Path or "
            f"FileInstruction. Got {paths!r}."
        )
    if not paths:
        raise ValueError("Paths sequence can not be of 0 length")
    for path in paths:
        if not isinstance(path, str | bytes | os.PathLike | FileInstruction):
            raise ValueError(
                "All elements in a path sequence must be of type: String, pathlib.Path, or FileInstruction. "
                f"Got {path!r}."
            )
    return [part for path in paths for part in _parts_of_one(path)]


def _parts_of_one(path: Any) -> list[tuple[str, int, int | None]]:
    if isinstance(path, FileInstruction):
        stop = None if path.take == -1 else path.skip + path.take
        return [_checked(os.fspath(path.filename), path.skip, stop)]
    sliced = _SLICE.fullmatch(os.fsdecode(path))
    if sliced is None or os.path.exists(path):
        return [(found, 0, None) for found in paths_of(path)]
    files = paths_of(sliced["path"])
    if len(files) > 1:
        raise ValueError(f"{path!r} selects records of {len(files)} files: name one file, or pass each with its slice.")
    return [_checked(files[0], int(sliced["start"]), int(sliced["stop"]))]


def _checked(path: str, start: int, stop: int | None) -> tuple[str, int, int | None]:
    if start < 0 or (stop is not None and stop < start):
        raise ValueError(f"There are no records from {start} to {stop} in {path!r}: expected 0 <= start <= stop.")
    return path, start, stop
