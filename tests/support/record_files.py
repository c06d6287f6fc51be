"""Files of records, as tests need them."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
from pathlib import Path

import google_crc32c


def masked(data):
    crc = google_crc32c.value(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def tfrecord(records):
    """The content of a TFRecord file."""
    parts = []
    for record in records:
        length = struct.pack("<Q", len(record))
        parts += [length, masked(length), record, masked(record)]
    return b"".join(parts)


def tar(members, format=tarfile.GNU_FORMAT):
    """The content of an archive with members (name, content)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=format) as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def written(path, content):
    """`path`, with this content, compressed if its name says so."""
    Path(path).write_bytes(gzip.compress(content) if str(path).endswith("gz") else content)
    return path


def elements_and_errors(iterable):
    """All elements, and for those that cannot be read the text of the error."""
    iterator, found = iter(iterable), []
    while True:
        try:
            found.append(next(iterator))
        except StopIteration:
            return found
        except (ValueError, OSError) as error:
            found.append(str(error))
