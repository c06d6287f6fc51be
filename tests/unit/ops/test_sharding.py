"""Which part of a pipeline each worker runs: the numbers of the specification, and laws for every pipeline."""

from __future__ import annotations

import contextlib
import gc
import itertools
import sys
import time

import numpy as np
import pytest

from grain import DatasetIterator, IterDataset, MapDataset
from grain.api.iter_dataset import NodeIterDataset
from grain.graph.node import ancestors
from grain.indices.arithmetic import even_split
from grain.ops.batching import MapBatch
from grain.ops.custom import node_of
from grain.ops.mapping import IterMapWithIndex, MapMapWithIndex, MapRandomMap
from grain.ops.sourcing import Source
from grain.ops.worker_parts import sharded, worker_part
from support.comparison import plain
from support.pipelines import MAP_PIPELINES, NAMES, iter_pipeline, numbers
from support.subclasses import Added, Counting, CountingIterator, EveryOther, Secretive, Tripled
from support.user_code import (
    Doubled,
    Negate,
    RunningSum,
    UpToThree,
    Zigzag,
    add_noise,
    add_one,
    is_even,
    pair_with_index,
)


def shards_of(dataset, count, sequential=False):
    """The streams of `count` workers."""
    return [NodeIterDataset(worker_part(node_of(dataset), index, count, sequential)) for index in range(count)]


def elements_of(dataset):
    return [plain(element) for element in dataset]


def turns_of(dataset, count, sequential=False):
    """What comes of reading `count` workers round robin."""
    return list(IterDataset.interleave(shards_of(dataset, count, sequential), cycle_length=count))


# ---------------------------------------------------------------- the numbers of the specification


def test_elements_are_dealt_out_in_turn():
    assert list(itertools.chain(*shards_of(numbers(10).to_iter_dataset(), 3))) == [0, 3, 6, 9, 1, 4, 7, 2, 5, 8]


DEALT_OUT = {
    "batch": (
        lambda: numbers(10).to_iter_dataset().batch(2, batch_fn=tuple),
        3,
        [(0, 3), (1, 4), (2, 5), (6, 9), (7,), (8,)],
    ),
    "filter": (
        lambda: numbers(20).to_iter_dataset().filter(lambda x: x % 3 == 0 or x > 15),
        3,
        [0, 16, 17, 3, 19, 6, 9, 12, 15, 18],
    ),
    "mix": (
        lambda: IterDataset.mix([numbers(4).to_iter_dataset(), numbers(10, 14).to_iter_dataset()]),
        2,
        [0, 1, 10, 11, 2, 3, 12, 13],
    ),
    "zip": (
        lambda: IterDataset.zip([numbers(4).to_iter_dataset(), numbers(10, 14).to_iter_dataset()]),
        2,
        [(0, 10), (1, 11), (2, 12), (3, 13)],
    ),
    "limit": (lambda: numbers(20).to_iter_dataset().limit(3), 2, [0, 1, 2, 3, 4, 5]),
    "interleave": (
        lambda: IterDataset.interleave([MapDataset.source([k] * k) for k in range(1, 6)], cycle_length=5),
        3,
        [1, 2, 3, 4, 5, 3, 4, 2, 3, 4, 5, 4, 5, 5, 5],
    ),
    "interleave of what a dataset makes": (
        lambda: IterDataset.interleave(numbers(1, 6).map(lambda k: MapDataset.source([k] * k)), cycle_length=5),
        3,
        [1, 2, 3, 4, 5, 3, 4, 2, 3, 4, 5, 4, 5, 5, 5],
    ),
    "more workers than elements": (lambda: numbers(2).to_iter_dataset(), 4, [0, 1]),
    "more workers than datasets": (lambda: IterDataset.interleave([numbers(2)], cycle_length=3), 4, [0, 1]),
    "map_with_index": (
        lambda: numbers(6).to_iter_dataset().map_with_index(pair_with_index),
        2,
        [(0, 0), (0, 1), (1, 2), (1, 3), (2, 4), (2, 5)],
    ),
}


@pytest.mark.parametrize(("build", "count", "expected"), DEALT_OUT.values(), ids=DEALT_OUT)
def test_dealt_out(build, count, expected):
    assert turns_of(build(), count) == expected


