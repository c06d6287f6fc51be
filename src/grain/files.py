"""Files, here or far away: which ones a path names, and bytes of them.

A path with a protocol (`s3://`, `gs://`, `memory://`, `https://`) is read by fsspec, any other by the system.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, TypeAlias

PathLike: TypeAlias = str | bytes | os.PathLike[str]

_GAP = {True: 64 * 1024, False: 4 * 1024}
"""How many bytes that nobody asked for are read along, far away and here, to save a request."""
_OPEN_FILES = 128


def paths_of(paths: PathLike | Sequence[PathLike]) -> tuple[str, ...]:
    """All files that are meant, in order; what a glob finds is sorted.

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
        system, plain = _system_of(text)
        found = [system.unstrip_protocol(match) for match in system.glob(plain)]
    else:
        found = glob.glob(text, recursive=True)
    if not found:
        raise FileNotFoundError(f"No file matches {text!r}{'' if is_remote(text) else f' in {os.getcwd()!r}'}.")
    return tuple(sorted(found))


def is_remote(path: str) -> bool:
    """Whether `path` is not the name of a file of this machine."""
    return "://" in path


class File:
    """A file as it was when this object was made: reading it later raises an error if it has changed since.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "greeting.txt")
    ...     _ = path.write_text("hello, world")
    ...     File(path).read(7, 12), File(path).read_many([(0, 5), (7, 8)])
    (b'world', [b'hello', b'w'])
    """

    def __init__(self, path: PathLike) -> None:
        self.path = os.fsdecode(path)
        if is_remote(self.path):
            system, plain = _system_of(self.path)
            information = system.info(plain)
            if information.get("size") is None:
                raise ValueError(f"The size of {self.path!r} is not known: its server does not support ranged reads.")
            self.size, self.stamp = int(information["size"]), str(system.ukey(plain))
        else:
            self.size, self.stamp = _size_and_stamp(os.stat(self.path))

    def open(self) -> IO[bytes]:
        """The file, to be read from its start."""
        if is_remote(self.path):
            system, plain = _system_of(self.path)
            return system.open(plain, "rb")  # type: ignore[no-any-return]
        return open(self.path, "rb")

    def read(self, start: int, stop: int) -> bytes:
        """The bytes from `start` to `stop`."""
        if is_remote(self.path):
            system, plain = _system_of(self.path)
            data: bytes = system.cat_file(plain, start=start, end=stop) if stop > start else b""
        else:
            descriptor = _descriptor(self.path, self.stamp)
            data = os.pread(descriptor.number, stop - start, start)
            while len(data) < stop - start:  # the system may give less than was asked for
                more = os.pread(descriptor.number, stop - start - len(data), start + len(data))
                if not more:
                    break
                data += more
        if len(data) != stop - start:
            raise ValueError(
                f"{self.path!r} ends before byte {stop}: it had {self.size} bytes when it was opened, and must not be "
                "changed while it is read."
            )
        return data

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of each of `ranges`; those that lie close together are read at once."""
        found: list[bytes] = [b""] * len(ranges)
        for start, stop, members in _merged(ranges, _GAP[is_remote(self.path)]):
            data = self.read(start, stop)
            for member in members:
                first, last = ranges[member]
                found[member] = data[first - start : last - start]
        return found

    def __repr__(self) -> str:
        return f"File({self.path!r})"


def _merged(ranges: Sequence[tuple[int, int]], gap: int) -> list[tuple[int, int, list[int]]]:
    """Few larger ranges that hold all of `ranges`, each with the places of those that it holds."""
    merged: list[tuple[int, int, list[int]]] = []
    for place in sorted(range(len(ranges)), key=ranges.__getitem__):
        start, stop = ranges[place]
        if merged and start <= merged[-1][1] + gap:
            first, last, members = merged[-1]
            members.append(place)
            merged[-1] = first, max(last, stop), members
        else:
            merged.append((start, stop, [place]))
    return merged


def local_copy(path: str) -> str:
    """`path` itself, or of a file far away a copy in the cache folder, fetched once for each version of it."""
    if not is_remote(path):
        return path
    file = File(path)
    name = hashlib.sha1(f"{path}\n{file.stamp}".encode()).hexdigest()
    kept = cache_folder() / f"{name}-{path.rstrip('/').rpartition('/')[2]}"
    if not kept.exists():
        with written_at_once(kept) as partial:
            system, plain = _system_of(path)
            system.get_file(plain, partial)
    return str(kept)


@contextlib.contextmanager
def written_at_once(path: PathLike) -> Any:
    """A path to write to, which becomes `path` at the end, or is removed where that was not reached."""
    final = os.fsdecode(path)
    if is_remote(final):
        partial = str(cache_folder() / f"{hashlib.sha1(final.encode()).hexdigest()}.{os.getpid()}.partial")
    else:
        partial = f"{final}.{os.getpid()}.partial"
        os.makedirs(os.path.dirname(os.path.abspath(final)), exist_ok=True)
    try:
        yield partial
        if is_remote(final):
            system, plain = _system_of(final)
            system.put_file(partial, plain)
        else:
            os.replace(partial, final)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(partial)


def cache_folder() -> Path:
    """Where copies and indexes are kept: `$GRAIN_CACHE`, or `grain` in the user's cache folder."""
    chosen = os.environ.get("GRAIN_CACHE")
    folder = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "grain"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class _Descriptor:
    """An open file, closed when nobody reads from it any more."""

    def __init__(self, path: str) -> None:
        self.number = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError, OSError):  # it was never opened; the interpreter is ending
            os.close(self.number)


@functools.lru_cache(_OPEN_FILES)
def _descriptor(path: str, stamp: str) -> _Descriptor:
    descriptor = _Descriptor(path)
    if _size_and_stamp(os.fstat(descriptor.number))[1] != stamp:
        raise ValueError(f"{path!r} was changed after it was opened. Make the source again to read it as it is now.")
    return descriptor


def _size_and_stamp(found: os.stat_result) -> tuple[int, str]:
    return found.st_size, f"{found.st_size}-{found.st_mtime_ns}"


def _system_of(path: str) -> tuple[Any, str]:
    """fsspec's file system for `path`, and the path there."""
    try:
        import fsspec
    except ImportError as error:
        raise ImportError(f"Reading {path!r} takes fsspec: pip install 'grain[remote]'.") from error
    return fsspec.core.url_to_fs(path)  # type: ignore[no-any-return]
