"""Positions of pipelines in which an error, or an interrupt, has left something half done below another operator."""

from __future__ import annotations

import json

import numpy as np
import pytest

import grain
from grain import MapDataset
from support.outcomes import BrokenError, step, steps


def broken(*victims):
    def function(element):
        if element in victims:
            raise BrokenError
        return element

    return function


def stream(count):
    return MapDataset.range(count).to_iter_dataset()


def as_document(values):
    return {"t": np.concatenate([np.full(2, value) for value in values])}


class Passing(grain.DatasetIterator):
    def __next__(self):
        return next(self._parent)

    def get_state(self):
        return self._parent.get_state()

    def set_state(self, state):
        self._parent.set_state(state)


class UsersDataset(grain.IterDataset):
    def __iter__(self):
        return Passing(iter(self._parent))


def documents():
    return stream(8).map(broken(3)).batch(2, batch_fn=list).map(as_document)


NESTED = {
    "split above batch": lambda: documents().concat_and_split(length_struct={"t": 3}),
    "pack above batch": lambda: documents().pack_first_fit(length_struct={"t": 5}, num_packing_bins=1),
    "pack above batch, two rows": lambda: documents().pack_best_fit(length_struct={"t": 5}, num_packing_bins=2),
    "cache of a user's iterator": lambda: UsersDataset(stream(5)).cache(),
    "cache above a window": lambda: stream(6).map(broken(1, 2)).window_shuffle(3, seed=0).cache(),
    "cache above packing": lambda: documents().pack_first_fit(length_struct={"t": 5}, num_packing_bins=2).cache(),
    "flat_map at the end": lambda: (
        stream(4)
        .map(broken(3))
        .map(lambda x: np.array([x]))
        .rebatch(1)
        .flat_map(lambda x: [x.tolist()])
        .batch_by_cost(2, lambda x: 1, batch_fn=list)
    ),
    "thread_prefetch above batch": lambda: stream(12).map(broken(2)).batch(2, batch_fn=list).thread_prefetch(1),
    "window above thread_prefetch": lambda: (
        stream(12).map(broken(2, 7)).batch(2, batch_fn=list).thread_prefetch(1).window_shuffle(3, seed=1)
    ),
}


@pytest.mark.parametrize("name", NESTED)
def test_any_state_is_followed_by_the_same_rest(name):
    dataset = NESTED[name]()
    whole = steps(iter(dataset))
    iterator = iter(dataset)
    for position in range(len(whole) + 1):
        state = json.loads(json.dumps(iterator.get_state()))
        resumed = iter(dataset)
        for _ in range(2):  # also on an iterator that has been used
            resumed.set_state(state)
            assert steps(resumed) == whole[position:], position
        step(iterator)


class Interrupting:
    def __init__(self, at):
        self.at = [at]

    def __call__(self, element):
        if element in self.at:
            self.at.clear()
            raise KeyboardInterrupt
        return element


CLOSED = {
    "boundary": lambda f: MapDataset.range(12).map(f).to_iter_dataset(grain.ReadOptions(num_threads=0)),
    "stream": lambda f: stream(12).map(f).batch(2, batch_fn=list),
    "thread_prefetch": lambda f: stream(12).map(f).map(broken(2)).batch(2, batch_fn=list).thread_prefetch(1),
    "thread_prefetch of a boundary": lambda f: MapDataset.range(12).map(f).to_iter_dataset().thread_prefetch(2),
}


@pytest.mark.parametrize("name", CLOSED)
@pytest.mark.parametrize("at", [0, 1, 4, 7, 11])
def test_a_state_taken_when_it_was_interrupted_and_closed(name, at):
    whole = steps(iter(CLOSED[name](lambda x: x)))
    iterator, seen = iter(CLOSED[name](Interrupting(at))), []
    try:
        while (element := step(iterator)) is not None:
            seen.append(element)
    except KeyboardInterrupt:
        iterator.close()
    assert len(seen) < len(whole)
    resumed = iter(CLOSED[name](lambda x: x))
    resumed.set_state(json.loads(json.dumps(iterator.get_state())))
    assert steps(resumed) == whole[len(seen) :]


@pytest.mark.parametrize("worker_count", [0, 1])
def test_a_loader_that_was_interrupted_and_closed(worker_count):
    def loader(function):
        return grain.load(range(8), num_epochs=1, transformations=[function], worker_count=worker_count)

    class Interrupted(grain.transforms.Map):
        interrupting = Interrupting(5)

        def map(self, element):
            return self.interrupting(element)

    iterator, seen = iter(loader(Interrupted())), []
    try:
        seen.extend(iterator)
    except KeyboardInterrupt:
        iterator.close()
    assert seen == [0, 1, 2, 3, 4]
    resumed = iter(loader(abs))
    resumed.set_state(iterator.get_state())
    assert list(resumed) == [5, 6, 7]
