"""Files, here or far away: which ones a path names, and bytes of them.

A path with a protocol (`s3://`, `gs://`, `memory://`, `https://`) is read by fsspec, any other by the system.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import hashlib
import os
import time
from collections.abc import Callable, Sequence
from typing import IO, Any, TypeAlias, TypeVar

from grain.files.folders import local_matches
from grain.files.opened_files import opened
from grain.files.remote_ranges import TRIES, RemoteRange, TransferError, read_remote
from grain.files.systems import is_remote, naming, system_of
from grain.files.versions import (
    FileChangedError,
    Version,
    check,
    check_local,
    check_open,
    local_version,
    remote_version,
    this_machine,
    version_here,
)

S = TypeVar("S")
T = TypeVar("T")
PathLike: TypeAlias = str | bytes | os.PathLike[str]

_GAP = {True: 64 * 1024, False: 4 * 1024}
"""How many bytes that nobody asked for are read along, far away and here, to save a request."""
_BETWEEN_LOOKS = 20e-6
"""Seconds: a file takes longer to be changed, and records that are read one by one would take twice the time."""
_just_listed: set[str] = set()
"""Files far away whose folders were listed, and which were not opened since: nobody need ask for them once more."""
_OPEN_FILES = 128
_AT_ONCE = 16


def paths_of(paths: PathLike | Sequence[PathLike]) -> tuple[str, ...]:
    """All files that are meant, in order; what a glob finds is sorted.

    >>> from pathlib import Path
    >>> paths_of(["b.txt", Path("a.txt")])
    ('b.txt', 'a.txt')
    """
    if isinstance(paths, str | bytes | os.PathLike):
        return _expanded(paths)
    if not isinstance(paths, Sequence):
        raise TypeError(f"Expected a path or a sequence of paths, got {paths!r} ({type(paths).__name__}).")
    if not paths:
        raise ValueError("Expected at least one path, got an empty sequence.")
    return tuple(found for path in paths for found in _expanded(path))  # type: ignore[arg-type]


def _expanded(path: PathLike) -> tuple[str, ...]:
    try:
        text = os.fsdecode(path)
    except TypeError:
        raise TypeError(f"Expected a path, got {path!r} ({type(path).__name__}).") from None
    if not glob.has_magic(text) or (not is_remote(text) and os.path.exists(text)):
        return (text,)
    if is_remote(text):
        system, plain = system_of(text)
        system.invalidate_cache()  # or files that are newer than an earlier listing would not be found
        with naming(text):
            found = [system.unstrip_protocol(match) for match in system.glob(plain)]
        _just_listed.update(found)
    else:
        found = local_matches(text)
    if not found:
        raise FileNotFoundError(f"No file matches {text!r}{'' if is_remote(text) else f' in {os.getcwd()!r}'}.")
    return tuple(sorted(found))


def files_of(paths: PathLike | Sequence[PathLike]) -> tuple[File, ...]:
    """All files that are meant, as `File` objects; those far away are asked about at the same time."""
    return tuple(for_each(File, paths_of(paths)))


def for_each(function: Callable[[S], T], arguments: Sequence[S]) -> list[T]:
    """What `function` returns for each of `arguments`, several of which are worked on at once."""
    if len(arguments) < 2:
        return [function(argument) for argument in arguments]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(len(arguments), _AT_ONCE)) as threads:
        return list(threads.map(function, arguments))


def described(paths: Sequence[str]) -> str:
    """For the `repr` of a source, which tells it from others in checkpoints and is not to be long.

    >>> described(["a.txt"]), described(["a.txt", "b.txt"])
    ("'a.txt'", '2 files, hash_of_paths=6ce2420bc45fdd0df9530431b9bd05b5c9a7daf1')
    """
    if len(paths) == 1:
        return repr(paths[0])
    return f"{len(paths)} files, hash_of_paths={text_hash(chr(0).join(paths))}"


def text_hash(text: str) -> str:
    """A name for a text that may hold paths, which need not be UTF-8."""
    return hashlib.sha1(os.fsencode(text)).hexdigest()


class File:
    """A file as it was when this object was made: reading it later raises an error if it has changed since.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "greeting.txt")
    ...     _ = path.write_text("hello, world")
    ...     File(path).read(7, 12), File(path).read_many([(0, 5), (7, 8)])
    (b'world', [b'hello', b'w'])
    """

    def __init__(self, path: PathLike) -> None:
        self.path = os.fsdecode(path)
        self.is_remote = is_remote(self.path)
        self.version: Version
        if self.is_remote:
            self.version = remote_version(self.path, may_be_listed=self.path in _just_listed)
            _just_listed.discard(self.path)
            if self.version.size is None:
                raise ValueError(
                    f"The size of {self.path!r} is not known: its server does not support ranged reads. "
                    "Copy the file to this machine, or read it as a stream."
                )
        else:
            self.version = local_version(os.stat(self.path))
        self.size: int = self.version.size  # type: ignore[assignment]
        self._looked = 0.0

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_looked": 0.0, "machine": this_machine()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        machine = state.pop("machine")
        self.__dict__.update(state, version=version_here(state["path"], state["version"], machine))

    def open(self) -> IO[bytes]:
        """The file, to be read from its start."""
        return opened(self.path, self.version)

    def check(self) -> None:
        """Raise an error if the file is no longer what it was."""
        if self.is_remote:
            check(self.path, self.version)
        else:
            check_local(self.path, os.stat(self.path), self.version)

    def look(self, place: int | str) -> None:
        """As `check`, of a file of this machine that is open at `place`; of many calls at once, few take time."""
        now = time.monotonic()
        if now - self._looked > _BETWEEN_LOOKS:
            check_open(self.path, place, self.version)  # type: ignore[arg-type]
            self._looked = now

    def read(self, start: int, stop: int) -> bytes:
        """The bytes from `start` to `stop`."""
        if not self.is_remote:  # the same as for many, in less time
            number = _descriptor(self.path, self.version).number
            data = os.pread(number, stop - start, start)
            if len(data) == stop - start:
                self.look(number)
                return data
        return read_ranges([(self, start, stop)])[0]

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of each of `ranges`; those that lie close together are read at once."""
        return read_ranges([(self, start, stop) for start, stop in ranges])

    def __repr__(self) -> str:
        return f"File({self.path!r})"


