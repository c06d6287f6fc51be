"""Files, here or far away: which ones a path names, and bytes of them.

A path with a protocol (`s3://`, `gs://`, `memory://`, `https://`) is read by fsspec, any other by the system.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, TypeAlias, TypeVar

S = TypeVar("S")
T = TypeVar("T")
PathLike: TypeAlias = str | bytes | os.PathLike[str]

_GAP = {True: 64 * 1024, False: 4 * 1024}
"""How many bytes that nobody asked for are read along, far away and here, to save a request."""
_OPEN_FILES = 128
_AT_ONCE = 16
_SHOWN = 40
_VERSIONS = ("ETag", "etag", "generation", "md5Hash", "mtime", "LastModified", "last_modified", "updated", "created")
"""What file systems call that by which one version of a file differs from the next, the most exact first."""


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
        system.invalidate_cache()  # or files that are newer than an earlier listing would not be found
        with _named(text):
            found = [system.unstrip_protocol(match) for match in system.glob(plain)]
    else:
        found = glob.glob(text, recursive=True)
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


def paths_below(folder: str) -> list[str]:
    """All files in a folder and its sub-folders, by their paths from there, with slashes."""
    if is_remote(folder):
        system, plain = _system_of(folder)
        system.invalidate_cache()
        root = plain.rstrip("/")
        return [found.removeprefix(f"{root}/") for found in system.find(root)]
    if not os.path.isdir(folder):
        raise NotADirectoryError(f"Expected a folder, got {folder!r}, which is {_instead_of_a_folder(folder)}.")
    found = []
    for place, _, names in os.walk(folder, onerror=_raised, followlinks=True):
        above = os.path.relpath(place, folder).replace(os.sep, "/")
        found += names if above == "." else [f"{above}/{name}" for name in names]
    return found


def _instead_of_a_folder(path: str) -> str:
    return "a file" if os.path.exists(path) else "not there"


def _raised(error: OSError) -> None:
    raise error


def described(paths: Sequence[str]) -> str:
    """For the `repr` of a source, which tells it from others in checkpoints and is not to be long.

    >>> described(["a.txt"]), described(["a.txt", "b.txt"])
    ("'a.txt'", '2 files, hash_of_paths=6ce2420bc45fdd0df9530431b9bd05b5c9a7daf1')
    """
    if len(paths) == 1:
        return repr(paths[0])
    return f"{len(paths)} files, hash_of_paths={_hash(chr(0).join(paths))}"


def _hash(text: str) -> str:
    """A name for a text that may hold paths, which need not be UTF-8."""
    return hashlib.sha1(os.fsencode(text)).hexdigest()


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
            with _named(self.path):
                information = system.info(plain)
            if information.get("size") is None:
                raise ValueError(
                    f"The size of {self.path!r} is not known: its server does not support ranged reads. "
                    "Copy the file to this machine, or read it as a stream."
                )
            self.size = int(information["size"])
            version = next((information[key] for key in _VERSIONS if information.get(key) is not None), None)
            self.stamp = f"{self.size}-{system.ukey(plain) if version is None else version}"
        else:
            self.size, self.stamp = _size_and_stamp(os.stat(self.path))

    def open(self) -> IO[bytes]:
        """The file, to be read from its start."""
        return opened(self.path)

    def check(self) -> None:
        """Raise an error if the file is no longer what it was."""
        if File(self.path).stamp != self.stamp:
            raise ValueError(_changed(self.path))

    def read(self, start: int, stop: int) -> bytes:
        """The bytes from `start` to `stop`."""
        return read_ranges([(self, start, stop)])[0]

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of each of `ranges`; those that lie close together are read at once."""
        return read_ranges([(self, start, stop) for start, stop in ranges])

    def __repr__(self) -> str:
        return f"File({self.path!r})"


def opened(path: str) -> IO[bytes]:
    """The file at `path`, here or far away, to be read from its start."""
    if is_remote(path):
        system, plain = _system_of(path)
        with _named(path):
            return system.open(plain, "rb")  # type: ignore[no-any-return]
    return open(path, "rb")


Range: TypeAlias = tuple[File, int, int]
"""A file, where to start in it, and where to stop."""


def read_ranges(ranges: Sequence[Range]) -> list[bytes]:
    """The bytes of each range. Those that lie close together are read at once, and far away all at the same time."""
    if len(ranges) == 1 and not is_remote(ranges[0][0].path):
        return [_read_here(ranges[0])]
    merged = _merged(ranges)
    here = [place for place, (wanted, _) in enumerate(merged) if not is_remote(wanted[0].path)]
    far = [place for place, (wanted, _) in enumerate(merged) if is_remote(wanted[0].path)]
    pieces = dict(zip(far, _read_far([merged[place][0] for place in far]), strict=True))
    pieces.update((place, _read_here(merged[place][0])) for place in here)
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
            if held is file and start <= last + _GAP[is_remote(file.path)]:
                members.append(place)
                merged[-1] = (file, first, max(last, stop)), members
                continue
        merged.append(((file, start, stop), [place]))
    return merged


