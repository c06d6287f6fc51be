"""Data and user functions that every contestant of a workload shares."""

from __future__ import annotations

from typing import Any

import numpy as np

SEED = 42
MAPS_LENGTH = 7_500 * 128
MAPS_BATCH = 128
IMAGES_LENGTH = 150 * 64
IMAGES_BATCH = 64


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