def test_random_maps_draw_what_they_draw_without_workers():
    dataset = numbers(11).to_iter_dataset().random_map(add_noise, seed=5)
    for count in (1, 2, 3, 12):
        assert turns_of(dataset, count) == list(dataset)


BLOCKS = {
    "range": (lambda: numbers(10), [0, 4, 7, 1, 5, 8, 2, 6, 9, 3]),
    "range with a step": (lambda: numbers(2, 21, 3), [2, 11, 17, 5, 14, 20, 8]),
    "shuffle": (lambda: numbers(10).shuffle(0), [0, 4, 7, 3, 6, 9, 1, 5, 8, 2]),
    "source": (lambda: MapDataset.source("abcd"), ["a", "c", "d", "b"]),
    "fewer elements than workers": (lambda: numbers(2).shuffle(1).repeat(2), [0, 1, 0, 1]),
    "map_with_index": (lambda: numbers(4).map_with_index(pair_with_index), [(0, 0), (0, 2), (0, 3), (1, 1)]),
    "repeat": (lambda: numbers(5).repeat(2), [0, 2, 4, 1, 3, 4, 0, 2, 1, 3]),
    "batch": (lambda: numbers(10).batch(2, batch_fn=tuple), [(0, 1), (4, 5), (7, 8), (2, 3), (6,), (9,)]),
    "batch without the rest": (
        lambda: numbers(10).batch(2, batch_fn=tuple, drop_remainder=True),
        [(0, 1), (4, 5), (7, 8), (2, 3)],
    ),
    "concatenate": (lambda: MapDataset.concatenate([numbers(4), numbers(10, 13)]), [0, 2, 3, 1, 11, 12, 10]),
    "flat_map": (lambda: numbers(5).flat_map(UpToThree()), [1, 2, 2, 3, 3, 3]),
    "slice": (lambda: numbers(10)[2:9], [2, 5, 7, 3, 6, 8, 4]),
    "slice of a shuffle": (lambda: numbers(10).shuffle(0)[:3], [0, 4, 6]),
    "reindex": (lambda: numbers(10).slice([9, 1, 1, 5]), [9, 1, 5, 1]),
    "mix": (lambda: MapDataset.mix([numbers(3), numbers(10, 16)], weights=[1, 2]), [0, 1, 2, 10, 12, 14, 11, 13, 15]),
    "zip": (
        lambda: MapDataset.zip([numbers(4), MapDataset.concatenate([numbers(10, 11), numbers(20, 23)])]),
        [(0, 10), (2, 21), (3, 22), (1, 20)],
    ),
    "select": (
        lambda: MapDataset.select_from_datasets([numbers(2), numbers(10, 12)], Zigzag(2)),
        [0, 1, 10, 11],
    ),
    "window_shuffle": (lambda: numbers(4).window_shuffle(4, seed=1), [1, 3, 0, 2]),
    "custom": (lambda: Doubled(numbers(4)), [0, 4, 6, 2]),
    "shuffle of a mix": (
        lambda: MapDataset.mix([numbers(3), numbers(10, 13)]).shuffle(seed=1).map(add_one),
        [11, 12, 13, 1, 2, 3],
    ),
}


@pytest.mark.parametrize(("build", "expected"), BLOCKS.values(), ids=BLOCKS)
def test_contiguous_blocks_of_three_workers(build, expected):
    assert turns_of(build().to_iter_dataset(), 3, sequential=True) == expected


def test_endless_repetition_is_of_the_block():
    shards = shards_of(numbers(7).shuffle(seed=1).repeat().batch(2).to_iter_dataset(), 3, sequential=True)
    firsts = [np.concatenate(list(itertools.islice(shard, 3))) for shard in shards]
    assert [sorted(set(first.tolist())) for first in firsts] == [[0, 1, 2], [3, 4], [5, 6]]


def test_what_is_endless_has_no_blocks():
    mixed = MapDataset.mix([numbers(3).repeat(), numbers(10, 13).repeat()])
    first, second = shards_of(mixed.to_iter_dataset(), 2, sequential=True)
    assert list(itertools.islice(first, 4)) == [0, 1, 2, 0]
    assert list(itertools.islice(second, 4)) == [10, 11, 12, 10]
    assert len(mixed) == sys.maxsize


