"""Where files are written to, which must not be where they are read from."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Hashable, Iterator, Sequence

from grain.files.folders import files_below
from grain.files.systems import is_remote


def check_apart(sources: Sequence[str], destinations: Sequence[str]) -> None:
    """Raise an error if a file to be written is one of those that are read, those in folders too, by any name."""
    read: dict[Hashable, str] = {}
    for source in sources:
        is_folder = not is_remote(source) and os.path.isdir(source)
        for path in [f"{source}/{name}" for name in files_below(source)] if is_folder else [source]:
            read.update(dict.fromkeys(_names(path), path))
    for destination in destinations:
        for name in _names(destination):
            if name in read:
                raise ValueError(
                    f"{destination!r} would be written, and is one of the sources ({read[name]!r}). The last path is "
                    "the destination: was it forgotten?"
                )


def _names(path: str) -> Iterator[Hashable]:
    """By what one sees that two paths lead to the same file."""
    if is_remote(path):
        import fsspec

        system, plain = fsspec.core.url_to_fs(path)
        if "file" not in system.protocol:
            yield system.protocol, posixpath.normpath(plain)
            return
        path = plain
    yield os.path.realpath(path)
    if os.path.exists(path):
        found = os.stat(path)
        yield found.st_dev, found.st_ino
