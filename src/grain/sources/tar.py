"""Members of tar archives: where they are and what they are called, read from their headers alone."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import NamedTuple

from grain.sources.byte_streams import growing_pieces

_BLOCK = 512
_FIELDS = struct.Struct("100s24x12s20xs100x6s82x155s12x")
"""Name, size, type, magic, and the beginning of a long name."""
_SPACES = 8 * ord(" ")
_FILES = b"0", b"\0", b"7"
_LONG_NAME, _PAX = b"L", b"x"
_BEFORE_MEMBER = _LONG_NAME, b"K", _PAX
"""Types of headers that say something of the member after them: its name, the target of its link, anything."""


class Member(NamedTuple):
    """A file in an archive, or something else that has no content that is of interest."""

    name: str
    is_file: bool
    start: int
    """Where its content begins."""
    stop: int
    end: int
    """Where the next member begins."""


class TarError(ValueError):
    """What is at some place of an archive is no member."""


def member_at(piece: Callable[[int, int], bytes], offset: int) -> Member | None:
    """The member whose headers begin at `offset`, or None at the end of the archive.

    `piece` gives the bytes between two places, fewer at the end of the file.
    """
    name, size = "", -1
    while True:
        header = piece(offset, offset + _BLOCK)
        if not header or (header[0] == 0 and not header.strip(b"\0")):
            return None
        if len(header) < _BLOCK:
            raise TarError(f"the archive ends within the header at byte {offset}")
        if not _is_sound(header):
            raise TarError(f"there is no tar header at byte {offset}, or it is damaged")
        own_name, own_size, kind, magic, folder = _FIELDS.unpack(header)
        start, length = offset + _BLOCK, _number(own_size)
        if kind not in _BEFORE_MEMBER:
            break
        if kind == _LONG_NAME:
            name = _text(piece(start, start + length))
        elif kind == _PAX:
            said = _pax(piece(start, start + length))
            name = said.get("path", name)
            size = _decimal(said["size"]) if "size" in said else size
        offset = start + _padded(length)
    if not name:
        name = _text(own_name)
        if folder[0] and magic == b"ustar\0":  # other kinds of headers have something else there
            name = f"{_text(folder)}/{name}"
    size = length if size < 0 else size
    return Member(name, kind in _FILES, start, start + size, start + _padded(size))


def next_member(piece: Callable[[int, int], bytes], offset: int) -> int:
    """Where a member begins after the damage at `offset`, or how far was looked."""
    data = b""
    for data in growing_pieces(piece, offset):
        found = data.find(b"ustar", _BLOCK)
        while found >= 0:
            place = found - 257
            if place % _BLOCK == 0 and _is_sound(data[place : place + _BLOCK]):
                return offset + place
            found = data.find(b"ustar", found + 1)
    return offset + len(data)


def _is_sound(header: bytes) -> bool:
    """Whether it has the right checksum: the sum of its bytes, with spaces in the place of the checksum itself."""
    field = header[148:156]
    try:
        checksum = int(field.strip(b"\0 "), 8)
    except ValueError:
        return False
    # The lower half of Adler's checksum is such a sum, plus one, and there is no faster way to get it.
    return (checksum + sum(field) - _SPACES + 1 - zlib.adler32(header) % 65536) % 65521 == 0


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "surrogateescape")


def _number(field: bytes) -> int:
    if field[0] & 0x80:  # too large to be written in octal digits
        return int.from_bytes(field[1:], "big") | (field[0] & 0x7F) << 88
    try:
        return int(field.strip(b"\0 ") or b"0", 8)
    except ValueError:
        raise TarError(f"a header has {field!r} for the size of its member") from None


def _pax(data: bytes) -> dict[str, str]:
    """Records of the form "length key=value", each with a line end, of which the length is that of the whole."""
    said, place = {}, 0
    while place < len(data):
        digits = data[place : place + 20].partition(b" ")[0]
        length = _decimal(digits.decode("ascii", "replace"))
        key, _, value = data[place + len(digits) + 1 : place + length - 1].partition(b"=")
        said[_text(key)] = _text(value)
        place += length
    return said


def _decimal(digits: str) -> int:
    if not digits.isdecimal() or int(digits) == 0:
        raise TarError(f"an extended header has {digits!r} in the place of a number")
    return int(digits)


def _padded(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK
