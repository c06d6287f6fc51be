"""What the bytes of files stand for, by the files' extensions."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np

IMAGES = ("bmp", "gif", "jpeg", "jpg", "pgm", "png", "ppm", "tif", "tiff", "webp")
"""Extensions of pictures."""


def picture(data: bytes) -> Any:
    """The pixels of a picture as they are stored: an array of uint8, of the shape (height, width, 3)."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("Decoding pictures takes Pillow: pip install 'grain[images]'.") from error
    with Image.open(io.BytesIO(data)) as image:
        if image.mode.startswith("I;16"):  # Pillow would make all that is not nearly black white
            grey = (np.asarray(image) >> 8).astype(np.uint8)
            return np.repeat(grey[..., None], 3, axis=2)
        opaque = image.convert("RGBA") if image.mode == "P" else image  # or it warns of some palettes
        return np.array(opaque.convert("RGB"))


def _array(data: bytes) -> Any:
    return np.load(io.BytesIO(data), allow_pickle=False)


DECODERS: dict[str, Callable[[bytes], Any]] = {
    "cls": int,
    "json": json.loads,
    "npy": _array,
    "text": bytes.decode,
    "txt": bytes.decode,
    **dict.fromkeys(IMAGES, picture),
}


def decoded(sample: dict[str, Any], path: str) -> dict[str, Any]:
    """A sample of files, each as what it stands for; what has another extension stays as it is."""
    found = {}
    for field, content in sample.items():
        decode = DECODERS.get(field.rpartition(".")[2])
        try:
            found[field] = content if decode is None else decode(content)
        except Exception as error:
            raise ValueError(
                f"The file {field!r} of the sample {sample['__key__']!r} in {path!r} cannot be decoded: {error}"
            ) from error
    return found