def test_even_split():
    assert [even_split(10, index, 4) for index in range(4)] == [(0, 3), (3, 6), (6, 8), (8, 10)]
    assert [even_split(2, index, 3) for index in range(3)] == [(0, 1), (1, 2), (2, 2)]


# ---------------------------------------------------------------- laws


def keeps_places(name):
    """Whether an element depends on its place in the source alone: one to one on streams, no gaps, no counting."""
    return name != "map: map to None" and all(
        (node.is_random_access or node.reads_by_index or node.is_one_to_one)
        and not node.may_drop
        and not isinstance(node, IterMapWithIndex)
        for node in ancestors(node_of(iter_pipeline(name, "inline")))
    )


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("row", [name for name in NAMES if keeps_places(name)])
def test_workers_in_turn_give_what_one_alone_gives(row, count):
    dataset = iter_pipeline(row, "inline")
    assert list(map(plain, turns_of(dataset, count))) == elements_of(dataset)


def keeps_elements(dataset):
    """Whether blocks of the source have the elements of the whole: not those that know their index, nor batches."""
    kinds = MapMapWithIndex | MapRandomMap | MapBatch
    return not any(isinstance(node, kinds) for node in ancestors(node_of(dataset)))


PARTITIONS = [
    *((row, False) for row in MAP_PIPELINES),
    *((row, True) for row, build in MAP_PIPELINES.items() if keeps_elements(build())),
]


@pytest.mark.parametrize("count", [2, 3, 8])
@pytest.mark.parametrize(("row", "sequential"), PARTITIONS)
def test_workers_partition_the_whole(row, sequential, count):
    stream = MAP_PIPELINES[row]().to_iter_dataset()
    parts = [element for shard in shards_of(stream, count, sequential) for element in elements_of(shard)]
    assert sorted(map(repr, parts)) == sorted(map(repr, elements_of(stream)))


class Counted:
    """A source that counts how often each record is read."""

    def __init__(self, length):
        self.reads = [0] * length

    def __len__(self):
        return len(self.reads)

    def __getitem__(self, index):
        self.reads[index] += 1
        return index


READERS = {
    "random_map": lambda ds: ds.seed(1).shuffle().random_map(add_noise).map_with_index(pair_with_index),
    "batch": lambda ds: ds.shuffle(seed=1).batch(3).shuffle(seed=2).batch(2, batch_fn=len),
    "slice": lambda ds: ds[1:].shuffle(seed=1).batch(2),
    "mix": lambda ds: MapDataset.mix([ds.shuffle(seed=1), numbers(30)]).random_map(lambda x, rng: x, seed=1).batch(2),
}


@pytest.mark.parametrize("count", [2, 3, 40])
@pytest.mark.parametrize("sequential", [False, True])
@pytest.mark.parametrize("name", READERS)
def test_workers_read_each_record_that_one_alone_reads_once(name, sequential, count):
    alone, divided = Counted(29), Counted(29)
    list(READERS[name](MapDataset.source(alone)))
    for shard in shards_of(READERS[name](MapDataset.source(divided)).to_iter_dataset(), count, sequential):
        list(shard)
    assert divided.reads == alone.reads


