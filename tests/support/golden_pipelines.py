"""Builds the pipelines of golden/specs.jsonl, in which each is a tree `[operator, arguments...]`."""

from __future__ import annotations

from typing import Any

import numpy as np

from grain import (
    Batch,
    DataLoader,
    Filter,
    IndexSampler,
    IterDataset,
    Map,
    MapDataset,
    MultiprocessingOptions,
    RandomMap,
    ReadOptions,
    ShardOptions,
)
from grain import experimental as ex


def add1(x):
    return x + 1


def mul3(x):
    return x * 3


def neg(x):
    return -x


def radd(x, rng):
    return x + int(rng.integers(0, 1000))


def rnorm(x, rng):
    return float(x) + round(float(rng.normal()), 9)


def rmany(x, rng):
    return float(x) + float(rng.random()) + float(rng.integers(0, 10, 3).sum()) + float(rng.permutation(5)[0])


def even(x):
    return int(x) % 2 == 0


def mod3(x):
    return int(x) % 3 == 0


def with_index(i, x):
    return x + i


class WithNext(ex.FlatMapTransform):
    max_fan_out = 3

    def flat_map(self, element):
        return [element, element + 1]


class Add1(Map):
    def map(self, element):
        return element + 1


class RAdd(RandomMap):
    def random_map(self, element, rng):
        return radd(element, rng)


class Even(Filter):
    def filter(self, element):
        return even(element)


class Flat2(WithNext):
    max_fan_out = 2


OPERATIONS = {"add1": Add1, "radd": RAdd, "even": Even, "flat2": Flat2}


def loader(records, epochs, shuffle, seed, shard, operations, batch, workers):
    return DataLoader(
        data_source=list(range(100, 100 + records)),
        sampler=IndexSampler(records, ShardOptions(*shard), shuffle, epochs, seed),
        operations=[OPERATIONS[name]() for name in operations] + ([Batch(*batch)] if batch else []),
        worker_count=workers,
    )


FUNCTIONS = {function.__name__: function for function in (add1, mul3, neg, radd, rnorm, rmany, even, mod3)}


def document(x):
    return {"tokens": np.arange(x, x + (x * 7919) % 13 + 1, dtype=np.int32)}


def packed(pack):
    return lambda parent, length, bins, seed, shuffle: pack(
        parent, length_struct={"tokens": length}, num_packing_bins=bins, seed=seed, shuffle_bins=shuffle
    )


def opened(parent: Any, threads: int) -> Any:
    return parent.to_iter_dataset(ReadOptions(num_threads=threads, prefetch_buffer_size=4 * threads))


# Operators are given what stands after their name, with trees in it already built.
OPERATORS = {
    "range": MapDataset.range,
    "range3": MapDataset.range,
    "list": lambda length: MapDataset.source([2 * i + 1 for i in range(length)]),
    "floats": lambda length: MapDataset.source([i / 4 for i in range(length)]),
    "seed": lambda parent, seed: parent.seed(seed),
    "shuffle": lambda parent, seed: parent.shuffle(seed=seed),
    "slice": lambda parent, start, stop, step: parent[start:stop:step],
    "repeat": lambda parent, epochs, reseed: parent.repeat(epochs, reseed_each_epoch=reseed),
    "map": lambda parent, function: parent.map(FUNCTIONS[function]),
    "random_map": lambda parent, function, seed: parent.random_map(FUNCTIONS[function], seed=seed),
    "mwi": lambda parent: parent.map_with_index(with_index),
    "filter": lambda parent, function: parent.filter(FUNCTIONS[function]),
    "mix": lambda parents, weights: MapDataset.mix(parents, weights=weights),
    "concat": MapDataset.concatenate,
    "wshuffle": lambda parent, size, seed: ex.WindowShuffleMapDataset(parent, window_size=size, seed=seed),
    "batch": lambda parent, size, drop: parent.batch(size, drop_remainder=drop),
    "to_iter": opened,
    "limit": ex.LimitIterDataset,
    "iwshuffle": lambda parent, size, seed: ex.WindowShuffleIterDataset(parent, window_size=size, seed=seed),
    "imix": lambda parents, weights: IterDataset.mix(parents, weights=weights),
    "irepeat": ex.RepeatIterDataset,
    "iflat": lambda parent: ex.FlatMapIterDataset(parent, WithNext()),
    "tprefetch": lambda parent, size: ex.ThreadPrefetchIterDataset(parent, prefetch_buffer_size=size),
    "interleave": lambda parents, cycle: ex.InterleaveIterDataset(parents, cycle_length=cycle),
    "rebatch": ex.RebatchIterDataset,
    "docs": lambda parent: parent.map(document),
    "first_fit": packed(ex.FirstFitPackIterDataset),
    "best_fit": packed(ex.BestFitPackIterDataset),
    "cts": lambda parent, length, split: ex.ConcatThenSplitIterDataset(
        parent, length_struct={"tokens": length}, split_full_length_features=split
    ),
    "loader": loader,
    "mp": lambda parent, count: parent.mp_prefetch(MultiprocessingOptions(num_workers=count)),
}


def build(tree: Any) -> Any:
    """The pipeline that `tree` describes; anything but a tree stays as it is."""
    if not isinstance(tree, list):
        return tree
    if tree and isinstance(tree[0], str) and tree[0] in OPERATORS:
        return OPERATORS[tree[0]](*map(build, tree[1:]))
    return [build(item) for item in tree]


def plain(value: Any) -> Any:
    """`value` as JSON, as it stands in the recorded answers."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in sorted(value.items())}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return {"dtype": str(value.dtype), "v": value.tolist()}
    if isinstance(value, np.generic):
        return {"dtype": str(value.dtype), "v": value.item()}
    if isinstance(value, bytes):
        return {"bytes": value.decode()}
    return value


def as_state(value: Any) -> Any:
    """A recorded state as `set_state` takes it."""
    return value["bytes"].encode() if value.keys() == {"bytes"} else value
