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
_NUMBERS = struct.Struct("100x8s8s8s12x12s181x8s8s167x")
"""Mode, owner, group, time and device, which say nothing of interest: but where they are no numbers there is damage."""
_TARGET = slice(157, 257)
"""Of a link."""
_SPACES = 8 * ord(" ")
_FILES = b"0", b"\0", b"7"
_HARD_LINK, _SPARSE, _CONTINUED, _GLOBAL = b"1", b"S", b"M", b"g"
_WITHOUT_CONTENT = _HARD_LINK, b"2", b"3", b"4", b"5", b"6"
"""Links, devices, folders and pipes: whatever size their headers have."""
_LONG_NAME, _PAX = b"L", (b"x", b"X")
_BEFORE_MEMBER = _LONG_NAME, b"K", *_PAX
"""Types of headers that say something of the member after them: its name, the target of its link, anything."""
_IS_EXTENDED = 482
_EXTENSION_IS_EXTENDED = 504
"""Where a header of a sparse file, and an extension of it, say whether another extension follows."""
_LARGEST_EXTENDED_HEADER = 1 << 20
_LARGEST_SIZE = 1 << 60
_ZEROS_AT_ONCE = 1 << 16


class Member(NamedTuple):
    """A file in an archive, or something else that has no content that is of interest."""

    name: str
    is_file: bool
    start: int
    """Where its content begins."""
    stop: int
    end: int
    """Where the next member begins."""
    refusal: str = ""
    """Why the content of a file is not simply what lies there; empty if it is."""


class TarError(ValueError):
    """What is at some place of an archive is no member."""


def member_at(piece: Callable[[int, int], bytes], offset: int) -> Member | None:
    """The member whose headers begin at `offset`, or None at the end of the archive.

    `piece` gives the bytes between two places, fewer at the end of the file.
    """
    said: dict[str, str] = {}
    first = offset
    while True:
        header = piece(offset, offset + _BLOCK)
        if not header or (header[0] == 0 and not header.strip(b"\0")):
            if offset > first:
                raise TarError(f"no member follows the extended header at byte {first}")
            return None
        if len(header) < _BLOCK:
            raise TarError(f"the archive ends within the header at byte {offset}")
        if not _is_sound(header):
            raise TarError(f"there is no tar header at byte {offset}, or it is damaged")
        own_name, own_size, kind, magic, folder = _FIELDS.unpack(header)
        start, size = offset + _BLOCK, _number(own_size)
        if kind not in _BEFORE_MEMBER:
            break
        if kind == _LONG_NAME:
            said["path"] = _text(_extended(piece, start, size))
        elif kind in _PAX:
            said |= _pax(_extended(piece, start, size))
        offset = start + _padded(size)
    name, is_file, refusal = "", kind in _FILES, ""
    if said:
        name = said.get("GNU.sparse.name") or said.get("path", "")
        size = _decimal(said["size"]) if said.get("size") else size
    if not name:
        name = _text(own_name)
        if folder[0] and magic == b"ustar\0":  # other kinds of headers have something else there
            name = f"{_text(folder)}/{name}"
    if said or not is_file:
        refusal = _refusal(kind, said, header)
    if not is_file:
        if kind == _GLOBAL:
            _check_global(_pax(_extended(piece, start, size)), offset)
        elif kind == _SPARSE:
            start = _after_extensions(piece, offset, header)
        elif kind in _WITHOUT_CONTENT:
            size = 0
    return Member(name, is_file or refusal != "", start, start + size, start + _padded(size), refusal)


def _extended(piece: Callable[[int, int], bytes], start: int, size: int) -> bytes:
    """The content of an extended header; one of gigabytes is damage, and would take all memory."""
    if size > _LARGEST_EXTENDED_HEADER:
        raise TarError(f"the extended header before byte {start} has {size} bytes")
    return piece(start, start + size)


def _check_global(said: dict[str, str], offset: int) -> None:
    """What is said of all members that follow is not known to who begins to read at one of them."""
    wrong = [key for key in said if key in ("path", "size") or key.startswith("GNU.sparse.")]
    if wrong:
        raise TarError(f"the global header at byte {offset} gives all members that follow one {wrong[0]!r}")