Range: TypeAlias = tuple[File, int, int]
"""A file, where to start in it, and where to stop."""


def read_ranges(ranges: Sequence[Range]) -> list[bytes]:
    """The bytes of each range. Those that lie close together are read at once, and far away all at the same time."""
    merged = _merged(ranges)
    far = [place for place, (wanted, _) in enumerate(merged) if wanted[0].is_remote]
    pieces = dict(zip(far, read_remote([_remote(merged[place][0]) for place in far]), strict=True))
    for file, places in _by_file(merged).items():
        pieces.update(zip(places, _read_here(file, [merged[place][0][1:] for place in places]), strict=True))
    found: list[bytes] = [b""] * len(ranges)
    for place, ((_, first, _), members) in enumerate(merged):
        piece = pieces[place]
        for member in members:
            _, start, stop = ranges[member]
            found[member] = piece[start - first : stop - first]
    return found


def _merged(ranges: Sequence[Range]) -> list[tuple[Range, list[int]]]:
    """Few larger ranges that hold all of `ranges`, each with the places of those that it holds."""
    merged: list[tuple[Range, list[int]]] = []
    for place in sorted(range(len(ranges)), key=lambda place: (ranges[place][0].path, *ranges[place][1:])):
        file, start, stop = ranges[place]
        if merged:
            (held, first, last), members = merged[-1]
            if held is file and start <= last + _GAP[file.is_remote]:
                members.append(place)
                merged[-1] = (file, first, max(last, stop)), members
                continue
        merged.append(((file, start, stop), [place]))
    return merged


def _remote(wanted: Range) -> RemoteRange:
    file, start, stop = wanted
    return RemoteRange(file.path, file.version, start, stop)  # type: ignore[arg-type]


def _by_file(merged: Sequence[tuple[Range, list[int]]]) -> dict[File, list[int]]:
    """The places of the ranges of each file of this machine."""
    found: dict[File, list[int]] = {}
    for place, ((file, _, _), _) in enumerate(merged):
        if not file.is_remote:
            found.setdefault(file, []).append(place)
    return found


def _read_here(file: File, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
    descriptor = _descriptor(file.path, file.version)
    number, found = descriptor.number, []
    for start, stop in ranges:
        data = os.pread(number, stop - start, start)
        while len(data) < stop - start:  # the system may give less than was asked for
            more = os.pread(number, stop - start - len(data), start + len(data))
            if not more:
                break
            data += more
        found.append(data)
    file.look(number)  # only now: it may have been changed meanwhile
    for (start, stop), data in zip(ranges, found, strict=True):
        if len(data) < stop - start:
            raise ValueError(f"{file.path!r} has {file.size} bytes: it ends before byte {stop}.")
    return found


def read_whole(paths: Sequence[str], sizes: Sequence[int | None]) -> list[bytes]:
    """All bytes of each file, as many as `sizes` says where that is known; those far away at the same time."""
    wanted = list(zip(paths, sizes, strict=True))
    return for_each(_whole, wanted) if any(map(is_remote, paths)) else list(map(_whole, wanted))


def _whole(wanted: tuple[str, int | None]) -> bytes:
    path, size = wanted
    if not is_remote(path):
        with opened(path) as file:
            return file.read()
    system, plain = system_of(path)
    for _ in range(TRIES):
        with naming(path):
            data: bytes = system.cat_file(plain)
        if size is None or len(data) == size:
            return data
    assert size is not None
    if remote_version(path).size != size:
        raise FileChangedError(path)
    raise TransferError(path, len(data), size)


class _Descriptor:
    """An open file, closed when nobody reads from it any more."""

    def __init__(self, path: str) -> None:
        self.number = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError, OSError):  # it was never opened; the interpreter is ending
            os.close(self.number)


# A version that takes the place of another has a descriptor of its own, whatever its size and time.
@functools.lru_cache(_OPEN_FILES)
def _descriptor(path: str, version: Version) -> _Descriptor:
    descriptor = _Descriptor(path)
    check_local(path, os.fstat(descriptor.number), version)
    return descriptor
