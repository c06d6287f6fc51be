"""The floor: the loop one would write by hand, its permutation drawn beforehand and off the clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from material import (
    KILOBYTES_BATCH,
    MAPS_BATCH,
    MAPS_LENGTH,
    SEED,
    array_of,
    as_record,
    double,
    increment,
    kilobytes,
    photos,
)


def maps_batch() -> Iterator[dict[str, Any]]:
    order = np.random.default_rng(SEED).permutation(MAPS_LENGTH).tolist()
    while True:
        for start in range(0, len(order), MAPS_BATCH):
            records = [as_record(double(increment(i))) for i in order[start : start + MAPS_BATCH]]
            yield {key: np.array([record[key] for record in records]) for key in records[0]}


maps_iter_batch = maps_batch


def array(rows: str) -> Iterator[Any]:
    values = array_of(rows)
    order = np.random.default_rng(SEED).permutation(len(values))
    while True:
        for start in range(0, len(order), 64):
            yield values[order[start : start + 64]]


def array_record(num_threads: int) -> Iterator[Any]:
    """One call of the reader for a batch."""
    from array_record.python.array_record_module import ArrayRecordReader

    reader = ArrayRecordReader(kilobytes(), "readahead_buffer_size:0")
    order = np.random.default_rng(SEED).permutation(reader.num_records()).tolist()
    while True:
        for start in range(0, len(order), KILOBYTES_BATCH):
            yield np.array(reader.read(order[start : start + KILOBYTES_BATCH]))


def handover() -> Iterator[Any]:
    """One copy of the bytes of a batch, into memory that has been written before."""
    batch = photos()
    taken = np.ones_like(batch)
    while True:
        np.copyto(taken, batch)
        yield taken
