"""What the bytes of files stand for, by the files' extensions."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from grain.escaping import printable_message

IMAGES = ("bmp", "gif", "jpeg", "jpg", "pgm", "png", "ppm", "tif", "tiff", "webp")
"""Extensions of pictures."""
_BITS, _PHOTOMETRIC, _SAMPLE_FORMAT = 258, 262, 339
"""Tags of TIFF files: bits of a pixel, the colour of zero, and the kind of numbers."""
_ZERO_IS_WHITE, _UNSIGNED = 0, 1


def picture(data: bytes) -> Any:
    """The pixels of a picture: an array of uint8, of the shape (height, width, 3).

    Of pixels with more bits the eight most significant ones are kept, so that white is the largest number that the type
    of the file's pixels can hold; floats are from 0, black, to 1, white. Transparency is left out.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("Decoding pictures takes Pillow: pip install 'grain[images]'.") from error
    with Image.open(io.BytesIO(data)) as image:
        _check_size(image, len(data))
        is_deep = image.mode in ("I", "F") or image.mode.startswith("I;16")
        if is_deep:  # Pillow would make all that is not nearly black white
            return np.repeat(_eight_bits(image)[..., None], 3, axis=2)
        opaque = image.convert("RGBA") if image.mode in ("P", "PA") else image  # or it warns of some palettes
        return np.array(opaque.convert("RGB"))


def _eight_bits(image: Any) -> Any:
    """The pixels of a grey picture that has more bits."""
    pixels, tags = np.asarray(image), getattr(image, "tag_v2", {})
    if image.mode == "F":
        if not ((pixels >= 0) & (pixels <= 1)).all():
            raise ValueError("it has floats beyond 0 and 1. Read its bytes (decode=False), and scale them as they need")
        grey = np.minimum(pixels * 256, 255).astype(np.uint8)
    else:
        bits = tags.get(_BITS, (16,))[0]
        if tags.get(_SAMPLE_FORMAT, (_UNSIGNED,))[0] == _UNSIGNED:
            pixels = pixels.astype(np.uint32)  # the largest are negative for Pillow
        elif pixels.min() < 0:
            raise ValueError("it has negative numbers. Read its bytes (decode=False), and scale them as they need")
        else:
            bits -= 1
        grey = (pixels >> (bits - 8)).astype(np.uint8)
    return 255 - grey if tags.get(_PHOTOMETRIC) == _ZERO_IS_WHITE else grey


def _array(data: bytes) -> Any:
    return np.load(io.BytesIO(data), allow_pickle=False)


_FEW_PIXELS = 1 << 24
_MOST_PIXELS_IN_A_BYTE = 10_000
"""What no format gets to, with nothing but white in a picture."""


def _check_size(image: Any, size: int) -> None:
    """Raise an error where a few bytes are said to be so many pixels that a damaged header would take all memory."""
    if image.width * image.height > max(_FEW_PIXELS, _MOST_PIXELS_IN_A_BYTE * size):
        raise ValueError(f"it is said to have {image.width} x {image.height} pixels, and has {size} bytes")


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
                f"The file {field!r} of the sample {sample['__key__']!r} in {path!r} cannot be decoded: "
                f"{printable_message(error)}"
            ) from error
    return found
