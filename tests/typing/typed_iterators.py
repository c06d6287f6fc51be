"""What type checkers say of iterators, and of saving them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, assert_type

import grain
from grain import DatasetIterator, IterDataset, MapDataset
from grain.experimental import ElasticIterator, PackingStatistics, ThreadPrefetchDatasetIterator

words = MapDataset.source(["a", "b"])


class Counter:
    """An iterator of nobody's class."""

    def __next__(self) -> float:
        return 0.5

    def get_state(self) -> int:
        return 0

    def set_state(self, state: int) -> None:
        pass


def elements_and_states() -> None:
    iterator = iter(words)
    assert_type(iterator, DatasetIterator[str])
    assert_type(next(iterator), str)
    assert_type(next(iterator, None), str | None)
    assert_type(iter(iterator), DatasetIterator[str])
    assert_type(iterator.get_state(), dict[str, Any])
    assert_type(iterator.state_dict(), dict[str, Any])
    assert_type(iterator.packing_statistics, PackingStatistics)
    iterator.set_state({"next_index": 1})
    iterator.set_state("1")  # type: ignore[arg-type]
    with iter(words) as opened:
        assert_type(opened, DatasetIterator[str])
    wider: DatasetIterator[object] = iterator
    narrower: DatasetIterator[int] = iterator  # type: ignore[assignment]
    del wider, narrower


def positions() -> None:
    iterator = iter(words)
    assert_type(grain.experimental.get_next_index(iterator), int)
    grain.experimental.set_next_index(iterator, 3)
    grain.experimental.set_next_index(iterator, "3")  # type: ignore[arg-type]
    grain.experimental.get_next_index(words)  # type: ignore[arg-type]


def iterators_of_other_iterators() -> None:
    assert_type(ThreadPrefetchDatasetIterator(iter(words), 2), ThreadPrefetchDatasetIterator[str])
    assert_type(next(ThreadPrefetchDatasetIterator(Counter(), 2)), float)
    ThreadPrefetchDatasetIterator(words, 2)  # type: ignore[arg-type]
    elastic = ElasticIterator(words, 2, grain.NoSharding())
    assert_type(next(elastic), Any)
    assert_type(elastic.shard_options, grain.ShardOptions)


def checkpoints(folder: Path) -> None:
    handler = grain.checkpoint.CheckpointHandler()
    iterator = iter(words)
    handler.save(folder, iterator)
    assert_type(handler.restore(folder, iterator), DatasetIterator[str])
    assert_type(next(handler.restore(str(folder), iterator)), str)
    handler.save(folder, words)  # type: ignore[arg-type]
    handler.restore(3, iterator)  # type: ignore[call-overload]


def functions_of_datasets(stream: IterDataset[int]) -> None:
    config = grain.experimental.pick_performance_config(stream, ram_budget_mb=8, max_workers=2, max_buffer_size=None)
    assert_type(config, grain.experimental.PerformanceConfig)
    assert_type(config.read_options, grain.ReadOptions | None)
    grain.experimental.assert_equal_output_after_checkpoint(words)
    grain.experimental.assert_equal_output_after_checkpoint(3)  # type: ignore[arg-type]