def _refusal(kind: bytes, said: dict[str, str], header: bytes) -> str:
    """Why a file cannot be read, whose content is not simply what lies there."""
    if kind == _SPARSE or any(key.startswith("GNU.sparse.") for key in said):
        return "has holes, which are not in the archive. Make it without --sparse"
    if kind == _HARD_LINK:
        return f"is a link to {_text(header[_TARGET])!r}. Make the archive with --hard-dereference"
    return "is the rest of a file of another archive" if kind == _CONTINUED else ""


def _after_extensions(piece: Callable[[int, int], bytes], offset: int, header: bytes) -> int:
    """Where the content of an old kind of sparse file begins: after headers with more of its map."""
    place, is_extended = offset + _BLOCK, header[_IS_EXTENDED]
    while is_extended:
        extension = piece(place, place + _BLOCK)
        if len(extension) < _BLOCK:
            raise TarError(f"the archive ends within the header at byte {place}")
        place, is_extended = place + _BLOCK, extension[_EXTENSION_IS_EXTENDED]
    return place


def after_zeros(piece: Callable[[int, int], bytes], offset: int) -> int | None:
    """Where something begins after the end of an archive at `offset`, as another archive; None if there is nothing."""
    while data := piece(offset, offset + _ZEROS_AT_ONCE):
        rest = data.lstrip(b"\0")
        if rest:
            return offset + (len(data) - len(rest)) // _BLOCK * _BLOCK
        offset += len(data)
    return None


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
    """Whether it has the right checksum, and numbers where they belong: bytes that change places have the same sum.

    The sum is that of all bytes, with spaces in the place of the checksum itself.
    """
    field = header[148:156]
    try:
        checksum = int(field.strip(b"\0 "), 8)
    except ValueError:
        return False
    # The lower half of Adler's checksum is such a sum, plus one, and there is no faster way to get it.
    has_checksum = (checksum + sum(field) - _SPACES + 1 - zlib.adler32(header) % 65536) % 65521 == 0
    if not has_checksum or len(header) < _BLOCK:
        return False
    is_plain = not (header[100:148] + header[329:345]).translate(None, b"01234567\0")  # the same, but fast
    return is_plain or all(map(_is_number, _NUMBERS.unpack(header)))


def _is_number(field: bytes) -> bool:
    if field[0] in (0x80, 0xFF):  # too large to be written in octal digits, or negative
        return True
    try:
        int(field.partition(b"\0")[0].strip() or b"0", 8)
    except ValueError:
        return False
    return True


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "surrogateescape")


def _number(field: bytes) -> int:
    if field[0] == 0x80:  # too large to be written in octal digits
        found = int.from_bytes(field[1:], "big")
    else:
        try:
            found = int(field.strip(b"\0 ") or b"0", 8)
        except ValueError:
            found = -1
    if not 0 <= found < _LARGEST_SIZE:
        raise TarError(f"a header has {field!r} for the size of its member")
    return found


def _pax(data: bytes) -> dict[str, str]:
    """Records of the form "length key=value", each with a line end, of which the length is that of the whole."""
    said, place = {}, 0
    while place < len(data):
        digits = data[place : place + 20].partition(b" ")[0]
        length = _decimal(digits.decode("ascii", "replace"))
        record = data[place : place + length]
        key, equals, value = record[len(digits) + 1 : -1].partition(b"=")
        if not equals or len(record) < length or not record.endswith(b"\n"):
            raise TarError(f"an extended header has {record[:80]!r} in the place of a key and its value")
        said[_text(key)] = _text(value)
        place += length
    return said


def _decimal(digits: str) -> int:
    if not digits.isascii() or not digits.isdecimal() or len(digits) > 20 or int(digits) >= _LARGEST_SIZE:
        raise TarError(f"an extended header has {digits!r} in the place of a number")
    return int(digits)


def _padded(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK
