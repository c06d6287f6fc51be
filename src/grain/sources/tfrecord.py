"""TFRecord files: records of bytes, each after its length, both with checksums."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from google_crc32c import value as crc32c

from grain.files.paths import PathLike
from grain.sources.byte_streams import Reading, growing_pieces, is_gzip
from grain.sources.sequences import SequenceDataSource, Spanned

_HEADER = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")


class TFRecordFormat(Spanned):
    """Length, its checksum, the record, its checksum."""

    name = "TFRecord"

    def is_compressed(self, start: bytes) -> bool:
        """A length may look like the mark of gzip; its checksum tells."""
        return is_gzip(start) and _length(start) is None

    def spans(self, reading: Reading, offset: int) -> Iterator[tuple[int, int]]:
        """One for each record; where a length is damaged, up to the next one that is not."""
        while header := reading.piece(offset, offset + 12):
            length = _length(header)
            if length is None:
                stop = offset + len(header) if len(header) < 12 else _next_record(reading, offset)
            else:
                stop = offset + length + 16
            yield offset, stop
            offset = stop

    def offsets(self, reading: Reading) -> Any:
        """Where records start; a file that has no record with a sound length is of another format."""
        found = super().offsets(reading)
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
        if _masked(record) != _CHECKSUM.unpack_from(data, length + 12)[0]:
            raise ValueError(
                f"Not a valid TFRecord. The {length} bytes of the record at byte {offset} of {path!r} have a wrong "
                "checksum: they are damaged."
            )
        return record


def _too_short(expected: int, data: bytes, path: str, offset: int) -> str:
    shown = f"{data[:32].hex().encode()!r}{'...' if len(data) > 32 else ''}"
    return (
        f"Not a valid TFRecord. Fewer than {expected} bytes: {shown}. {path!r} ends within the record at byte {offset}."
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


def _next_record(reading: Reading, offset: int) -> int:
    """Where the next record with a sound length begins, or how far was looked."""
    data = b""
    for data in growing_pieces(reading.piece, offset):
        for place in _possible_records(data):
            if _length(data[place : place + 12]) is not None:
                return offset + place
    return offset + len(data)


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
