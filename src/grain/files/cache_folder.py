"""Files that are kept from one run to the next: indexes, and copies of files far away.

1. A file gets its name when it is whole, and is on the disk by then.
2. Whoever writes a piece of one holds a lock on it, which ends with the process: a piece without one is left over, and
   is removed by the next process that writes here.
3. A new version of a copy takes the place of the old one, and what was not used for a month is removed. Who has it
   open keeps it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from grain.files.paths import File, PathLike, text_hash
from grain.files.remote_ranges import TRIES, TransferError
from grain.files.systems import is_remote, naming, system_of

_SHOWN = 40
_DAY = 24 * 3600
_KEPT = 30 * _DAY
_BETWEEN_CLEANINGS = 60
_OURS = re.compile(r"[0-9a-f]{16}-|[0-9a-f]{40}\.writing\.json")
_ERRORS_OF_DISKS = {errno.EACCES, errno.EDQUOT, errno.EFBIG, errno.ENOSPC, errno.EPERM, errno.EROFS}
_PARTIAL = ".partial"
_COPIES = ".copies"
_cleaned: dict[str, float] = {}
"""When this process last cleaned a folder."""


def cache_folder() -> Path:
    """Where copies and indexes are kept: `$GRAIN_CACHE`, or `grain` in the user's cache folder; for the user alone."""
    chosen = os.environ.get("GRAIN_CACHE")
    try:
        folder = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "grain"
    except RuntimeError as error:  # a user that the system does not know, as in many containers
        raise FileNotFoundError("There is no home folder to keep a cache in: set GRAIN_CACHE to a folder.") from error
    folder.mkdir(0o700, parents=True, exist_ok=True)
    return folder


def cache_name(path: str) -> str:
    """The name of what is kept of a file: another one for each path, and no longer than names may be.

    >>> cache_name("s3://bucket/train.jsonl")
    '2b1a3c3cf7ad68ae-train.jsonl'
    """
    name = path.rstrip("/").rpartition("/")[2]
    return f"{text_hash(f'{path}{chr(0)}')[:16]}-{name[-_SHOWN:]}"


def local_copy(file: File) -> str:
    """The path of `file` itself, or of one far away that of a copy, fetched once for each version of it."""
    if not file.is_remote:
        return file.path
    try:
        folder = cache_folder() / (cache_name(file.path) + _COPIES)
        kept = folder / text_hash(file.version.stamp)
        if not _is_whole(kept, file.size):
            with written_at_once(kept) as partial:
                _fetch(file, partial)
            _remove_others(kept)
        mark_used(kept)
    except OSError as error:
        if error.errno not in _ERRORS_OF_DISKS:
            raise
        raise OSError(
            error.errno,
            f"{file.path!r} cannot be copied to this machine: {error}. Set GRAIN_CACHE to a folder that can be written "
            f"to and has room for {file.size} bytes.",
        ) from error
    return str(kept)


def _is_whole(path: Path, size: int) -> bool:
    return path.exists() and path.stat().st_size == size and os.access(path, os.R_OK)


def _fetch(file: File, target: str) -> None:
    system, plain = system_of(file.path)
    got = 0
    for _ in range(TRIES):
        try:
            system.get_file(plain, target)
        except OSError as error:
            if error.errno in _ERRORS_OF_DISKS:
                raise
            with naming(file.path):
                raise
        file.check()
        got = os.path.getsize(target)
        if got == file.size:  # a transfer may end early without an error
            return
    raise TransferError(file.path, got, file.size)


@contextlib.contextmanager
def written_at_once(path: PathLike) -> Iterator[str]:
    """A path to write to, which becomes `path` at the end, or is removed where that was not reached."""
    final = os.fsdecode(path)
    if is_remote(final):
        beginning = str(cache_folder() / cache_name(final))
    else:
        beginning = final
        os.makedirs(os.path.dirname(os.path.abspath(final)), exist_ok=True)
    with _locked_piece(beginning) as partial:
        yield partial
        _sync(partial)
        if is_remote(final):
            system, plain = system_of(final)
            system.put_file(partial, plain)
        else:
            os.replace(partial, final)


@contextlib.contextmanager
def _locked_piece(beginning: str) -> Iterator[str]:
    """A new file, which is removed at the end if it is still there."""
    while True:
        partial = f"{beginning}.{os.urandom(6).hex()}{_PARTIAL}"
        descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
        try:
            _lock(descriptor)
            if not os.fstat(descriptor).st_nlink:
                continue  # another process has taken it for left over before it was locked
            yield partial
            return
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(partial)
            os.close(descriptor)


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool | None:
    """Whether the file could be locked; None where files have no locks."""
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (OSError, ImportError):
        return None
    return True


def mark_used(path: PathLike) -> None:
    """Say that what is kept at `path` is in use."""
    with contextlib.suppress(OSError):  # it belongs to somebody else
        if time.time() - os.stat(path).st_mtime > _DAY:
            os.utime(path)


def clean(folder: PathLike, seconds_kept: float = _KEPT) -> None:
    """Remove what is left over, or was not used for `seconds_kept`, unless this process has done so a moment ago."""
    name = os.fsdecode(folder)
    if time.monotonic() - _cleaned.get(name, -_BETWEEN_CLEANINGS) < _BETWEEN_CLEANINGS:
        return
    _cleaned[name] = time.monotonic()
    for path in _entries(name):
        if path.name.endswith(_COPIES):
            with contextlib.suppress(OSError):  # something is left in it
                if time.time() - path.stat().st_mtime > _DAY:  # or another process is about to use it
                    path.rmdir()
            for copy in _entries(path):
                _remove_if_left(copy, seconds_kept)
        else:
            _remove_if_left(path, seconds_kept)


def _entries(folder: PathLike) -> list[Path]:
    """All that is ours in a folder."""
    try:
        found = list(Path(os.fsdecode(folder)).iterdir())
    except OSError:
        return []
    return found if os.fsdecode(folder).endswith(_COPIES) else [path for path in found if _OURS.match(path.name)]


def _remove_others(kept: Path) -> None:
    """Remove other versions of a copy, and left over pieces of them."""
    for path in _entries(kept.parent):
        if path.name.endswith(_PARTIAL):
            _remove_if_left(path, _KEPT)
        elif path != kept:
            with contextlib.suppress(OSError):
                path.unlink()
    clean(kept.parent.parent)


def _remove_if_left(path: Path, seconds_kept: float) -> None:
    """Remove a piece of a file that nobody writes any more, or a file that nobody has used for long."""
    with contextlib.suppress(OSError):  # it has its name now, is removed already, or belongs to somebody else
        age = time.time() - path.stat().st_mtime
        if not path.name.endswith(_PARTIAL):
            if age > seconds_kept:
                path.unlink()
            return
        descriptor = os.open(path, os.O_RDWR)
        try:
            is_free = _lock(descriptor)
            if is_free or (is_free is None and age > _DAY):
                path.unlink()
        finally:
            os.close(descriptor)
