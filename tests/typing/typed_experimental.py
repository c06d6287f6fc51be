"""What type checkers say of the classes of `grain.experimental`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, assert_type

import numpy as np

from grain import DatasetIterator, IterDataset, MapDataset, experimental, transforms

words = MapDataset.source(["a", "b"])
stream = words.to_iter_dataset()
documents = MapDataset.source([{"tokens": np.arange(3)}])


class Letters(transforms.FlatMap):
    max_fan_out = 3

    def flat_map(self, element: str) -> list[bytes]:
        return [letter.encode() for letter in element]


def numbers() -> Iterator[float]:
    yield 0.5


def numbers_from(start: int) -> Iterator[float]:
    yield start / 2


def operators_as_classes() -> None:
    assert_type(experimental.LimitIterDataset(stream, 3), experimental.LimitIterDataset[str])
    assert_type(experimental.LimitIterDataset(stream, 3).map(len), IterDataset[int])
    assert_type(iter(experimental.RepeatIterDataset(stream, 3)), DatasetIterator[str])
    assert_type(next(iter(experimental.CacheIterDataset(stream))), str)
    assert_type(next(iter(experimental.RebatchIterDataset(stream, 3))), str)
    assert_type(next(iter(experimental.WindowShuffleIterDataset(stream, window_size=2, seed=1))), str)
    assert_type(experimental.WindowShuffleMapDataset(words, window_size=2, seed=1)[0], str | None)
    assert_type(next(iter(experimental.WithOptionsIterDataset(stream, experimental.DatasetOptions()))), str)
    assert_type(next(iter(experimental.ThreadPrefetchIterDataset(stream, prefetch_buffer_size=2))), str)
    assert_type(next(iter(experimental.InterleaveIterDataset([words, words], cycle_length=2))), str)
    assert_type(next(iter(experimental.ZipIterDataset([stream, stream]))), tuple[str, ...])
    assert_type(next(iter(experimental.ZipMapDataset([words, words]))), tuple[str, ...])
    assert_type(next(iter(experimental.FlatMapIterDataset(stream, Letters()))), bytes)
    assert_type(next(iter(experimental.FlatMapMapDataset(words, Letters()))), bytes)
    experimental.LimitIterDataset([1], 3)  # type: ignore[arg-type]
    experimental.WindowShuffleMapDataset(stream, window_size=2, seed=1)  # type: ignore[arg-type]
    experimental.FlatMapMapDataset(words, str.split)  # type: ignore[arg-type]


def streams_of_files() -> None:
    assert_type(next(iter(experimental.TFRecordIterDataset("x"))), bytes)
    assert_type(experimental.TFRecordIterDataset("x").map(len), IterDataset[int])
    assert_type(next(iter(experimental.ParquetIterDataset("x", columns=["a"]))), dict[str, Any])
    assert_type(next(iter(experimental.WebDatasetIterDataset("x"))), dict[str, Any])
    assert_type(next(iter(experimental.JsonLinesIterDataset("x"))), Any)
    experimental.TFRecordIterDataset(3)  # type: ignore[arg-type]


def streams_of_generators() -> None:
    assert_type(experimental.GeneratorIterDataset(numbers), experimental.GeneratorIterDataset[float])
    assert_type(next(iter(experimental.GeneratorIterDataset(numbers_from, takes_start=True))), float)
    experimental.GeneratorIterDataset(numbers())  # type: ignore[call-overload]
    experimental.GeneratorIterDataset(numbers_from)  # type: ignore[arg-type]
    experimental.GeneratorIterDataset(numbers, takes_start=True)  # type: ignore[call-overload]


def packing() -> None:
    first = experimental.FirstFitPackIterDataset(documents, length_struct={"tokens": 8}, num_packing_bins=2)
    assert_type(next(iter(first)), dict[str, Any])
    best = experimental.BestFitPackIterDataset(documents, length_struct={"tokens": 8}, num_packing_bins=2)
    assert_type(best.map(lambda row: row["tokens"]), IterDataset[Any])
    split = experimental.ConcatThenSplitIterDataset(documents, length_struct={"tokens": 8})
    assert_type(next(iter(split)), dict[str, np.ndarray[Any, Any]])
    experimental.FirstFitPackIterDataset(words, length_struct={}, num_packing_bins=2)  # type: ignore[arg-type]


def functions(device: object) -> None:
    assert_type(experimental.multithread_prefetch(stream, num_threads=2, buffer_size=1), IterDataset[str])
    assert_type(experimental.device_put(stream, device), IterDataset[Any])
    assert_type(experimental.index_shuffle(3, max_index=9, seed=1, rounds=4), int)
    experimental.multithread_prefetch([1], 2, 1)  # type: ignore[arg-type]