def _read_here(wanted: Range) -> bytes:
    file, start, stop = wanted
    descriptor = _descriptor(file.path, file.stamp)
    data = os.pread(descriptor.number, stop - start, start)
    while len(data) < stop - start:  # the system may give less than was asked for
        more = os.pread(descriptor.number, stop - start - len(data), start + len(data))
        if not more:
            break
        data += more
    return _checked(wanted, data)


def _read_far(ranges: Sequence[Range]) -> list[bytes]:
    """One request for each range, all ranges of a file system at once."""
    found: list[bytes] = [b""] * len(ranges)
    systems: dict[int, tuple[Any, list[tuple[int, str]]]] = {}
    for place, (file, start, stop) in enumerate(ranges):
        if stop > start:  # an empty range cannot be asked for
            system, plain = _system_of(file.path)
            systems.setdefault(id(system), (system, []))[1].append((place, plain))
    for system, places in systems.values():
        starts, stops = zip(*(ranges[place][1:] for place, _ in places), strict=True)
        pieces = system.cat_ranges([plain for _, plain in places], list(starts), list(stops), on_error="return")
        for (place, _), piece in zip(places, pieces, strict=True):
            if isinstance(piece, BaseException):
                with _named(ranges[place][0].path):
                    raise piece
            found[place] = _checked(ranges[place], piece)
    return found


@contextlib.contextmanager
def _named(path: str) -> Iterator[None]:
    """What a file system refuses in here is an error that names the file and the reason, which it often leaves out."""
    try:
        yield
    except Exception as error:
        kind = type(error) if type(error) in (FileNotFoundError, PermissionError) else OSError
        reason = error.__cause__ or error
        raise kind(f"{path!r} cannot be read. {type(reason).__name__}: {reason}") from error


def _checked(wanted: Range, data: bytes) -> bytes:
    file, start, stop = wanted
    if len(data) > stop - start:
        raise ValueError(
            f"The server of {file.path!r} does not support ranged reads: it gave {len(data)} bytes, and was asked for "
            f"{stop - start}. Copy the file to this machine, or read it as a stream."
        )
    if len(data) < stop - start:
        raise ValueError(
            f"{file.path!r} ends before byte {stop}: it had {file.size} bytes when it was opened, and must not be "
            "changed while it is read."
        )
    return data


def read_whole(paths: Sequence[str]) -> list[bytes]:
    """All bytes of each file; those far away are fetched at the same time."""
    return for_each(_whole, paths) if any(map(is_remote, paths)) else [_whole(path) for path in paths]


def _whole(path: str) -> bytes:
    if is_remote(path):
        system, plain = _system_of(path)
        with _named(path):
            return system.cat_file(plain)  # type: ignore[no-any-return]
    with open(path, "rb") as file:
        return file.read()


def local_copy(path: str) -> str:
    """`path` itself, or of a file far away a copy in the cache folder, fetched once for each version of it."""
    if not is_remote(path):
        return path
    file = File(path)
    kept = cache_folder() / cache_name(path, file.stamp)
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
        partial = f"{cache_folder() / cache_name(final)}.{os.urandom(6).hex()}.partial"
    else:
        partial = f"{final}.{os.urandom(6).hex()}.partial"
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
    try:
        folder = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "grain"
    except RuntimeError as error:  # a user that the system does not know, as in many containers
        raise FileNotFoundError("There is no home folder to keep a cache in: set GRAIN_CACHE to a folder.") from error
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def cache_name(path: str, version: str = "") -> str:
    """The name of what is kept of a file: another one for each path and version, and no longer than names may be.

    >>> cache_name("s3://bucket/train.jsonl")
    '2b1a3c3cf7ad68ae-train.jsonl'
    """
    name = path.rstrip("/").rpartition("/")[2]
    return f"{_hash(f'{path}{chr(0)}{version}')[:16]}-{name[-_SHOWN:]}"


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
        raise ValueError(_changed(path))
    return descriptor


def _changed(path: str) -> str:
    return f"{path!r} was changed after it was opened. Make the source again to read it as it is now."


def _size_and_stamp(found: os.stat_result) -> tuple[int, str]:
    return found.st_size, f"{found.st_size}-{found.st_mtime_ns}"


def _system_of(path: str) -> tuple[Any, str]:
    """fsspec's file system for `path`, and the path there."""
    try:
        import fsspec
    except ImportError as error:
        raise ImportError(f"Reading {path!r} takes fsspec: pip install 'grain[remote]'.") from error
    try:
        return fsspec.core.url_to_fs(path)  # type: ignore[no-any-return]
    except (ImportError, ValueError) as error:  # a protocol that is not known, or takes another package
        raise type(error)(f"{path!r} cannot be read: {error}.") from error
