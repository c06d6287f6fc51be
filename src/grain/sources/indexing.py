"""Where records are in a file: found once, and kept for the next time it is opened."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from grain.files import File, PathLike, cache_folder, written_at_once

_VERSION = 1


def kept_index(file: File, kind: str, find: Callable[[], Any], folder: PathLike | None = None) -> Any:
    """The array of int64 that `find` gives for `file`, or gave when the file was last opened as it is now.

    It is mapped into memory, so opening it takes the same time for any number of records. It is kept in `folder`, or in
    the cache folder.
    """
    where = cache_folder() if folder is None else Path(os.fsdecode(folder))
    name = file.path.rpartition("/")[2]
    place = hashlib.sha1(os.path.abspath(file.path).encode()).hexdigest()[:16]
    path = where / f"{name}-{place}.{kind}.npy"
    stamp = _number(file.stamp)
    if path.exists():
        kept = np.load(path, mmap_mode="r")
        if kept[0] == stamp:
            return _rows(kept)
    found = np.asarray(find(), np.int64)
    header = np.array([stamp, 0 if found.ndim == 1 else found.shape[1]], np.int64)
    where.mkdir(parents=True, exist_ok=True)
    with written_at_once(path) as partial, open(partial, "wb") as output:
        np.save(output, np.concatenate([header, found.ravel()]))
    return found


def _rows(kept: Any) -> Any:
    """What was saved: numbers, or rows of them."""
    return kept[2:].reshape(-1, kept[1]) if kept[1] else kept[2:]


def _number(stamp: str) -> int:
    """A number that stands for a version of a file, and of this layout."""
    return int.from_bytes(hashlib.sha1(f"{_VERSION}\n{stamp}".encode()).digest()[:8], "little", signed=True)
