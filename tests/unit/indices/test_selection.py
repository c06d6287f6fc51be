"""Which component an index of a mixture or a concatenation belongs to, for any index, as a number and in arrays."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grain import IterDataset, MapDataset
from grain.indices.selection import Concatenation, Proportions, integer_weights

TABLE_LIMIT = 65_536
quick = settings(deadline=None, derandomize=True, max_examples=100)

INTEGER_WEIGHTS = [
    ([0.3, 0.7], (100, 233)),
    ([7, 11], (100, 157)),
    ([0.333, 0.667], (100, 200)),
    ([0.57, 0.43], (132, 100)),
    ([1, 1.07, 2.26], (100, 107, 225)),
    ([1, 1.14], (100, 113)),
    ([0.1, 0.2, 0.7], (100, 200, 700)),
    ([5, 2, 3], (250, 100, 150)),
    ([1], (100,)),
]


@pytest.mark.parametrize(("weights", "integers"), INTEGER_WEIGHTS)
def test_integer_weights(weights, integers):
    assert integer_weights(weights) == integers


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=8))
@quick
def test_integer_weights_are_truncated_doubles(weights):
    scale = 100 / min(weights)
    assert integer_weights(weights) == tuple(int(weight * scale) for weight in weights)


def reference(weights, index):
    """The formula of the specification, in exact integers."""
    total, start, stop = sum(weights), index, index + 1
    for component, weight in enumerate(weights):
        start_rest, stop_rest = start * (total - weight) // total, stop * (total - weight) // total
        if stop - stop_rest != start - start_rest:
            return component, stop - stop_rest - 1
        total -= weight
        start, stop = start_rest, stop_rest
    raise AssertionError(f"{index} belongs to no component")


def picked(pick_array, indices, dtype=np.int64):
    components, places = pick_array(np.array(indices, dtype=dtype))
    return list(zip(components.tolist(), places.tolist(), strict=True))


SMALL = st.lists(st.integers(1, 400), min_size=1, max_size=8)
COPRIME = st.tuples(st.integers(1, 50_000).map(lambda n: 2 * n), st.just(TABLE_LIMIT + 1)).map(list)
LARGE = st.one_of(COPRIME, st.lists(st.integers(10_000, 300_000), min_size=2, max_size=5))
WEIGHTS = st.one_of(SMALL, LARGE)
NEAR = st.integers(-1000, 100_000)
ANY = st.one_of(NEAR, st.integers(-(2**63), 2**63 - 2))


@given(WEIGHTS, st.lists(ANY, min_size=1, max_size=30))
@quick
def test_one_index(weights, indices):
    proportions = Proportions(weights)
    assert [proportions.pick(index) for index in indices] == [reference(weights, index) for index in indices]


@given(WEIGHTS, st.integers(-(2**90), 2**90))
@quick
def test_one_huge_index(weights, index):
    assert Proportions(weights).pick(index) == reference(weights, index)


@given(WEIGHTS, st.lists(NEAR, min_size=1, max_size=30))
@quick
def test_scattered_indices(weights, indices):
    assert picked(Proportions(weights).pick_array, indices) == [reference(weights, index) for index in indices]


@given(WEIGHTS, ANY, st.integers(1, 200))
@quick
def test_consecutive_indices(weights, start, size):
    indices = range(start, min(start + size, 2**63 - 1))
    assert picked(Proportions(weights).pick_array, indices) == [reference(weights, index) for index in indices]


@given(WEIGHTS, st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20))
@quick
def test_scattered_huge_indices(weights, indices):
    assert picked(Proportions(weights).pick_array, indices) == [reference(weights, index) for index in indices]


@given(WEIGHTS, st.lists(st.integers(-(2**80), 2**80), min_size=1, max_size=10))
@quick
def test_indices_beyond_int64(weights, indices):
    assert picked(Proportions(weights).pick_array, indices, object) == [reference(weights, index) for index in indices]


def test_a_sequence_that_only_looks_consecutive():
    weights = [70_001, 70_003]
    for indices in ([5, 7, 6, 8], [0, 2, 2, 3], [3, 2, 1, 0], [4]):
        assert picked(Proportions(weights).pick_array, indices) == [reference(weights, index) for index in indices]


def test_no_indices():
    for weights in ([1, 2], [70_001, 70_003]):
        assert picked(Proportions(weights).pick_array, []) == []


@pytest.mark.parametrize("count", [1, 2, 3, 7, 100, 1000])
def test_many_components(count):
    weights = [100 + position % 17 for position in range(count)]
    indices = range(3 * count)
    assert picked(Proportions(weights).pick_array, indices) == [reference(weights, index) for index in indices]


@given(WEIGHTS, st.integers(1, 300))
@quick
def test_every_prefix_keeps_the_proportions(weights, length):
    picks = [component for component, _ in picked(Proportions(weights).pick_array, range(length))]
    for component, weight in enumerate(weights):
        assert abs(picks.count(component) - length * weight / sum(weights)) < len(weights)


def concatenated(lengths, index):
    epoch, place = divmod(index, sum(lengths))
    for component, length in enumerate(lengths):
        if place < length:
            return component, place + epoch * length
        place -= length
    raise AssertionError("unreachable")


LENGTHS = st.lists(st.one_of(st.integers(0, 5), st.integers(0, 2**40)), min_size=1, max_size=6).filter(any)


@given(LENGTHS, st.lists(ANY, min_size=1, max_size=30))
@quick
def test_concatenation(lengths, indices):
    expected = [concatenated(lengths, index) for index in indices]
    concatenation = Concatenation(lengths)
    assert concatenation.length == sum(lengths)
    assert [concatenation.pick(index) for index in indices] == expected
    assert picked(concatenation.pick_array, indices) == expected


@given(LENGTHS, st.lists(st.integers(-(2**80), 2**80), min_size=1, max_size=10))
@quick
def test_concatenation_beyond_int64(lengths, indices):
    expected = [concatenated(lengths, index) for index in indices]
    concatenation = Concatenation(lengths)
    assert [concatenation.pick(index) for index in indices] == expected
    assert picked(concatenation.pick_array, indices, object) == expected


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=5), st.integers(-500, 500))
@quick
def test_mix_follows_the_formula(weights, start):
    parents = [
        MapDataset.range(1000).map_with_index(lambda i, x, component=component: (component, i))
        for component in range(len(weights))
    ]
    dataset = MapDataset.mix(parents, weights)
    integers = integer_weights(weights)
    assert [dataset[index] for index in range(start, start + 50)] == [
        reference(integers, index) for index in range(start, start + 50)
    ]
    assert list(dataset)[:300] == [reference(integers, index) for index in range(min(len(dataset), 300))]


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=5), st.integers(0, 10**6))
@quick
def test_mix_of_streams_follows_the_formula(weights, index):
    parents = [MapDataset.source([component]).repeat(2000).to_iter_dataset() for component in range(len(weights))]
    iterator = iter(IterDataset.mix(parents, weights))
    iterator.set_state(iterator.get_state() | {"index": index})
    integers = integer_weights(weights)
    expected = [reference(integers, index + offset)[0] for offset in range(200)]
    assert [next(iterator) for _ in range(200)] == expected


INDEX = 2**70 + 3
HUGE = {
    "range": MapDataset.range(7),
    "map": MapDataset.range(7).map(lambda x: x + 1),
    "map_with_index": MapDataset.range(7).map_with_index(lambda i, x: (i, x)),
    "shuffle": MapDataset.range(7).shuffle(1),
    "slice": MapDataset.range(7)[1:6:2],
    "indices": MapDataset.range(7).slice([3, 1]),
    "repeat": MapDataset.range(7).repeat(3),
    "window_shuffle": MapDataset.range(8).window_shuffle(4, seed=1),
    "mix": MapDataset.mix([MapDataset.range(7), MapDataset.range(10, 17)], [1, 2]),
    "concatenate": MapDataset.concatenate([MapDataset.range(3), MapDataset.range(10, 14)]),
    "zip": MapDataset.zip([MapDataset.range(7), MapDataset.range(7)]),
    "batch": MapDataset.range(7).batch(2),
    "batch of a mix": MapDataset.mix([MapDataset.range(7), MapDataset.range(10, 17)]).batch(3),
    "batch of a concatenation": MapDataset.concatenate([MapDataset.range(3), MapDataset.range(10, 14)]).batch(3),
    "batch of a slice": MapDataset.range(20)[1:18:3].batch(4),
    "batch of a shuffle": MapDataset.range(7).shuffle(1).batch(2),
}


@pytest.mark.parametrize("name", HUGE)
@pytest.mark.parametrize("index", [INDEX, -INDEX, 2**63 - 1, 2**63, -(2**63) - 1])
def test_any_operator_at_a_huge_index(name, index):
    """Epochs go on for ever: 2**32 of them later, in the cycle of the shuffle's seeds, everything is the same again."""
    dataset = HUGE[name]
    cycle = len(dataset) * 2**32 * 3 * 5 * 7 * 8
    near, far = dataset[index % cycle], dataset[index]
    if name == "map_with_index":
        assert far == (index, index % 7)
    else:
        assert str(near) == str(far)


