"""Records in a form that people can read."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from grain.command_line.source_arguments import with_unit
from grain.escaping import printable

_WIDTH = 60
_PLACES = 10
_TOGETHER = 10
_IMAGES = {b"\x89PNG\r\n\x1a\n": "PNG", b"\xff\xd8\xff": "JPEG", b"GIF8": "GIF", b"BM": "BMP", b"II*\0": "TIFF"}


def lines(record: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """A line for each part of `record`: where it is, and what it is.

    >>> list(lines({"label": 3, "pixels": np.zeros((8, 8), np.uint8), "tags": ["a", "b"]}))
    [('label', '3'), ('pixels', 'uint8 (8, 8), 0 to 0'), ('tags.0', "'a'"), ('tags.1', "'b'")]
    """
    if isinstance(record, Mapping) and record:
        for key, value in record.items():
            yield from lines(value, f"{name}.{printable(str(key))}" if name else printable(str(key)))
    elif isinstance(record, list | tuple) and 0 < len(record) <= 4:
        for place, value in enumerate(record):
            yield from lines(value, f"{name}.{place}" if name else str(place))
    else:
        yield name, printable(_described(record))


def size_of(record: Any) -> int:
    """About how many bytes of data `record` holds.

    >>> size_of({"text": "four", "pixels": np.zeros(3, np.float32), "label": 7})
    24
    """
    if isinstance(record, bytes | bytearray | str):
        return len(record)
    if isinstance(record, Mapping):
        return sum(map(size_of, record.values()))
    if isinstance(record, list | tuple):
        return sum(map(size_of, record))
    return int(getattr(record, "nbytes", 8))


def sizes_of_some(source: Any) -> list[int]:
    """About how large some records from all over `source` are; those that lie together are read at once."""
    count = len(source)
    if count <= _PLACES * _TOGETHER:
        indices = list(range(count))
    else:
        starts = [place * (count - _TOGETHER) // (_PLACES - 1) for place in range(_PLACES)]
        indices = [start + number for start in starts for number in range(_TOGETHER)]
    return [size_of(record) for record in source.__getitems__(indices)]


def labels(source: Any) -> str:
    """What the numbers stand for that pictures of a folder have as labels: `"0 cat, 1 dog"`."""
    return ", ".join(f"{number} {printable(name)}" for number, name in enumerate(source.classes))


def _described(value: Any) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return _described_bytes(bytes(value))
    if isinstance(value, np.ndarray) and value.ndim:
        return _described_array(value)
    if isinstance(value, np.generic | np.ndarray):
        return f"{value.item()!r} ({value.dtype})"
    return _shortened(repr(value))


def _described_bytes(data: bytes) -> str:
    kind = next((kind for magic, kind in _IMAGES.items() if data.startswith(magic)), None)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        kind = "WebP"
    if kind is not None:
        return f"{kind} image{_image_size(data)}, {with_unit(len(data))}"
    if data[:1] == b"\x80" and data[-1:] == b"." and 2 <= data[1] <= 5:
        return f"a pickle, {with_unit(len(data))}"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = None
    shown = data[:24].hex(" ") + (" …" if len(data) > 24 else "")
    if text is not None and all(letter.isprintable() or letter.isspace() for letter in text):
        shown = _shortened(repr(text))
    return f"{with_unit(len(data))}: {shown}" if data else "0 B"


def _image_size(data: bytes) -> str:
    """`", 640 x 480 RGB"`, where Pillow is there to tell."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        return ""
    try:
        with Image.open(io.BytesIO(data)) as image:
            return f", {image.width} x {image.height} {image.mode}"
    except (UnidentifiedImageError, OSError):
        return " that Pillow cannot read"


def _described_array(array: Any) -> str:
    kind = f"{array.dtype} {array.shape}"
    if not array.size:
        return kind
    if array.size <= 8:
        return f"{kind}: {_shortened(' '.join(str(array).split()))}"
    if array.dtype.kind in "biuf":
        return f"{kind}, {array.min():.6g} to {array.max():.6g}"
    return f"{kind}: {_shortened(repr(array.ravel()[0]))} …"


def _shortened(text: str) -> str:
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
