"""Datasets without elements, with more than a float can count, and counts that must be positive."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest

from grain import IndexSampler, IterDataset, MapDataset, transforms
from grain.transforms import DatasetSelectionMap


def nothing():
    return MapDataset.range(0)


EMPTY = {
    "range": nothing,
    "range with a step": lambda: MapDataset.range(5, 5, 2),
    "source": lambda: MapDataset.source([]),
    "array": lambda: MapDataset.source(np.zeros((0, 2))),
    "map": lambda: nothing().map(abs),
    "filter": lambda: nothing().filter(bool),
    "shuffle": lambda: nothing().shuffle(seed=1),
    "window_shuffle": lambda: nothing().window_shuffle(3, seed=1),
    "slice": lambda: MapDataset.range(5)[3:3],
    "no indices": lambda: MapDataset.range(5).slice([]),
    "repeat": lambda: nothing().repeat(2),
    "repeat for ever": lambda: nothing().repeat(),
    "repeat without reseeding": lambda: nothing().repeat(2, reseed_each_epoch=False),
    "zip": lambda: MapDataset.zip([nothing(), nothing().shuffle(seed=2)]),
    "concatenate": lambda: MapDataset.concatenate([nothing(), nothing()]),
    "concatenate of none": lambda: MapDataset.concatenate([]),
    "batch": lambda: nothing().batch(2),
    "batch without the rest": lambda: MapDataset.range(3).batch(4, drop_remainder=True),
    "padded_batch": lambda: nothing().padded_batch(2),
    "flat_map with a table": lambda: MapDataset.range(2).flat_map(str, fan_out=[0, 0]),
    "random_map": lambda: nothing().random_map(lambda x, rng: x, seed=1),
}


@pytest.mark.parametrize("name", EMPTY)
def test_an_empty_dataset_has_no_element_at_any_index(name):
    dataset = EMPTY[name]()
    assert len(dataset) == 0
    assert list(dataset) == list(dataset.to_iter_dataset()) == []
    for index in (0, -1, 7, np.int64(3), 2**70):
        with pytest.raises(IndexError, match="The dataset is empty") as raised:
            dataset[index]
        assert isinstance(raised.value, ZeroDivisionError)  # as in Grain
        assert any(str(dataset._node) in note for note in raised.value.__notes__)


def test_a_window_of_nothing():
    """As in Grain: a stream without elements, and no element at any index."""
    assert list(stream().window_shuffle(0, seed=1)) == []
    with pytest.raises(ZeroDivisionError, match="window_size is 0"):
        MapDataset.range(4).window_shuffle(0, seed=1)[0]


def test_indices_into_an_empty_dataset():
    dataset = nothing().slice([0, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(IndexError, match="The dataset is empty"):
            list(dataset)
        with pytest.raises(IndexError, match="The dataset is empty"):
            dataset[0]


def test_an_empty_dataset_that_a_map_selects():
    class First(DatasetSelectionMap):
        def __len__(self):
            return 2

        def __getitem__(self, index):
            return 0, index

    dataset = MapDataset.select_from_datasets([nothing(), MapDataset.range(3)], First())
    for read in (lambda: dataset[1], lambda: list(dataset)):
        with pytest.raises(IndexError, match="The dataset is empty"):
            read()


def test_a_source_may_grow_and_shrink():
    records = [5]
    dataset = MapDataset.source(records)
    assert dataset[3] == 5
    records.clear()
    with pytest.raises(IndexError, match="The dataset is empty"):
        dataset[np.int64(3)]
    records.append(7)
    assert dataset[0] == 7


@pytest.mark.parametrize("length", [2**53 + 1, 2**62, sys.maxsize - 1])
@pytest.mark.parametrize("size", [1, 3, 7, 2**40 + 1])
def test_lengths_that_floats_cannot_count(length, size):
    numbers = MapDataset.range(length)
    assert len(numbers.batch(size)) == -(-length // size)
    assert len(numbers.batch(size, drop_remainder=True)) == length // size
    if size < 10:
        last = numbers.batch(size)[-(-length // size) - 1].tolist()
        assert last == list(range(length - (length % size or size), length))


def test_lengths_of_what_is_made_of_huge_datasets():
    class Five(transforms.FlatMap):
        max_fan_out = 5

        def flat_map(self, element):
            return [element]

    assert len(MapDataset.range(2**60 + 1).flat_map(Five())) == 5 * (2**60 + 1)
    assert len(MapDataset.range(2**62).flat_map(Five())) == sys.maxsize
    assert len(MapDataset.range(2**60 + 1).repeat(5)) == 5 * (2**60 + 1)


def stream():
    return MapDataset.range(4).to_iter_dataset()


def documents():
    return stream().map(lambda x: {"t": np.array([x])})


class Fan(transforms.FlatMap):
    def __init__(self, count):
        self.max_fan_out = count

    def flat_map(self, element):
        return [element]


@pytest.mark.parametrize("count", [0, -1])
@pytest.mark.parametrize(
    "build",
    {
        "cycle_length": lambda n: IterDataset.interleave([stream()], cycle_length=n),
        "batch_size": lambda n: stream().batch(n),
        "batch_size of random access": lambda n: MapDataset.range(4).batch(n),
        "rebatch": lambda n: stream().batch(2).rebatch(n),
        "limit": lambda n: stream().limit(n),
        "repeat": lambda n: stream().repeat(n),
        "repeat of random access": lambda n: MapDataset.range(4).repeat(n),
        "num_packing_bins": lambda n: documents().pack_first_fit(length_struct={"t": 3}, num_packing_bins=n),
        "concat_and_split": lambda n: documents().concat_and_split(length_struct={"t": n}),
        "max_fan_out": lambda n: MapDataset.range(4).flat_map(Fan(n)),
        "max_cost": lambda n: stream().batch_by_cost(n, abs),
        "bucket": lambda n: stream().bucket_by_length([3], [n]),
        "max_wait": lambda n: stream().bucket_by_length([3], [1], max_wait=n),
        "num_epochs of a sampler": lambda n: IndexSampler(3, num_epochs=n, seed=1),
    }.values(),
)
def test_counts_that_must_be_positive(build, count):
    with pytest.raises(ValueError, match=f"{count}"):
        build(count)


@pytest.mark.parametrize(
    "build",
    [
        lambda: IterDataset.interleave([stream()], cycle_length=1, iter_buffer_size=-1),
        lambda: IterDataset.interleave([stream()], cycle_length=1, num_make_iter_threads=-1),
        lambda: IterDataset.interleave([stream()], cycle_length=1, make_iter_buffer_size=-1),
        lambda: documents().pack_first_fit(length_struct={"t": -1}, num_packing_bins=1),
        lambda: stream().thread_prefetch(-1),
    ],
)
def test_counts_that_must_not_be_negative(build):
    with pytest.raises(ValueError, match="-1"):
        build()
