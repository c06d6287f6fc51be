"""Files to be read from their start, here and far away: what is read is all of one version."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
from typing import Any

from grain.files.remote_ranges import TRIES, RangesIgnoredError, RemoteRange, TransferError, read_remote
from grain.files.systems import is_remote, naming, system_of
from grain.files.versions import (
    LocalVersion,
    RemoteVersion,
    Version,
    check,
    check_local,
    check_open,
    local_version,
    remote_version,
)

_PIECE = 5 << 20
"""What is asked for at once far away."""
_SKIPPED_PIECE = 1 << 20


class OpenedFile(io.BufferedReader):
    """A file, and which version of it is read."""

    @property
    def version(self) -> Version:
        return self.raw.version  # type: ignore[attr-defined, no-any-return]


def opened(path: str, version: Version | None = None) -> OpenedFile:
    """The file at `path`; reading raises an error where it is not of that version, or no longer of the one it was."""
    if not is_remote(path):
        return OpenedFile(_LocalFile(path, version))
    known = remote_version(path) if version is None else version
    assert isinstance(known, RemoteVersion)
    size = _PIECE if known.size is None else max(min(_PIECE, known.size), 1)
    return OpenedFile(_RemoteFile(path, known), size)


class _File(io.RawIOBase):
    """Bytes from a place on. It keeps the place itself: a forked process would move that of a file of the system."""

    def __init__(self, path: str, version: Version) -> None:
        self.name, self.version = path, version
        self._place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_END:
            if self.version.size is None:
                raise io.UnsupportedOperation(f"The end of {self.name!r} is not known.")
            offset += self.version.size
        self._place = max(0, offset + (self._place if whence == os.SEEK_CUR else 0))
        return self._place

    def readall(self) -> bytes:
        pieces = []
        while piece := self.read(max((self.version.size or 0) - self._place, _SKIPPED_PIECE)):
            pieces.append(piece)
        return b"".join(pieces)


class _LocalFile(_File):
    """A file of this machine."""

    version: LocalVersion
    _descriptor = -1

    def __init__(self, path: str, version: Version | None) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        found = os.fstat(self._descriptor)
        super().__init__(path, local_version(found))
        try:
            if stat.S_ISDIR(found.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            check_local(path, found, version or self.version)
        except BaseException:
            self.close()
            raise

    def readinto(self, buffer: Any) -> int:
        count = os.preadv(self._descriptor, [buffer], self._place)
        check_open(self.name, self._descriptor, self.version)
        self._place += count
        return count

    def close(self) -> None:
        if not self.closed and self._descriptor >= 0:
            os.close(self._descriptor)
        super().close()


class _RemoteFile(_File):
    """A file far away: piece by piece or, where that is not possible, in one transfer from its start."""

    version: RemoteVersion
    _transfer: Any = None
    _transferred = 0
    _process = 0

    def readinto(self, buffer: Any) -> int:
        wanted = memoryview(buffer).cast("B")
        data = self._piece(len(wanted))
        wanted[: len(data)] = data
        self._place += len(data)
        return len(data)

    def _piece(self, count: int) -> bytes:
        size = self.version.size
        if size is not None and self._transfer is None:
            stop = min(self._place + count, size)
            with contextlib.suppress(RangesIgnoredError):
                return read_remote([RemoteRange(self.name, self.version, self._place, stop)])[0]
        for _ in range(TRIES):
            data = self._from_transfer(count)
            if data or size is None or self._place >= size:
                return data
            self._end_transfer()
        raise TransferError(self.name, self._place, size or 0)

    def _from_transfer(self, count: int) -> bytes:
        """The next bytes of a transfer; one that is beyond them, or belongs to another process, begins again."""
        if self._transfer is None or self._process != os.getpid() or self._transferred > self._place:
            system, plain = system_of(self.name)
            with naming(self.name):
                # The web can be asked for all of a file at once, others have no other way.
                options = {"block_size": 0} if self.name.startswith("http") else {}
                self._transfer, self._transferred = system.open(plain, "rb", **options), 0
            self._process = os.getpid()
            check(self.name, self.version)
        with naming(self.name):
            while self._transferred < self._place:
                skipped = self._transfer.read(min(self._place - self._transferred, _SKIPPED_PIECE))
                if not skipped:
                    return b""
                self._transferred += len(skipped)
            data: bytes = self._transfer.read(count)
        self._transferred += len(data)
        return data

    def _end_transfer(self) -> None:
        if self._transfer is not None and self._process == os.getpid():
            self._transfer.close()
        self._transfer = None

    def close(self) -> None:
        self._end_transfer()
        super().close()
