"""Where records are in a file: found once, and kept for the next time it is opened."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from google_crc32c import extend as crc32c

from grain.files.cache_folder import cache_folder, cache_name, clean, mark_used, written_at_once
from grain.files.paths import File, PathLike
from grain.files.versions import LocalVersion, local_version

_LAYOUT = 4
_HEADER = 3
"""How many numbers come before those of the index: its checksum, of which version of the file it is, and its width."""
_CHECKED_AT_ONCE = 1 << 17
_sound: dict[str, LocalVersion] = {}
"""The indexes that this process has found to have the right checksum: one may be opened many times."""


def kept_index(file: File, kind: str, find: Callable[[], Any], folder: PathLike | None = None) -> Any:
    """The array of int64 that `find` gives for `file`, or gave when the file was last opened as it is now.

    It is mapped into memory, and its checksum is looked at when a process opens it first. It is kept in `folder`, or in
    the cache folder; where nothing can be written there, it is an array in memory.
    """
    try:
        path = _place(file, kind, folder)
    except OSError as error:
        _warn(file, error)
        return np.asarray(find(), np.int64)
    kept = _opened(path, file)
    if kept is not None:
        return kept
    found = np.asarray(find(), np.int64)
    try:
        # Of several processes that do this at once, each writes a file of its own, and the last one stays.
        with written_at_once(path) as partial, open(partial, "wb") as output:
            output.write(_numbers(file, found).data)  # NumPy's own way says nothing of a full disk
        kept = _opened(path, file)
        clean(path.parent) if folder is None else clean(path.parent, seconds_kept=math.inf)
    except OSError as error:
        _warn(file, error)
    return found if kept is None else kept


def _place(file: File, kind: str, folder: PathLike | None) -> Path:
    if folder is None:
        where = cache_folder()
    else:
        where = Path(os.fsdecode(folder))
        where.mkdir(parents=True, exist_ok=True)
    path = file.path if file.is_remote else os.path.abspath(file.path)
    return where / f"{cache_name(path)}.{kind}.index"


def _numbers(file: File, found: Any) -> Any:
    """All that a file with an index holds."""
    width = 0 if found.ndim == 1 else found.shape[1]
    numbers = np.concatenate([np.array([0, _version(file), width], np.int64), found.ravel()])
    numbers[0] = _checksum(numbers)
    return numbers


def _opened(path: Path, file: File) -> Any:
    """The numbers, or rows of them, that are kept at `path`, unless they are of another version or damaged."""
    try:
        mark_used(path)
        with open(path, "rb") as opened:
            numbers, present = np.memmap(opened, np.int64, "r"), local_version(os.fstat(opened.fileno()))
    except (OSError, ValueError):  # none there or none that may be read; empty, or cut off
        return None
    if len(numbers) < _HEADER or numbers[1] != _version(file):
        return None
    if _sound.get(str(path)) != present:
        if numbers[0] != _checksum(numbers):
            return None
        _sound[str(path)] = present
    width = int(numbers[2])
    return numbers[_HEADER:].reshape(-1, width) if width else numbers[_HEADER:]


def _checksum(numbers: Any) -> int:
    """Of all numbers but the first, which it is to be."""
    checksum = 0
    for start in range(1, len(numbers), _CHECKED_AT_ONCE):
        checksum = crc32c(checksum, numbers[start : start + _CHECKED_AT_ONCE].tobytes())
    return checksum


def _version(file: File) -> int:
    """A number that stands for a version of a file, and of this layout."""
    version = f"{_LAYOUT}\n{file.version.stamp}"
    return int.from_bytes(hashlib.sha1(version.encode()).digest()[:8], "little", signed=True)


def _warn(file: File, error: OSError) -> None:
    import warnings

    warnings.warn(
        f"The index of {file.path!r} cannot be kept ({error}), and will be made again the next time. "
        "Set GRAIN_CACHE to a folder that can be written to.",
        stacklevel=2,
    )
