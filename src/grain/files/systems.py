"""Which file system a path belongs to: that of this machine, or one that fsspec reads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


def is_remote(path: str) -> bool:
    """Whether `path` is not the name of a file of this machine."""
    return "://" in path


def system_of(path: str) -> tuple[Any, str]:
    """fsspec's file system for `path`, and the path there. A forked process gets file systems of its own."""
    try:
        import fsspec
    except ImportError as error:
        raise ImportError(f"Reading {path!r} takes fsspec: pip install 'grain[remote]'.") from error
    try:
        return fsspec.core.url_to_fs(path)  # type: ignore[no-any-return]
    except (ImportError, ValueError) as error:  # a protocol that is not known, or takes another package
        raise type(error)(f"{path!r} cannot be read: {error}.") from error


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """What a file system refuses in here is an error that names the file and the reason, which it often leaves out."""
    try:
        yield
    except Exception as error:
        kind = type(error) if type(error) in (FileNotFoundError, PermissionError) else OSError
        reason = error.__cause__ or error
        raise kind(f"{path!r} cannot be read. {type(reason).__name__}: {reason}") from error
