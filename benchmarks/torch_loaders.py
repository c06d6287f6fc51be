"""The workloads that PyTorch's DataLoader can also do, in the process itself (`num_workers=0`)."""

from __future__ import annotations

from typing import Any

from material import (
    IMAGES_BATCH,
    MAPS_BATCH,
    MAPS_LENGTH,
    as_record,
    double,
    increment,
    labelled_images,
    to_float,
)
from torch.utils.data import DataLoader, Dataset


class _Maps(Dataset[Any]):
    def __len__(self) -> int:
        return MAPS_LENGTH

    def __getitem__(self, i: int) -> dict[str, int]:
        return as_record(double(increment(i)))


class _Images(Dataset[Any]):
    def __init__(self) -> None:
        self.records = labelled_images()

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, i: int) -> dict[str, Any]:
        return to_float(self.records[i])


def maps_batch() -> DataLoader[Any]:
    return DataLoader(_Maps(), batch_size=MAPS_BATCH, shuffle=True)


maps_iter_batch = maps_batch


def images() -> DataLoader[Any]:
    return DataLoader(_Images(), batch_size=IMAGES_BATCH, shuffle=True)
