"""The floor: the loop one would write by hand, its permutation drawn beforehand and off the clock."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

import numpy as np
from material import (
    BOUNDARIES,
    DOCUMENTS_BATCH,
    KILOBYTES_BATCH,
    MAPS_BATCH,
    MAPS_LENGTH,
    PACKED_LENGTH,
    PACKING_BINS,
    ROWS_BATCH,
    ROWS_LENGTH,
    SEED,
    array_of,
    as_record,
    columns_of_numbers,
    documents,
    double,
    increment,
    kilobytes,
    photos,
    tokens_in,
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


def columns() -> Iterator[Any]:
    arrays = columns_of_numbers()
    order = np.random.default_rng(SEED).permutation(ROWS_LENGTH)
    while True:
        for start in range(0, ROWS_LENGTH, ROWS_BATCH):
            chosen = order[start : start + ROWS_BATCH]
            yield {name: array[chosen] for name, array in arrays.items()}


def handover() -> Iterator[Any]:
    """One copy of the bytes of a batch, into memory that has been written before."""
    batch = photos()
    taken = np.ones_like(batch)
    while True:
        np.copyto(taken, batch)
        yield taken


def padded_batch() -> Iterator[dict[str, Any]]:
    records = documents()
    while True:
        for start in range(0, len(records) - DOCUMENTS_BATCH + 1, DOCUMENTS_BATCH):
            yield _padded(records[start : start + DOCUMENTS_BATCH])


def bucket_by_length() -> Iterator[dict[str, Any]]:
    records = documents()
    while True:
        buckets: list[list[Any]] = [[] for _ in BOUNDARIES]
        for record in records:
            number = bisect_left(BOUNDARIES, tokens_in(record))
            buckets[number].append(record)
            if len(buckets[number]) == DOCUMENTS_BATCH:
                yield _padded(buckets[number])
                buckets[number] = []


def _padded(records: list[dict[str, Any]]) -> dict[str, Any]:
    arrays = [record["tokens"] for record in records]
    batch = np.zeros((len(arrays), max(map(len, arrays))), np.int32)
    for row, array in zip(batch, arrays, strict=True):
        row[: len(array)] = array
    return {"tokens": batch}


def packing(kind: str) -> Iterator[Any]:
    """Copies of documents, their segment ids and their positions, into rows that are there.

    Where each one goes is known beforehand. Rows that will not be full are cleared first.
    """
    tokens = [document["tokens"] for document in documents()]
    batches = _split(tokens) if kind == "split" else _packed(tokens, fullest=kind == "best")
    shape = (PACKING_BINS, PACKED_LENGTH)
    values, segment_ids, positions = np.zeros(shape, np.int32), np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    counting = np.arange(PACKED_LENGTH, dtype=np.int32)
    while True:
        for count, pieces in batches:
            if kind != "split":
                values.fill(0)
                segment_ids.fill(0)
                positions.fill(0)
            for piece, row, start, end, number in pieces:
                values[row, start:end] = piece
                segment_ids[row, start:end] = number
                positions[row, start:end] = counting[: end - start]
            for row in range(count):
                yield {"tokens": values[row], "segment_ids": segment_ids[row], "positions": positions[row]}


Copies = list[tuple[Any, int, int, int, int]]
"""What to copy, into which row, from where to where, and as which document of the row."""


def _packed(tokens: list[Any], fullest: bool) -> list[tuple[int, Copies]]:
    batches: list[tuple[int, Copies]] = []
    used, numbers, copies = [0] * PACKING_BINS, [0] * PACKING_BINS, Copies()
    for piece in tokens:
        rows = [row for row in range(PACKING_BINS) if used[row] + len(piece) <= PACKED_LENGTH]
        if not rows:
            batches.append((PACKING_BINS, copies))
            used, numbers, copies, rows = [0] * PACKING_BINS, [0] * PACKING_BINS, Copies(), [0]
        row = max(rows, key=lambda row: used[row]) if fullest else rows[0]
        numbers[row] += 1
        copies.append((piece, row, used[row], used[row] + len(piece), numbers[row]))
        used[row] += len(piece)
    return batches


def _split(tokens: list[Any]) -> list[tuple[int, Copies]]:
    batches: list[tuple[int, Copies]] = []
    used, number, copies = 0, 0, Copies()
    for document in tokens:
        rest = document
        while len(rest):
            piece, rest = rest[: PACKED_LENGTH - used], rest[PACKED_LENGTH - used :]
            number += 1
            copies.append((piece, 0, used, used + len(piece), number))
            used += len(piece)
            if used == PACKED_LENGTH:
                batches.append((1, copies))
                used, number, copies = 0, 0, Copies()
    return batches
