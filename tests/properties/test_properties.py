"""Random pipelines and random cuts: elements are those of the model, and resuming anywhere gives the rest."""

from __future__ import annotations

import itertools
import json
from collections import Counter

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grain import IterDataset, MapDataset
from support import models
from support.comparison import plain
from support.strategies import LONGEST, iter_pipelines, map_pipelines

bounded = settings(
    max_examples=250,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
few = settings(bounded, max_examples=60)
POSITIONS = st.integers(0, LONGEST)


def elements_of(iterator, count=None):
    return [plain(element) for element in itertools.islice(iterator, count)]


# ---------------------------------------------------------------- pipelines and their models


@bounded
@given(map_pipelines())
def test_random_access_equals_its_model(it):
    assert len(it.dataset) == it.model.length
    indices = range(2 * it.model.length + 3)
    assert [plain(it.dataset[index]) for index in indices] == [plain(it.model.at(index)) for index in indices]


@settings(bounded, max_examples=120)
@given(map_pipelines(), st.integers(0, 2**40), st.integers(1, 50))
def test_epochs_far_away_equal_the_model(it, start, count):
    expected = [plain(it.model.at(index)) for index in range(start, start + count)]
    assert [plain(it.dataset[index]) for index in range(start, start + count)] == expected
    iterator = iter(it.dataset.repeat().to_iter_dataset(allow_nones=True))
    iterator.set_state({"next_index": start})
    assert elements_of(iterator, count) == expected


@bounded
@given(map_pipelines(), POSITIONS, st.booleans())
def test_iteration_equals_indexing_from_any_position(it, start, allow_nones):
    start = min(start, it.model.length)
    iterator = iter(it.dataset.to_iter_dataset(allow_nones=allow_nones))
    iterator.set_state({"next_index": start})
    expected = [plain(it.dataset[index]) for index in range(start, it.model.length)]
    assert elements_of(iterator) == [element for element in expected if allow_nones or element is not None]


@bounded
@given(iter_pipelines())
def test_streams_equal_their_models(it):
    assert elements_of(iter(it.dataset)) == [plain(element) for element in it.model.elements]


# ---------------------------------------------------------------- resuming


@bounded
@given(iter_pipelines(), POSITIONS, POSITIONS)
def test_resuming_anywhere_on_any_iterator_gives_the_rest(it, position, used):
    expected = elements_of(iter(it.dataset))
    iterator = iter(it.dataset)
    elements_of(iterator, position)
    state = json.loads(json.dumps(iterator.get_state()))

    fresh, other = iter(it.dataset), iter(it.dataset)
    elements_of(other, used)
    for resumed in (fresh, other):
        resumed.set_state(state)
        assert resumed.get_state() == state
        assert elements_of(resumed) == expected[position:]
    assert elements_of(iterator) == expected[position:]


@bounded
@given(iter_pipelines(), st.lists(st.integers(0, 7), max_size=8))
def test_interrupted_again_and_again_nothing_is_lost(it, runs):
    expected = elements_of(iter(it.dataset))
    state, seen = iter(it.dataset).get_state(), []
    for run in runs:
        iterator = iter(it.dataset)
        iterator.set_state(state)
        seen += elements_of(iterator, run)
        state = iterator.get_state()
    last = iter(it.dataset)
    last.set_state(state)
    assert seen + elements_of(last) == expected


@bounded
@given(iter_pipelines(), st.lists(st.sampled_from([0, 1, "swap states"]), max_size=20))
def test_two_iterators_at_a_time(it, moves):
    expected = elements_of(iter(it.dataset))
    iterators, positions = [iter(it.dataset), iter(it.dataset)], [0, 0]
    for move in moves:
        if move == "swap states":
            first, second = iterators[0].get_state(), iterators[1].get_state()
            iterators[0].set_state(second)
            iterators[1].set_state(first)
            positions.reverse()
        else:
            assert elements_of(iterators[move], 1) == expected[positions[move] :][:1]
            positions[move] = min(positions[move] + 1, len(expected))
    assert [elements_of(iterator) for iterator in iterators] == [expected[position:] for position in positions]


# ---------------------------------------------------------------- single operators


@few
@given(st.integers(1, 5000), st.integers(0, 2**32 - 1), st.integers(0, 3))
def test_shuffle_is_a_permutation_of_each_epoch(length, seed, epoch):
    dataset = MapDataset.range(length).shuffle(seed=seed)
    chosen = range(epoch * length, (epoch + 1) * length)
    assert sorted(iter(dataset.repeat(4)[chosen.start : chosen.stop])) == list(range(length))


@few
@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(1, 5))
def test_mix_keeps_to_its_weights(weights, rounds):
    weights = [1, *weights]
    sources = [MapDataset.source([component]).repeat() for component in range(len(weights))]
    for mixed in (MapDataset.mix(sources, weights), IterDataset.mix([s.to_iter_dataset() for s in sources], weights)):
        elements = list(itertools.islice(iter(mixed), rounds * sum(weights)))
        assert Counter(elements) == {component: rounds * weight for component, weight in enumerate(weights)}
        exact = np.cumsum([weights[0] / sum(weights)] * len(elements))
        taken = np.cumsum([element == 0 for element in elements])
        assert (taken >= exact - 1e-9).all()
        assert (taken < exact + 1).all()


@few
@given(st.integers(0, 60), st.integers(1, 9), st.integers(1, 9), st.booleans())
def test_batches_hold_all_elements_in_order(length, size, other_size, drop_remainder):
    numbers = MapDataset.range(length).map(lambda x: x * x)
    squares = [x * x for x in range(length)]
    for batched in (
        numbers.batch(size, drop_remainder=drop_remainder),
        numbers.to_iter_dataset().batch(size, drop_remainder=drop_remainder),
        numbers.to_iter_dataset().batch(other_size).rebatch(size, drop_remainder=drop_remainder),
    ):
        batches = list(batched)
        kept = length // size * size if drop_remainder else length
        assert [row for batch in batches for row in batch] == squares[:kept]
        assert [len(batch) for batch in batches[:-1]] == [size] * (len(batches) - 1)


@few
@given(st.integers(0, 40), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_window_shuffle_moves_elements_within_their_window(length, size, seed):
    elements = list(MapDataset.range(length).to_iter_dataset().window_shuffle(size, seed=seed))
    windows = models.chunks(elements, size, drop_remainder=False)
    assert [sorted(window) for window in windows] == models.chunks(list(range(length)), size, drop_remainder=False)
