"""Data and user functions that every contestant of a workload shares."""

from __future__ import annotations

import functools
import io
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

SEED = 42
MAPS_LENGTH = 7_500 * 128
MAPS_BATCH = 128
IMAGES_LENGTH = 150 * 64
IMAGES_BATCH = 64
RECORDS_BATCH = 64
PHOTOS_BATCH = 64
PHOTO_SHAPE = (224, 224, 3)
JPEGS_BATCH = 32
KILOBYTES_BATCH = 128


def increment(x: int) -> int:
    return x + 1


def double(x: int) -> int:
    return x * 2


def as_record(x: int) -> dict[str, int]:
    return {"value": x, "label": x % 10}


def labelled_images() -> list[dict[str, Any]]:
    images = array_of("img")
    return [{"image": image, "label": i % 10} for i, image in enumerate(images)]


def to_float(record: dict[str, Any]) -> dict[str, Any]:
    return {"image": record["image"].astype(np.float32), "label": record["label"]}


def array_of(rows: str) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(SEED)
    if rows == "1d":
        return rng.integers(0, 1_000_000, 1_000_000)
    if rows == "16":
        return rng.random((200_000, 16), np.float32)
    return rng.integers(0, 256, (IMAGES_LENGTH, 32, 32, 3), np.uint8)


def with_square(record: dict[str, int]) -> dict[str, int]:
    return {**record, "square": record["value"] ** 2}


def records(count: int) -> list[dict[str, int]]:
    return [as_record(i) for i in range(count)]


class Photos:
    """A million images that cost nothing to read: views of one array, made where they are read."""

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, i: int) -> np.ndarray[Any, Any]:
        return self._views[i % PHOTOS_BATCH]

    @functools.cached_property
    def _views(self) -> list[np.ndarray[Any, Any]]:
        return list(photos())


def photos() -> np.ndarray[Any, Any]:
    return np.random.default_rng(SEED).integers(0, 256, (PHOTOS_BATCH, *PHOTO_SHAPE), np.uint8)


class Small:
    """Ten million records of a few bytes, made when they are read."""

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, i: int) -> dict[str, int]:
        return as_record(i)


class Blocking(Small):
    """Records that take 5 ms of waiting each, as from a disk or a network."""

    def __getitem__(self, i: int) -> dict[str, int]:
        time.sleep(0.005)
        return as_record(i)


def jpegs() -> list[bytes]:
    """64 files of 500 x 375 pixels: gradients with noise on them, about as large as photographs are."""
    from PIL import Image  # Only these need it.

    rng = np.random.default_rng(SEED)
    down, across = np.mgrid[0:375, 0:500]
    files = []
    for _ in range(64):
        slopes = rng.uniform(-0.4, 0.4, (2, 3))
        pixels = 128 + down[..., None] * slopes[0] + across[..., None] * slopes[1] + rng.normal(0, 12, (375, 500, 3))
        file = io.BytesIO()
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(file, "JPEG", quality=90)
        files.append(file.getvalue())
    return files


def decode_and_crop(file: bytes) -> np.ndarray[Any, Any]:
    """The middle of the picture, 224 x 224 pixels."""
    from PIL import Image

    with Image.open(io.BytesIO(file)) as image:
        left, top = (image.width - 224) // 2, (image.height - 224) // 2
        return np.asarray(image.convert("RGB").crop((left, top, left + 224, top + 224)))


def kilobytes() -> str:
    """An ArrayRecord file of 50,000 records of 1,000 bytes, made for random access, and kept for the next run."""
    path = Path(__file__).resolve().parents[1] / ".bench" / "kilobytes.arrayrecord"
    if not path.exists():
        from array_record.python.array_record_module import ArrayRecordWriter

        path.parent.mkdir(exist_ok=True)
        partial = f"{path}.{os.getpid()}"
        writer, rng = ArrayRecordWriter(partial, "group_size:1"), np.random.default_rng(SEED)
        for _ in range(50_000):
            writer.write(rng.bytes(1_000))
        writer.close()
        os.replace(partial, path)
    return str(path)
