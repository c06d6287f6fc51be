"""The contract table: small named pipelines, at least one for each operator.

A new operator gets a row here, and with it all laws of contract/test_contract.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from grain import (
    DataLoader,
    IndexSampler,
    IterDataset,
    MapDataset,
    MultiprocessingOptions,
    ReadOptions,
    transforms,
)
from grain.api.iter_dataset import NodeIterDataset
from grain.experimental import DatasetOptions, multithread_prefetch
from support import pipelines_files
from support import pipelines_lengths as lengths
from support.pipelines_packing import PACKING_PIPELINES
from support.user_code import (
    AddIndex,
    AddNoise,
    Countdown,
    Doubled,
    IsEven,
    IsOdd,
    Negate,
    Noise,
    Pairs,
    RunningSum,
    Shelf,
    Squares,
    UpToThree,
    Zigzag,
    add_noise,
    add_one,
    as_numbers,
    as_record,
    even_or_none,
    is_even,
    is_large,
    joined,
    negate,
    pair_with_index,
)

# Asked for by name so that a change of the defaults cannot quietly take a back end out of the tests.
READ_OPTIONS = {
    "inline": ReadOptions(num_threads=0, prefetch_buffer_size=0),
    "default": None,
    "threads": ReadOptions(num_threads=3, prefetch_buffer_size=7),
}


def numbers(*bounds):
    return MapDataset.range(*bounds)


def deep_map():
    """Most operators on random access, one upon the other."""
    even = MapDataset.source(np.arange(12)).seed(3).shuffle().map(add_one)
    odd = numbers(100, 140, 2).seed(4).map_with_index(AddIndex()).window_shuffle(5, seed=6).random_map(add_noise)
    mixed = MapDataset.mix([even, odd], weights=[0.4, 0.6])
    return MapDataset.concatenate([mixed, numbers(5).repeat(2)])[1::2].shuffle(seed=8)


MAP_PIPELINES: dict[str, Callable[[], MapDataset[Any]]] = {
    "source of a list": lambda: MapDataset.source(["a", "b", "c"]),
    "source of an array": lambda: MapDataset.source(np.arange(10, dtype=np.int16).reshape(5, 2)),
    "source that reads many": lambda: MapDataset.source(Shelf(5)),
    "range": lambda: numbers(7),
    "range with a step": lambda: numbers(20, 3, -4),
    "empty range": lambda: numbers(0),
    "seed": lambda: numbers(6).seed(11).shuffle(),
    "shuffle": lambda: numbers(13).shuffle(seed=42),
    "window_shuffle": lambda: numbers(12).window_shuffle(4, seed=1),
    "slice": lambda: numbers(11)[2:9:3],
    "slice backwards": lambda: numbers(11).shuffle(seed=5)[::-2],
    "reindex": lambda: numbers(10).shuffle(seed=1).slice([3, 1, 4, 1, -5, 19]),
    "reindex by an array": lambda: numbers(10).shuffle(seed=1).slice(np.array([9, 2, 6])),
    "repeat": lambda: numbers(4).shuffle(seed=3).repeat(3),
    "repeat without reseeding": lambda: numbers(4).shuffle(seed=3).repeat(3, reseed_each_epoch=False),
    "map": lambda: numbers(6).map(add_one),
    "map with an object": lambda: numbers(6).map(Negate()),
    "map to None": lambda: numbers(6).map(even_or_none),
    "map_with_index": lambda: numbers(5, 9).map_with_index(pair_with_index),
    "map_with_index with an object": lambda: numbers(5, 9).shuffle(seed=2).map_with_index(AddIndex()),
    "random_map": lambda: numbers(6).random_map(add_noise, seed=9),
    "random_map with an object": lambda: numbers(6).seed(1).shuffle().random_map(AddNoise()),
    "filter": lambda: numbers(9).filter(is_even),
    "filter with an object": lambda: numbers(9).shuffle(seed=4).filter(IsOdd()).map(negate),
    "filter that drops all": lambda: numbers(5).filter(is_large),
    "flat_map": lambda: numbers(6).flat_map(UpToThree()),
    "batch": lambda: numbers(8).batch(3),
    "batch of records": lambda: numbers(8).shuffle(seed=1).map(as_record).batch(3, drop_remainder=True),
    "batch with a function": lambda: numbers(7).batch(2, batch_fn=joined),
    "batch of what is read together": lambda: MapDataset.source(Shelf(7)).shuffle(seed=2).batch(3),
    "batch of batches": lambda: numbers(13).shuffle(seed=7).batch(2, drop_remainder=True).batch(3),
    "mix": lambda: MapDataset.mix([numbers(10), numbers(100, 120), numbers(1000, 1005)]),
    "mix with weights": lambda: MapDataset.mix([numbers(10).shuffle(seed=1), numbers(100, 120)], weights=[0.3, 0.7]),
    "concatenate": lambda: MapDataset.concatenate([numbers(2), numbers(0), numbers(10, 15).shuffle(seed=3)]),
    "select_from_datasets": lambda: MapDataset.select_from_datasets([numbers(4), numbers(10, 14)], Zigzag(4)),
    "zip": lambda: MapDataset.zip([numbers(5).shuffle(seed=1), numbers(5).map(as_record)]),
    **lengths.MAP_PIPELINES,
    "custom source": lambda: Squares().shuffle(seed=1),
    "custom operator": lambda: Doubled(numbers(7).shuffle(seed=3)),
    "custom operator between others": lambda: Doubled(numbers(7).map(add_one)).shuffle(seed=2).batch(3),
    "deep": deep_map,
    "deep, batched": lambda: MapDataset.zip([deep_map(), deep_map().map(as_record)]).batch(4),
    "deep, with gaps": lambda: deep_map().map(even_or_none).filter(is_large).flat_map(UpToThree()),
    **pipelines_files.MAP_PIPELINES,
}


@dataclasses.dataclass(frozen=True)
class Opening:
    """How the MapDatasets of a pipeline become streams."""

    read_options: ReadOptions | None

    def __call__(self, dataset: MapDataset[Any], *, allow_nones: bool = False) -> IterDataset[Any]:
        return dataset.to_iter_dataset(self.read_options, allow_nones=allow_nones)


def loaded(stream, *operations):
    """The pipeline of a DataLoader."""
    loader = DataLoader(
        data_source=list(range(100, 107)),
        sampler=IndexSampler(7, shuffle=True, num_epochs=2, seed=3),
        operations=operations,
        read_options=stream.read_options,
    )
    return NodeIterDataset(loader._node)


def mixed_streams(stream):
    return [stream(numbers(9).shuffle(seed=1)), stream(numbers(100, 130).filter(is_even)), stream(numbers(50, 54))]


def deep_iter(stream):
    """Most operators on streams, one upon the other."""
    noisy = stream(numbers(9).seed(2).shuffle()).random_map(add_noise).map_with_index(AddIndex()).cache().repeat(2)
    flat = RunningSum(stream(numbers(8)).flat_map(UpToThree())).window_shuffle(5, seed=3)
    turns = IterDataset.interleave([stream(numbers(k)).map(add_one) for k in (3, 0, 4, 1)], cycle_length=2)
    mixed = IterDataset.mix({"noisy": noisy, "flat": flat, "turns": turns}, weights={"flat": 1, "noisy": 2, "turns": 1})
    return mixed.filter(is_even).thread_prefetch(2).limit(11)


ITER_PIPELINES: dict[str, Callable[[Opening], IterDataset[Any]]] = {
    "to_iter": lambda stream: stream(numbers(5).shuffle(seed=1)),
    "to_iter of nothing": lambda stream: stream(numbers(0)),
    "to_iter of nothing but gaps": lambda stream: stream(numbers(4).filter(is_large)),
    "to_iter with gaps": lambda stream: stream(numbers(9).filter(is_even)),
    "to_iter with Nones": lambda stream: stream(numbers(7).filter(is_even), allow_nones=True),
    "map": lambda stream: stream(numbers(5)).map(Negate()),
    "map of Nones": lambda stream: stream(numbers(5).filter(is_even), allow_nones=True).map(add_one),
    "map_with_index": lambda stream: stream(numbers(9).filter(is_even)).map_with_index(pair_with_index),
    "random_map": lambda stream: stream(numbers(6)).random_map(add_noise, seed=5),
    "random_map of Nones": lambda stream: stream(numbers(6).filter(is_even), allow_nones=True).random_map(
        AddNoise(), seed=5
    ),
    "seed": lambda stream: stream(numbers(6)).seed(7).random_map(add_noise),
    "seed from below": lambda stream: stream(numbers(6).seed(7)).map(add_one).random_map(add_noise),
    "filter": lambda stream: stream(numbers(9).shuffle(seed=2)).filter(is_even),
    "flat_map": lambda stream: stream(numbers(7)).flat_map(UpToThree()),
    "flat_map of flat_map": lambda stream: stream(numbers(7)).flat_map(UpToThree()).flat_map(UpToThree()),
    "batch": lambda stream: stream(numbers(8).filter(is_even)).batch(3),
    "batch without the rest": lambda stream: stream(numbers(8).map(as_record)).batch(3, drop_remainder=True),
    "batch of what is read together": lambda stream: stream(MapDataset.source(Shelf(7)).shuffle(seed=1)).batch(3),
    "batch with a function": lambda stream: stream(numbers(7)).map(add_one).batch(2, batch_fn=joined),
    "rebatch": lambda stream: stream(numbers(11)).batch(4).rebatch(3),
    "rebatch to larger": lambda stream: stream(numbers(11).map(as_record).batch(2)).rebatch(5, drop_remainder=True),
    "limit": lambda stream: stream(numbers(9)).limit(4),
    "limit beyond the end": lambda stream: stream(numbers(3)).limit(9),
    "repeat": lambda stream: stream(numbers(4).shuffle(seed=3)).repeat(3),
    "repeat of a random map": lambda stream: stream(numbers(3)).random_map(add_noise, seed=1).repeat(2),
    "repeat of an interleave": lambda stream: IterDataset.interleave(
        [stream(numbers(k)) for k in (2, 1, 3)], cycle_length=2
    ).repeat(2),
    "cache": lambda stream: stream(numbers(5)).random_map(add_noise, seed=1).cache(),
    "cache, repeated": lambda stream: stream(numbers(4)).map(add_one).cache().repeat(3),
    "window_shuffle": lambda stream: stream(numbers(10)).window_shuffle(4, seed=1),
    "window_shuffle, larger than all": lambda stream: stream(numbers(5)).window_shuffle(9, seed=42),
    "mix": lambda stream: IterDataset.mix(mixed_streams(stream)),
    "mix with weights": lambda stream: IterDataset.mix(mixed_streams(stream), weights=[1, 2, 0.5]),
    "mix of a mapping": lambda stream: IterDataset.mix(
        dict(zip("cab", mixed_streams(stream), strict=True)), weights={"a": 2, "b": 1, "c": 1}
    ),
    "zip": lambda stream: IterDataset.zip([stream(numbers(5)), stream(numbers(5).map(as_record))]),
    "zip to the shortest": lambda stream: IterDataset.zip([stream(numbers(3)), stream(numbers(9))], strict=False),
    "interleave of random access": lambda stream: IterDataset.interleave(
        [numbers(k) for k in (3, 0, 4, 2, 1)], cycle_length=3
    ),
    "interleave of streams": lambda stream: IterDataset.interleave(
        [
            stream(numbers(3)).map(add_one),
            stream(numbers(5)).batch(2, drop_remainder=True),
            stream(numbers(8)).filter(is_even),
        ],
        cycle_length=2,
    ),
    "interleave with gaps at the ends": lambda stream: IterDataset.interleave(
        [numbers(4).filter(is_even), stream(numbers(6).filter(is_even)), numbers(4).filter(is_large)], cycle_length=2
    ),
    "interleave of custom streams": lambda stream: IterDataset.interleave(
        [Countdown(3), Countdown(0), Countdown(4)], cycle_length=2
    ),
    "interleave of what a dataset makes": lambda stream: IterDataset.interleave(
        numbers(1, 5).shuffle(seed=2).map(as_numbers), cycle_length=9
    ),
    "interleave of what a dataset with gaps makes": lambda stream: IterDataset.interleave(
        numbers(1, 6).map(even_or_none).map(as_numbers), cycle_length=4
    ),
    "interleave, one after the other": lambda stream: IterDataset.interleave(
        [stream(numbers(k)) for k in (2, 3, 1)], cycle_length=1
    ),
    "thread_prefetch": lambda stream: stream(numbers(6)).map(add_one).thread_prefetch(2),
    "thread_prefetch of nothing ahead": lambda stream: stream(numbers(6)).thread_prefetch(0).batch(2),
    "multithread_prefetch": lambda stream: (
        multithread_prefetch(stream(numbers(9).seed(3).shuffle()).filter(is_even), 2, 1).random_map(add_noise).repeat(2)
    ),
    "mp_prefetch": lambda stream: stream(numbers(5).map(as_record)).mp_prefetch(MultiprocessingOptions(2)),
    "mp_prefetch below others": lambda stream: (
        stream(numbers(4).seed(3)).mp_prefetch(MultiprocessingOptions(1)).random_map(add_noise).batch(2).repeat(2)
    ),
    "with_options": lambda stream: (
        stream(numbers(6)).filter(is_even).with_options(DatasetOptions(filter_warn_threshold_ratio=None)).map(add_one)
    ),
    "data loader": lambda stream: loaded(stream, add_one, IsEven(), transforms.Batch(2)),
    "data loader with generators": lambda stream: loaded(stream, Noise(), UpToThree(), transforms.Batch(4)),
    "data loader with an operation on iterators": lambda stream: loaded(stream, Pairs()).batch(2),
    **lengths.ITER_PIPELINES,
    "custom stream": lambda stream: Countdown(5),
    "custom stream below others": lambda stream: Countdown(7).map(add_one).window_shuffle(3, seed=1).batch(2),
    "custom operator": lambda stream: RunningSum(stream(numbers(6))),
    "custom operator between others": lambda stream: RunningSum(stream(numbers(9)).filter(is_even)).repeat(2).limit(7),
    "custom operators upon each other": lambda stream: RunningSum(RunningSum(Countdown(6))).flat_map(UpToThree()),
    "custom random access below streams": lambda stream: stream(Doubled(Squares()).shuffle(seed=1)).map(add_one),
    "deep": deep_iter,
    "deep, batched": lambda stream: deep_iter(stream).batch(4).rebatch(3),
    "deep, zipped and repeated": lambda stream: IterDataset.zip(
        [deep_iter(stream), stream(deep_map())], strict=False
    ).repeat(2),
    "deep, flattened after batching": lambda stream: (
        stream(deep_map())
        .batch(3)
        .flat_map(list)
        .window_shuffle(4, seed=9)
        .cache()
        .repeat(2)
        .map_with_index(pair_with_index)
    ),
    **pipelines_files.ITER_PIPELINES,
    **PACKING_PIPELINES,
}


def iter_pipeline(name: str, back_end: str) -> IterDataset[Any]:
    """A row of either table as a stream."""
    stream = Opening(READ_OPTIONS[back_end])
    side, _, row = name.partition(": ")
    return stream(MAP_PIPELINES[row]()) if side == "map" else ITER_PIPELINES[row](stream)


NAMES = [*(f"map: {row}" for row in MAP_PIPELINES), *(f"iter: {row}" for row in ITER_PIPELINES)]
