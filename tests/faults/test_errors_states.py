"""States that do not fit: they are refused with a reason, and the iterator goes on as if nothing had happened."""

import copy
import re

import pytest

from grain import IterDataset, MapDataset

REFUSALS = (KeyError, IndexError, ValueError, TypeError, AttributeError)


def stream(length=8):
    return MapDataset.range(length).to_iter_dataset()


PIPELINES = {
    "to_iter_dataset": stream(),
    "map": stream().map(abs),
    "batch": stream().batch(2),
    "random_map": stream().random_map(lambda x, rng: x, seed=1),
    "map_with_index": stream().map_with_index(lambda i, x: x),
    "limit": stream().limit(5),
    "repeat": stream(4).repeat(2),
    "cache": stream().cache(),
    "zip": IterDataset.zip([stream(), stream()]),
    "mix": IterDataset.mix([stream(), stream()]),
    "mix of a mapping": IterDataset.mix({"a": stream(), "b": stream()}),
    "flat_map": stream().flat_map(lambda x: [x, x]),
    "rebatch": stream().batch(4).rebatch(3),
    "window_shuffle": stream().window_shuffle(3, seed=1),
    "interleave": IterDataset.interleave([stream(), stream(), stream()], cycle_length=2),
    "nested": stream().random_map(lambda x, rng: x, seed=1).window_shuffle(3, seed=1).flat_map(lambda x: [x]).limit(7),
}
NEVER_REQUIRED = {"future_states", "a", "b"}  # states of components that are new start fresh


def used(dataset, count=2):
    iterator = iter(dataset)
    for _ in range(count):
        next(iterator)
    return iterator


def assert_refused(dataset, state):
    """`state` is refused, and neither the iterator nor the state is changed by it."""
    iterator = used(dataset)
    before, given = iterator.get_state(), copy.deepcopy(state)
    with pytest.raises(REFUSALS) as raised:
        iterator.set_state(state)
    assert str(raised.value)
    assert state == given
    assert iterator.get_state() == before
    assert list(map(str, iterator)) == list(map(str, dataset))[2:]
    return raised.value


def paths(state, path=()):
    """The ways to all entries of a state."""
    entries = state.items() if isinstance(state, dict) else enumerate(state) if isinstance(state, list) else ()
    for key, value in entries:
        yield (*path, key)
        yield from paths(value, (*path, key))


def at(state, path):
    for key in path:
        state = state[key]
    return state


@pytest.mark.parametrize("state", [{}, {"other": 1}, None, 5, "next_index", []], ids=repr)
@pytest.mark.parametrize("dataset", PIPELINES.values(), ids=PIPELINES)
def test_no_state_at_all(dataset, state):
    assert_refused(dataset, state)


@pytest.mark.parametrize("dataset", PIPELINES.values(), ids=PIPELINES)
def test_missing_key(dataset):
    whole = used(dataset).get_state()
    for path in paths(whole):
        if isinstance(path[-1], str) and path[-1] not in NEVER_REQUIRED:
            state = copy.deepcopy(whole)
            del at(state, path[:-1])[path[-1]]
            error = assert_refused(dataset, state)
            assert isinstance(error, KeyError), path
            assert path[-1] in str(error), path


@pytest.mark.parametrize("index", [-1, 9, 10**9])
@pytest.mark.parametrize("dataset", PIPELINES.values(), ids=PIPELINES)
def test_next_index_out_of_range(dataset, index):
    whole = used(dataset).get_state()
    for path in paths(whole):
        if path[-1] == "next_index":
            state = copy.deepcopy(whole)
            at(state, path[:-1])["next_index"] = index
            error = assert_refused(dataset, state)
            assert isinstance(error, IndexError), path
            assert re.search(rf"`next_index` {index} is out of range for dataset of length [48]\.", str(error)), path


@pytest.mark.parametrize("value", [None, "3", [2], 1.5, -1], ids=repr)
@pytest.mark.parametrize("dataset", PIPELINES.values(), ids=PIPELINES)
def test_a_number_that_became_something_else(dataset, value):
    whole = used(dataset).get_state()
    for path in paths(whole):
        if isinstance(at(whole, path), int) and "exhausted" not in path:
            state = copy.deepcopy(whole)
            at(state, path[:-1])[path[-1]] = value
            error = assert_refused(dataset, state)
            assert re.search("must be an integer|does not fit|out of range", str(error)), path


