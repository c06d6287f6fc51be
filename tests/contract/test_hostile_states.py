"""States that nobody saved are refused when they are set, or lead somewhere: nothing fails in another way or hangs."""

from __future__ import annotations

import copy
import json
import random

import pytest

from grain import DataLoader, IndexSampler, MapDataset, transforms
from support.pipelines import NAMES, iter_pipeline

VALUES = [None, "x", "", "7", -1, 0, 1, 3, 2**31, 2**62, 2**63, 10**30, 1.5, float("nan"), True, [], {}, [1], [[]]]
USERS = ("custom", "deep", "data loader with an operation", "mp_prefetch")
"""Pipelines with iterators of users, which check what they like, and those that take long."""
TABLE = [name for name in NAMES if not any(word in name for word in USERS)]
MOST = 60
"""How many states are tried of each pipeline."""


def paths(state, path=()):
    """The ways to all that is in a state."""
    yield path
    children = state.items() if isinstance(state, dict) else enumerate(state) if isinstance(state, list) else ()
    for key, value in children:
        yield from paths(value, (*path, key))


def at(state, path):
    for key in path:
        state = state[key]
    return state


def replaced(state, path, value):
    """The state with another value in one place."""
    if not path:
        return copy.deepcopy(value)
    state = copy.deepcopy(state)
    at(state, path[:-1])[path[-1]] = copy.deepcopy(value)
    return state


def mutations(state):
    """Wrong types, numbers out of range, keys that are missing or too many, parts in other parts' places."""
    places = list(paths(state))
    for path in places:
        here = at(state, path)
        others = [*VALUES, *(at(state, other) for other in places)]
        if isinstance(here, dict):
            others += [{key: value for key, value in here.items() if key != missing} for missing in here]
            others += [{**here, "extra": 1}]
            for elements, errors in [(2, 1), (-1, 0), (0, -1), (2**63, 0), (10**15, 0), ("x", 0), (0, None)]:
                others += [{"anchor": here, "elements_since": elements, "errors_since": errors}]
        if isinstance(here, list):
            others += [here[:-1], [*here, *here], [*here, 0]]
        for value in others:
            yield replaced(state, path, value)


def states_of(iterator):
    """Some states on the way, and how many elements there are."""
    states, count = [iterator.get_state()], 0
    for _ in iterator:
        count += 1
        if count <= 2:
            states.append(iterator.get_state())
    return json.loads(json.dumps(states)), count


@pytest.mark.parametrize("name", TABLE)
def test_made_up_states(name):
    dataset = iter_pipeline(name, "inline")
    iterator = iter(dataset)
    states, count = states_of(iterator)
    made_up = [mutation for state in states for mutation in mutations(state)]
    for state in random.Random(name).sample(made_up, min(len(made_up), MOST)):
        before = iterator.get_state()
        try:
            iterator.set_state(state)
        except ValueError:
            assert iterator.get_state() == before
            continue
        try:
            found = sum(1 for _ in iterator)
        except ValueError:  # it can only be seen when it is read that there are not so many elements, or others
            continue
        assert found <= 3 * count + 20, state


REPEATED = MapDataset.range(4).to_iter_dataset()
DOCUMENTS = MapDataset.range(9).to_iter_dataset().map(lambda x: {"t": [x] * (1 + x % 4)})
WRONG = {
    "more epochs than there are": (REPEATED.repeat(3), ["epoch"], 4),
    "an index that no array holds": (REPEATED.random_map(lambda x, rng: x, seed=1), ["index_for_rng"], 2**64),
    "elements that were never there": (REPEATED.batch_by_cost(3, abs), ["passed"], 2**63),
    "more rows than are filled": (
        DOCUMENTS.pack_first_fit(length_struct={"t": 5}, num_packing_bins=2),
        ["next_row"],
        2,
    ),
    "text in place of a slice": (DOCUMENTS.concat_and_split(length_struct={"t": 3}), ["remainder_slices", "t"], "x"),
    "text in a slice": (DOCUMENTS.concat_and_split(length_struct={"t": 3}), ["remainder_slices", "t", 0], "7"),
    "a slice backwards": (DOCUMENTS.concat_and_split(length_struct={"t": 3}), ["remainder_slices", "t"], [3, 1]),
    "a number in place of a truth": (REPEATED.cache(), ["cache_filled"], 7),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named_when_it_is_set(name):
    dataset, path, value = WRONG[name]
    iterator = iter(dataset)
    next(iterator)
    before = iterator.get_state()
    with pytest.raises(ValueError, match="Restore it with the pipeline that saved it") as raised:
        iterator.set_state(replaced(before, path, value))
    assert path[0] in str(raised.value)
    assert iterator.get_state() == before


def test_fewer_elements_than_were_passed():
    iterator = iter(REPEATED.batch_by_cost(3, abs))
    iterator.set_state({"parent": {"next_index": 1}, "passed": 10**15})
    with pytest.raises(ValueError, match="were handed out where there are not so many"):
        next(iterator)


@pytest.mark.parametrize("start", range(4))
def test_a_stream_that_goes_elsewhere_after_an_error_that_did_not_come_again(start):
    iterator = iter(MapDataset.range(5).to_iter_dataset())
    iterator.set_state({"anchor": {"next_index": 1}, "elements_since": 1, "errors_since": 1})
    assert next(iterator) == 2
    iterator.set_state({"next_index": start})
    assert list(iterator) == list(range(start, 5))


def test_made_up_states_of_a_loader():
    loader = DataLoader(
        data_source=range(9),
        sampler=IndexSampler(9, num_epochs=2, seed=1, shuffle=True),
        operations=[transforms.Batch(2)],
    )
    iterator = iter(loader)
    next(iterator)
    state = json.loads(iterator.get_state())
    for made_up in mutations(state):
        try:
            iterator.set_state(json.dumps(made_up).encode())
        except ValueError:
            continue
        assert sum(1 for _ in iterator) <= 9
