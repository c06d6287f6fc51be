"""Where records are in a file: found once, and kept for the next time it is opened."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from grain.files.paths import File, PathLike, cache_folder, cache_name, is_remote, written_at_once

_LAYOUT = 3
_HEADER = 3
"""How many numbers come before those of the index: which version of the file it is of, its length and its width."""


def kept_index(file: File, kind: str, find: Callable[[], Any], folder: PathLike | None = None) -> Any:
    """The array of int64 that `find` gives for `file`, or gave when the file was last opened as it is now.

    It is mapped into memory, so opening it takes the same time for any number of records. It is kept in `folder`, or in
    the cache folder; where nothing can be written there, it is an array in memory.
    """
    try:
        path = _place(file, kind, folder)
        kept = _opened(path, file)
    except OSError as error:
        _warn(file, error)
        return np.asarray(find(), np.int64)
    if kept is not None:
        return kept
    found = np.asarray(find(), np.int64)
    header = np.array([_version(file), found.size, 0 if found.ndim == 1 else found.shape[1]], np.int64)
    try:
        # Of several processes that do this at once, each writes a file of its own, and the last one stays.
        with written_at_once(path) as partial, open(partial, "wb") as output:
            np.save(output, np.concatenate([header, found.ravel()]))
        kept = _opened(path, file)
    except OSError as error:
        _warn(file, error)
    return found if kept is None else kept


def _place(file: File, kind: str, folder: PathLike | None) -> Path:
    if folder is None:
        where = cache_folder()
    else:
        where = Path(os.fsdecode(folder))
        where.mkdir(parents=True, exist_ok=True)
    path = file.path if is_remote(file.path) else os.path.abspath(file.path)
    return where / f"{cache_name(path)}.{kind}.npy"


def _opened(path: Path, file: File) -> Any:
    """The numbers, or rows of them, that are kept at `path`, unless they are of another version or damaged."""
    try:
        kept = np.load(path, mmap_mode="r")
    except (FileNotFoundError, ValueError, EOFError):  # none there, or not all of it
        return None
    if kept.dtype != np.int64 or kept.ndim != 1 or len(kept) < _HEADER:
        return None
    stamp, size, width = kept[:_HEADER].tolist()
    if stamp != _version(file) or size != len(kept) - _HEADER:
        return None
    return kept[_HEADER:].reshape(-1, width) if width else kept[_HEADER:]


def _version(file: File) -> int:
    """A number that stands for a version of a file, and of this layout."""
    # One that takes the place of another may be as large and have the same time, as in archives, which set it.
    changed = "" if is_remote(file.path) else os.stat(file.path).st_ctime_ns
    version = f"{_LAYOUT}\n{file.stamp}\n{changed}"
    return int.from_bytes(hashlib.sha1(version.encode()).digest()[:8], "little", signed=True)


def _warn(file: File, error: OSError) -> None:
    import warnings

    warnings.warn(
        f"The index of {file.path!r} cannot be kept ({error}), and will be made again the next time. "
        "Set GRAIN_CACHE to a folder that can be written to.",
        stacklevel=2,
    )