@pytest.mark.parametrize("value", [None, "3", [2], 1.5], ids=repr)
@pytest.mark.parametrize("key", ["iterators_in_use_indices", "iterators_in_use_states", "exhausted", "future_states"])
def test_containers_of_an_interleave_that_became_something_else(key, value):
    dataset = PIPELINES["interleave"]
    error = assert_refused(dataset, {**used(dataset).get_state(), key: value})
    assert "does not fit" in str(error)


def has_all_of(state, needed):
    """Whether `state` has all the keys of `needed`: more of them are no reason to refuse it."""
    if isinstance(needed, dict):
        return isinstance(state, dict) and all(
            key in state and has_all_of(state[key], value) for key, value in needed.items()
        )
    if isinstance(needed, list):
        return isinstance(state, list) and len(state) == len(needed) and all(map(has_all_of, state, needed))
    return not isinstance(state, dict | list)


@pytest.mark.parametrize("other", PIPELINES)
@pytest.mark.parametrize("name", PIPELINES)
def test_state_of_another_pipeline(name, other):
    dataset, state = PIPELINES[name], used(PIPELINES[other]).get_state()
    if not has_all_of(state, used(dataset).get_state()):
        assert_refused(dataset, state)


OTHERS = {
    "zip of more": (PIPELINES["zip"], IterDataset.zip([stream()] * 3)),
    "zip of fewer": (PIPELINES["zip"], IterDataset.zip([stream()])),
    "shorter dataset": (PIPELINES["to_iter_dataset"], stream(100).batch(50)),
    "other cycle length": (PIPELINES["interleave"], IterDataset.interleave([stream()] * 3, cycle_length=3)),
    "interleave of more": (
        IterDataset.interleave([stream(1), stream(1)], cycle_length=1),
        IterDataset.interleave([stream(1)] * 4, cycle_length=1),
    ),
    "window of other streams": (
        PIPELINES["window_shuffle"],
        stream().map_with_index(lambda i, x: x).window_shuffle(3, seed=1),
    ),
    "flat_map of other streams": (PIPELINES["flat_map"], stream().limit(7).flat_map(lambda x: [x])),
    "rebatch of other streams": (PIPELINES["rebatch"], stream().batch(2).limit(7).rebatch(1)),
    "repeat of other streams": (PIPELINES["repeat"], stream().limit(7).repeat(2)),
    "mapping and sequence": (PIPELINES["mix"], PIPELINES["mix of a mapping"]),
    "sequence and mapping": (PIPELINES["mix of a mapping"], PIPELINES["mix"]),
}


@pytest.mark.parametrize(("dataset", "other"), OTHERS.values(), ids=OTHERS)
def test_state_of_a_similar_pipeline(dataset, other):
    count = 4 if "4 datasets" in str(other) else 2
    state = used(other, count).get_state()
    iterator = iter(dataset)
    before = iterator.get_state()
    with pytest.raises(REFUSALS):
        iterator.set_state(state)
    assert iterator.get_state() == before
    assert list(map(str, iterator)) == list(map(str, dataset))


def test_message_says_what_is_needed_and_what_was_found():
    iterator = iter(stream().limit(3))
    message = r"LimitIterDataset\(count=3\).*'count_elements_read', 'parent'.*'next_index'.*pipeline that saved it"
    with pytest.raises(KeyError, match=message) as raised:
        iterator.set_state({"next_index": 3})
    assert isinstance(raised.value, ValueError)
    assert not str(raised.value).startswith("'")  # as the text of a KeyError would


def test_refusal_after_the_end():
    iterator = iter(stream(3))
    assert list(iterator) == [0, 1, 2]
    with pytest.raises(IndexError):
        iterator.set_state({"next_index": 4})
    assert list(iterator) == []
    iterator.set_state({"next_index": 2})
    assert list(iterator) == [2]


def test_states_of_a_closed_iterator():
    iterator = used(stream(5))
    iterator.close()
    assert iterator.get_state() == {"next_index": 2}
    iterator.set_state({"next_index": 3})
    assert iterator.get_state() == {"next_index": 3}
    with pytest.raises(IndexError):
        iterator.set_state({"next_index": 6})
