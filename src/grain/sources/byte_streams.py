"""Bytes of a file from any place on, fetched in large pieces, and unpacked where gzip has packed them."""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from grain.files.opened_files import opened
from grain.files.versions import Version

_PIECE = 1 << 20
_LARGEST_PIECE = 16 << 20
"""What is asked for at once, lest a damaged length take all memory."""
_PACKED_PIECE = 1 << 16
_SEARCHED_FIRST = 1 << 12
_SEARCHED = 64 << 20
"""How far records are looked for where one is damaged: at first, and at most."""
_GZIP = b"\x1f\x8b\x08"
_START = 12


def is_gzip(start: bytes) -> bool:
    """Whether a file that begins with `start` was packed by gzip."""
    return start.startswith(_GZIP)


def growing_pieces(piece: Callable[[int, int], bytes], offset: int) -> Iterator[bytes]:
    """What comes from `offset` on: little, then more and more of it, to look for the next record after damage.

    Nearly always that is close; to fetch far more for each one of many would take time that grows with their square.
    """
    size = _SEARCHED_FIRST
    while True:
        data = piece(offset, offset + size)
        yield data
        if len(data) < size or size >= _SEARCHED:
            return
        size *= 4


class Reading:
    """The bytes of a file, by their places; of one that is compressed, those that were put into it.

    >>> import tempfile, gzip
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(gzip.compress(b"some lines\\nof text\\n"))
    ...     file.flush()
    ...     with Reading.of(file.name) as reading:
    ...         reading.piece(5, 10), reading.find(b"of", 3), reading.is_compressed
    (b'lines', 11, True)
    """

    version: Version | None = None
    """None where a user has opened the file."""

    def __init__(self, file: Any, path: str, is_compressed: Callable[[bytes], bool] = is_gzip) -> None:
        self.path, self._file = path, file
        self._file.seek(0)
        self._held: bytes = self._file.read(_START)
        self._first = 0
        self.is_compressed = is_compressed(self._held)
        if self.is_compressed:
            self._file.seek(0)
            self._file, self._held = _Unpacked(self._file), b""

    @staticmethod
    def of(path: str, is_compressed: Callable[[bytes], bool] = is_gzip, version: Version | None = None) -> Reading:
        """The bytes of the file at `path`, in that version of it, or in the present one."""
        file = opened(path, version)
        reading = Reading(file, path, is_compressed)
        reading.version = file.version
        return reading

    @property
    def damage(self) -> tuple[int, str] | None:
        """Up to where a compressed file could be read, and what is wrong there, once that place was reached."""
        return (self._file.position, self._file.damage) if self.is_compressed and self._file.damage else None

    @property
    def end(self) -> int:
        """The end of what is at hand."""
        return self._first + len(self._held)

    def piece(self, start: int, stop: int, keep: int | None = None) -> bytes:
        """The bytes from `start` to `stop`, fewer at the end of the file. Those from `keep` on stay at hand."""
        if start < self._first or stop > self.end:
            self._hold(start if keep is None else keep, stop)
        return self._held[start - self._first : stop - self._first]

    def find(self, wanted: bytes, start: int) -> int:
        """Where `wanted` is first found from `start` on, or -1."""
        looked_until = start
        self.piece(start, start + len(wanted))
        while True:
            found = self._held.find(wanted, looked_until - self._first)
            if found >= 0:
                return found + self._first
            end = self.end
            self._hold(start, end + max(_PIECE, end - start))
            if self.end == end:
                return -1
            looked_until = max(start, end - len(wanted) + 1)

    def _hold(self, start: int, stop: int) -> None:
        """Have the bytes from `start` to `stop` at hand, and perhaps more."""
        end = self.end
        if self._first <= start <= end:
            pieces = [self._held[start - self._first :]]
        else:
            self._go_to(start)
            pieces, end = [], start
        stop = max(stop, start + _PIECE)
        while end < stop:
            piece = self._file.read(min(stop - end, _LARGEST_PIECE))
            if not piece:
                break
            pieces.append(piece)
            end += len(piece)
        self._held, self._first = b"".join(pieces), start

    def _go_to(self, place: int) -> None:
        """Read from `place` on, or nothing where that is beyond the end: file systems refuse places far beyond it."""
        if self.is_compressed or place <= self._file.seek(0, os.SEEK_END):
            self._file.seek(place)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Unpacked:
    """What gzip has packed. Where that is damaged, all that comes before the damage is read, and then it ends."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._restart()

    def _restart(self) -> None:
        self._file.seek(0)
        self.position, self._packed, self._member, self.damage = 0, b"", zlib.decompressobj(31), ""

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; none at the end."""
        while not self.damage:
            if self._member.eof:
                self._packed = self._member.unused_data.lstrip(b"\0") or self._file.read(_PACKED_PIECE)
                if not self._packed:
                    return b""
                self._member = zlib.decompressobj(31)  # a file may have several parts, each packed by itself
            ended = not self._packed and not (packed := self._file.read(_PACKED_PIECE))
            self._packed = self._packed or packed
            before = self._member.copy()
            try:
                data = self._member.decompress(self._packed, size)
            except zlib.error as error:
                self.damage = str(error)
                data = _before_damage(before, self._packed)
            self._packed = self._member.unconsumed_tail
            if data:
                self.position += len(data)
                return data
            if ended and not self._member.eof:
                self.damage = "the file ends too early"
        return b""

    def seek(self, offset: int) -> None:
        """Go to a place, by unpacking what comes before it."""
        if offset < self.position:
            self._restart()
        while self.position < offset and self.read(min(_PIECE, offset - self.position)):
            pass

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def _before_damage(member: Any, packed: bytes) -> bytes:
    """As much of what was packed as comes before the damage in it."""
    found: list[bytes] = []
    with contextlib.suppress(zlib.error):
        found.extend(member.decompress(packed[place : place + 1]) for place in range(len(packed)))
    return b"".join(found)
