"""Pipelines of thousands of operators upon each other: they run, or a clear error says why not and what to do."""

from __future__ import annotations

import json
import pickle

import cloudpickle
import pytest

from grain import IterDataset, MapDataset, MultiprocessingOptions
from grain.experimental import get_element_spec
from support.user_code import add_one, is_even, pair_with_index

COUNT = 5000


def high(dataset, *operators):
    for number in range(COUNT):
        dataset = operators[number % len(operators)](dataset)
    return dataset


INDEXED = {
    "map": lambda: high(MapDataset.range(6), lambda ds: ds.map(abs)),
    "slice": lambda: high(MapDataset.range(6), lambda ds: ds[:6]),
    "repeat": lambda: high(MapDataset.range(6), lambda ds: ds.repeat(1)),
    "seed": lambda: high(MapDataset.range(6), lambda ds: ds.seed(1)),
    "several": lambda: high(
        MapDataset.range(6), lambda ds: ds.map(abs), lambda ds: ds[::-1], lambda ds: ds.map_with_index(max)
    ),
}


@pytest.mark.parametrize("name", INDEXED)
def test_random_access_runs(name):
    dataset = INDEXED[name]()
    assert len(dataset) == 6
    whole = [dataset[index] for index in range(6)]
    assert len(whole) == 6
    assert list(dataset) == whole
    iterator = iter(dataset)
    next(iterator)
    resumed = iter(dataset)
    resumed.set_state(json.loads(json.dumps(iterator.get_state())))
    assert list(resumed) == whole[1:]
    assert "more" in repr(dataset)
    assert "more" in str(dataset.explain())
    for pickler in (pickle, cloudpickle):
        assert list(pickler.loads(pickler.dumps(dataset))) == whole
    assert [batch.tolist() for batch in dataset.to_iter_dataset().batch(6)] == [whole]


def test_random_access_runs_in_workers():
    dataset = INDEXED["several"]()
    for count in (1, 2):
        workers = dataset.to_iter_dataset().mp_prefetch(MultiprocessingOptions(num_workers=count))
        assert list(workers) == list(dataset)


def test_the_spec_of_a_high_pipeline():
    assert get_element_spec(INDEXED["slice"]()).shape == ()


def stream():
    return MapDataset.range(6).to_iter_dataset()


TOO_HIGH = {
    "map": lambda: high(stream(), lambda ds: ds.map(add_one)),
    "filter": lambda: high(stream(), lambda ds: ds.filter(is_even)),
    "several": lambda: high(
        stream(), lambda ds: ds.map_with_index(pair_with_index), lambda ds: ds.limit(9), lambda ds: ds.batch(1)
    ),
    "mix": lambda: high(stream(), lambda ds: IterDataset.mix([ds, stream()])),
    "concatenate": lambda: high(MapDataset.range(6), lambda ds: MapDataset.concatenate([ds])),
}


@pytest.mark.parametrize("name", TOO_HIGH)
def test_what_cannot_run_says_what_to_do(name):
    dataset = TOO_HIGH[name]()
    with pytest.raises(RecursionError, match=r"has 5,00\d operators upon each other.*Join functions to one"):
        next(iter(dataset))
    assert len(repr(dataset)) < 2000
    assert "operators upon each other" in str(dataset.explain())
    assert type(pickle.loads(pickle.dumps(dataset))) is type(dataset)
    with pytest.raises(RecursionError, match="Join functions to one"):
        next(iter(dataset.batch(2)))


def test_indexing_what_cannot_run_says_what_to_do():
    with pytest.raises(RecursionError, match="Join functions to one"):
        TOO_HIGH["concatenate"]()[0]


@pytest.mark.parametrize("count", [100, 300])
def test_streams_of_hundreds_of_operators(count):
    dataset = stream()
    for _ in range(count):
        dataset = dataset.map(add_one)
    whole = list(dataset)
    assert whole == list(range(count, count + 6))
    iterator = iter(dataset)
    next(iterator)
    resumed = iter(pickle.loads(pickle.dumps(dataset)))
    resumed.set_state(iterator.get_state())
    assert list(resumed) == whole[1:]
