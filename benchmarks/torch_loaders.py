"""The workloads that PyTorch's DataLoader can also do: with its own defaults, but for the number of workers."""

from __future__ import annotations

from typing import Any

from material import (
    IMAGES_BATCH,
    MAPS_BATCH,
    MAPS_LENGTH,
    PHOTOS_BATCH,
    RECORDS_BATCH,
    Photos,
    Small,
    as_record,
    double,
    increment,
    labelled_images,
    records,
    to_float,
    with_square,
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


class _Squares(Dataset[Any]):
    def __init__(self) -> None:
        self.records = records(100_000)

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, i: int) -> dict[str, int]:
        return with_square(self.records[i])


def loader(worker_count: int) -> DataLoader[Any]:
    return DataLoader(_Squares(), batch_size=RECORDS_BATCH, shuffle=True, num_workers=worker_count)


def maps_batch() -> DataLoader[Any]:
    return DataLoader(_Maps(), batch_size=MAPS_BATCH, shuffle=True)


maps_iter_batch = maps_batch


def images() -> DataLoader[Any]:
    return DataLoader(_Images(), batch_size=IMAGES_BATCH, shuffle=True)


def defaults_batch() -> DataLoader[Any]:
    return DataLoader(records(100_000), batch_size=RECORDS_BATCH, shuffle=True)


def handover() -> DataLoader[Any]:
    return DataLoader(Photos(), batch_size=PHOTOS_BATCH, num_workers=2)


def small_elements_mp() -> DataLoader[Any]:
    return DataLoader(Small(), batch_size=None, num_workers=2)


def first_batch() -> DataLoader[Any]:
    return DataLoader(
        records(1_000), batch_size=RECORDS_BATCH, shuffle=True, num_workers=2, multiprocessing_context="spawn"
    )