@pytest.mark.parametrize("name", HUGE)
def test_the_last_elements_of_an_endless_dataset(name):
    """Reached by iteration, whose arithmetic is done in blocks."""
    dataset = HUGE[name]
    iterator = iter(dataset.repeat())
    start, stop = 2**63 - 41, 2**63 - 1
    iterator.set_state({"next_index": start})
    assert list(map(str, iterator)) == [str(dataset[index]) for index in range(start, stop)]


def test_numbers_beyond_int64():
    start = 2**64
    assert list(MapDataset.range(start, start + 40)) == list(range(start, start + 40))
    assert list(MapDataset.range(start, start + 40).to_iter_dataset().map(lambda x: x - start)) == list(range(40))
    batches = list(MapDataset.range(start, start + 5).batch(2))
    assert [batch.tolist() for batch in batches] == [[start, start + 1], [start + 2, start + 3], [start + 4]]


def test_steps_beyond_int64():
    wide = MapDataset.range(-(2**63), 2**63 - 1, 2**62)
    assert list(wide) == [-(2**63), -(2**62), 0, 2**62]
    assert list(MapDataset.range(2**63 - 1, -(2**63), -(2**62)).batch(4)[0]) == [2**63 - 1, 2**62 - 1, -1, -(2**62) - 1]