@pytest.mark.parametrize("sequential", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_dividing_leaves_the_whole_alone(name, sequential):
    dataset = iter_pipeline(name, "inline")
    expected = elements_of(dataset)
    with contextlib.suppress(ValueError):  # Countdown can not be divided
        for shard in shards_of(dataset, 3, sequential):
            list(shard)
    assert elements_of(dataset) == expected


# ---------------------------------------------------------------- the graph


def test_one_worker_has_the_whole():
    node = node_of(Counting(5))
    assert sharded(node, 0, 1) is node


@pytest.mark.parametrize("sequential", [False, True])
def test_sources_and_what_is_used_twice_are_shared(sequential):
    records = np.arange(100)
    once = MapDataset.source(records).shuffle(seed=1).to_iter_dataset().map(add_one)
    node = node_of(IterDataset.zip([once.map(Negate()), once]))
    divided = sharded(node, 1, 2, sequential)
    assert {id(each.source) for each in ancestors(divided) if isinstance(each, Source)} == {id(records)}
    assert divided.components[0].parent is divided.components[1]


def test_seeds_stay_what_they_were():
    dataset = numbers(8).seed(3).shuffle().to_iter_dataset().map(add_one).random_map(add_noise)
    assert turns_of(dataset, 4) == list(dataset)


def test_deep_graphs_are_divided_in_linear_time():
    """Every level uses the one above it twice, so that a walk that forgets takes 2**60 steps."""
    stream = numbers(8).to_iter_dataset()
    for _ in range(60):
        stream = IterDataset.zip([stream, stream]).map(lambda pair: pair[0])
    start = time.monotonic()
    sharded(node_of(stream), 1, 3)
    assert time.monotonic() - start < 10


def test_a_pipeline_that_runs_can_be_divided_however_long_it_is():
    stream = numbers(3).to_iter_dataset()
    for _ in range(400):
        stream = stream.map(add_one)
    assert turns_of(stream, 2) == list(stream)


def test_dividing_leaves_no_cycles():
    gc.collect()
    stream = numbers(30).shuffle(seed=1).batch(2).to_iter_dataset().map(add_one)
    gc.disable()
    try:
        for sequential in (False, True):
            sharded(node_of(stream), 1, 3, sequential)
        assert gc.collect() == 0
    finally:
        gc.enable()


# ---------------------------------------------------------------- users' own datasets


class Sliceable(Counting):
    """A stream that divides itself."""

    taken = slice(None)

    def set_slice(self, taken, sequential_slice=False):
        self.taken = slice(0, 1) if sequential_slice else taken

    def __iter__(self):
        return PickedIterator(range(self.stop)[self.taken])


class PickedIterator(CountingIterator):
    def __init__(self, picked):
        super().__init__(len(picked))
        self.picked = picked

    def __next__(self):
        return self.picked[super().__next__()]


class OnRandomAccess(IterDataset):
    """A user's stream that reads a MapDataset by index."""

    def __iter__(self):
        return PickedIterator(self._parent)


def test_a_users_stream_that_slices_itself():
    dataset = Sliceable(7)
    assert turns_of(dataset.map(add_one), 3) == [1, 2, 3, 4, 5, 6, 7]
    assert turns_of(dataset, 3, sequential=True) == [0, 0, 0]
    assert dataset.taken == slice(None)


def test_a_users_operator_is_divided_by_its_parents():
    assert turns_of(RunningSum(numbers(6).to_iter_dataset()), 2) == [0, 1, 2, 4, 6, 9]
    assert turns_of(RunningSum(numbers(6).to_iter_dataset()), 2, sequential=True) == [0, 3, 1, 7, 3, 12]
    assert turns_of(EveryOther(EveryOther(numbers(16).to_iter_dataset())).map(add_one), 2) == [1, 2, 9, 10]
    both = Added(Tripled(numbers(4)).to_iter_dataset(), RunningSum(Sliceable(4)))
    assert turns_of(both, 2) == [0, 4, 8, 13]


def test_random_access_below_a_users_stream_is_divided():
    assert turns_of(OnRandomAccess(numbers(5)), 2) == [0, 1, 2, 3, 4]
    assert turns_of(OnRandomAccess(Tripled(numbers(5))), 2, sequential=True) == [0, 9, 3, 12, 6]


@pytest.mark.parametrize("dataset", [Counting(3), Secretive(numbers(3).to_iter_dataset())], ids=["source", "secretive"])
@pytest.mark.parametrize("sequential", [False, True])
def test_a_users_source_without_set_slice_cannot_be_divided(dataset, sequential):
    stream = IterDataset.zip([numbers(3).to_iter_dataset(), dataset.map(add_one)])
    with pytest.raises(ValueError, match=rf"Cannot slice `IterDataset` source\. {type(dataset).__name__} .*set_slice"):
        shards_of(stream, 2, sequential)


class Spy(DatasetIterator):
    """Tells the worker that it runs in."""

    def __next__(self):
        next(self._parent)
        return self._ctx.mp_context.process_index, self._ctx.mp_context.process_count

    def get_state(self):
        return self._parent.get_state()

    def set_state(self, state):
        self._parent.set_state(state)


class Spying(IterDataset):
    def __iter__(self):
        return Spy(self._parent.__iter__())


def test_users_iterators_know_their_worker():
    dataset = Spying(numbers(4).to_iter_dataset().filter(is_even).repeat(2))
    assert turns_of(dataset, 3) == [(0, 3), (2, 3), (0, 3), (2, 3)]
    assert list(dataset) == [(0, 1)] * 4
