"""TFRecord files: records of bytes, each after its length, both with checksums."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from google_crc32c import value as crc32c

from grain.files.paths import PathLike
from grain.sources.byte_streams import Reading, growing_pieces, is_gzip
from grain.sources.sequences import SequenceDataSource, Spanned, offsets_of

_HEADER = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")
_BEYOND_ALL_FILES = 1 << 62


class TFRecordFormat(Spanned):
    """Length, its checksum, the record, its checksum."""

    name = "TFRecord"

    def is_compressed(self, start: bytes) -> bool:
        """A length may look like the mark of gzip; its checksum tells."""
        return is_gzip(start) and _length(start) is None

    def spans(self, reading: Reading, offset: int) -> Iterator[tuple[int, int]]:
        """One for each record; where a length is damaged, up to the next one that is not."""
        return _spans(reading, offset, is_read=True)

    def offsets(self, reading: Reading) -> Any:
        """Where records start; a file that has no record with a sound length is of another format."""
        found = offsets_of(_spans(reading, 0, is_read=False))
        starts = found[:-1].tolist()
        if starts and not any(_length(reading.piece(start, start + 12)) is not None for start in starts):
            self.record(reading.piece(0, starts[1] if len(starts) > 1 else int(found[-1])), reading.path, 0)
        return found

    def record(self, data: bytes, path: str, offset: int) -> bytes:
        """The record, if it is as it was written."""
        if len(data) < 12:
            raise ValueError(_too_short(12, data, path, offset))
        length = _length(data)
        if length is None:
            raise ValueError(
                f"Not a valid TFRecord. The length has a wrong checksum: {data[:12].hex()!r} at byte {offset} of "
                f"{path!r}. The {len(data)} bytes up to the next record that can be read are passed over."
            )
        if len(data) < length + 16:
            raise ValueError(_too_short(length + 4, data[12:], path, offset))
        record = data[12:-4]
        if not _is_sound(record, data[-4:]):
            raise ValueError(
                f"Not a valid TFRecord. The {length} bytes of the record at byte {offset} of {path!r} have a wrong "
                "checksum: they are damaged."
            )
        return record


def _too_short(expected: int, data: bytes, path: str, offset: int) -> str:
    shown = f"{data[:32].hex().encode()!r}{'...' if len(data) > 32 else ''}"
    return (
        f"Not a valid TFRecord. Fewer than {expected} bytes: {shown}. {path!r} ends within the record at byte "
        f"{offset}, or the length of that is damaged."
    )


def _masked(data: bytes) -> int:
    """The checksum of some bytes, as these files have it."""
    checksum: int = crc32c(data)
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _length(header: bytes) -> int | None:
    """The length of the record that begins so, or None if it does not have the right checksum."""
    if len(header) < 12:
        return None
    length, checksum = _HEADER.unpack_from(header)
    return length if _masked(header[:8]) == checksum else None


def _is_sound(record: bytes, checksum: bytes) -> bool:
    return checksum == _CHECKSUM.pack(_masked(record))


def _spans(reading: Reading, offset: int, is_read: bool) -> Iterator[tuple[int, int]]:
    """The spans of records from `offset` on; where they are then read, their bytes stay at hand.

    A sound length is believed if the next record is where it says, or if the content that it delimits is sound.
    Otherwise it may have been written over that of another record, and to follow it would be to pass over records that
    are whole.
    """
    header = reading.piece(offset, offset + 12)
    length = _length(header)
    while header:
        keep = offset if is_read else None
        if length is not None:
            stop = offset + length + 16
        else:
            stop = offset + len(header) if len(header) < 12 else _next_record(reading, offset)
        header = reading.piece(stop, stop + 12, keep)
        next_length = _length(header)
        if next_length is None and length is not None and not _is_whole(reading, offset, stop, keep):
            stop = _next_record(reading, offset, min(stop, _BEYOND_ALL_FILES))
            header = reading.piece(stop, stop + 12, keep)
            next_length = _length(header)
        yield offset, stop
        offset, length = stop, next_length


def _is_whole(reading: Reading, offset: int, stop: int, keep: int | None) -> bool:
    checksum = reading.piece(stop - 4, stop, keep)
    return len(checksum) == 4 and _is_sound(reading.piece(offset + 12, stop - 4, keep), checksum)


def _next_record(reading: Reading, offset: int, limit: int | None = None) -> int:
    """Where the next record with a sound length begins, at most `limit`; else that, or how far was looked."""
    data = b""
    for data in growing_pieces(reading.piece, offset):
        for place in _possible_records(data):
            if _length(data[place : place + 12]) is not None:
                return offset + place if limit is None else min(offset + place, limit)
    return offset + len(data) if limit is None else limit


def _possible_records(data: bytes) -> list[int]:
    """Where records may begin, but for the first byte: lengths are less than 4 GB, so the upper half of one is zero.

    Its checksum is not, and with that there are few such places even in large arrays of zeros.
    """
    is_zero = np.frombuffer(data, np.uint8) == 0
    are_zero = is_zero[:-3] & is_zero[1:-2] & is_zero[2:-1] & is_zero[3:]
    return (np.flatnonzero(are_zero[5:-4] & ~are_zero[9:]) + 1).tolist()


class TFRecordDataSource(SequenceDataSource[bytes]):
    """The records of TFRecord files, as bytes, with their checksums checked.

    Where records are is found when a file is first opened, and kept in `index_folder`, or in the cache folder
    (`$GRAIN_CACHE`), until the file changes. Paths may be globs and URLs.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "one.tfrecord")
    ...     _ = path.write_bytes(bytes.fromhex("01000000000000000175de4161786ee428"))
    ...     source = TFRecordDataSource(path, index_folder=folder)
    ...     len(source), source[0]
    (1, b'a')
    """

    def __init__(self, paths: PathLike | Sequence[PathLike], *, index_folder: PathLike | None = None) -> None:
        super().__init__(paths, TFRecordFormat(), index_folder)
