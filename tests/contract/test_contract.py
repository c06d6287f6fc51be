"""The laws that every pipeline keeps: the table of support/pipelines.py times laws times back ends."""

from __future__ import annotations

import copy
import importlib
import itertools
import json
import pickle
import pkgutil

import numpy as np
import pytest

import grain
import grain.ops
from grain import MapDataset
from grain.graph.node import IterNode, MapNode, ancestors
from grain.ops.custom import node_of
from support.comparison import plain, recorded
from support.pipelines import ITER_PIPELINES, MAP_PIPELINES, NAMES, READ_OPTIONS, Opening, iter_pipeline
from support.user_code import Doubled, UpToThree, Zigzag


@pytest.fixture(params=READ_OPTIONS)
def back_end(request):
    return request.param


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


@pytest.fixture
def dataset(name, back_end):
    return iter_pipeline(name, back_end)


@pytest.fixture(params=MAP_PIPELINES)
def map_dataset(request):
    return MAP_PIPELINES[request.param]()


def rest(iterator):
    return [plain(element) for element in iterator]


def advanced(dataset, count):
    """A new iterator that has given `count` elements."""
    iterator = iter(dataset)
    for _ in range(count):
        next(iterator)
    return iterator


def recorded_to_the_end(dataset):
    """All elements, and the states before each of them, after the last, and after the end was met."""
    iterator = iter(dataset)
    elements, states = recorded(iterator)
    return elements, [*states, iterator.get_state()]


def shape(state):
    """What must not change from state to state: keys, their order, lengths and types."""
    if isinstance(state, dict):
        return {key: shape(value) for key, value in state.items()}, list(state)
    if isinstance(state, list | tuple):
        return [type(state), *map(shape, state)]
    return type(state)


def without_caches(state):
    """A cache that was resumed has to read its parent again, so where the parent is does not count."""
    if isinstance(state, dict):
        kept = {"position": state["position"]} if "cache_filled" in state else state
        return {key: without_caches(value) for key, value in kept.items()}
    return [without_caches(value) for value in state] if isinstance(state, list) else state


# ---------------------------------------------------------------- state


def test_resuming_at_every_step_on_a_fresh_iterator_gives_the_same_rest(dataset):
    elements, states = recorded_to_the_end(dataset)
    for position, state in enumerate(states):
        resumed = iter(dataset)
        resumed.set_state(state)
        assert rest(resumed) == elements[position:], f"resumed after {position} elements"


def test_resuming_from_json_in_a_rebuilt_pipeline_gives_the_same_rest(name, dataset, back_end):
    elements, states = recorded_to_the_end(dataset)
    for position, state in enumerate(states):
        resumed = iter(iter_pipeline(name, back_end))
        resumed.set_state(json.loads(json.dumps(state)))
        assert rest(resumed) == elements[position:], f"resumed after {position} elements"


def test_resuming_on_a_used_or_exhausted_iterator_gives_the_same_rest(dataset):
    elements, states = recorded_to_the_end(dataset)
    for position, state in enumerate(states):
        for used in range(0, len(elements) + 1, 1 + len(elements) // 8):
            iterator = advanced(dataset, used)
            iterator.set_state(state)
            assert rest(iterator) == elements[position:], f"resumed after {position}, on an iterator that gave {used}"
            iterator.set_state(state)  # now it has met its end
            assert rest(iterator) == elements[position:], f"resumed after {position}, on an exhausted iterator"


def test_a_resumed_iterator_saves_the_states_of_an_uninterrupted_one(dataset):
    elements, states = recorded_to_the_end(dataset)
    for position, state in enumerate(states[: len(elements) + 1]):
        resumed = iter(dataset)
        resumed.set_state(state)
        assert resumed.get_state() == state
        saved = [resumed.get_state(), *(resumed.get_state() for _ in resumed)]
        expected = states[position : len(elements) + 1]
        assert [without_caches(state) for state in saved] == [without_caches(state) for state in expected]


def test_state_keeps_its_shape(dataset):
    _, states = recorded_to_the_end(dataset)
    assert [shape(state) for state in states] == [shape(states[0])] * len(states)


def test_state_is_json(dataset):
    _, states = recorded_to_the_end(dataset)
    assert json.loads(json.dumps(states)) == states


def test_a_saved_state_does_not_change_later(dataset):
    iterator = iter(dataset)
    states = [iterator.get_state()]
    copies = copy.deepcopy(states)
    for _ in iterator:
        states.append(iterator.get_state())
        copies.append(copy.deepcopy(states[-1]))
    assert states == copies


def test_set_state_leaves_its_argument_alone(dataset):
    _, states = recorded_to_the_end(dataset)
    for state in states:
        given = copy.deepcopy(state)
        iterator = iter(dataset)
        iterator.set_state(given)
        list(iterator)
        assert given == state


def test_get_state_does_not_disturb(dataset):
    expected = rest(iter(dataset))
    iterator, elements = iter(dataset), []
    iterator.get_state()
    for element in iterator:
        elements.append(plain(element))
        iterator.get_state()
        iterator.get_state()
    assert elements == expected


# ---------------------------------------------------------------- iterators


def test_two_iterators_do_not_disturb_each_other(dataset):
    expected = rest(iter(dataset))
    first, second = iter(dataset), iter(dataset)
    in_turn = [(plain(a), plain(b)) for a, b in zip(first, second, strict=True)]
    assert in_turn == list(zip(expected, expected, strict=True))

    for lead in range(len(expected) + 1):
        ahead, behind = advanced(dataset, lead), iter(dataset)
        behind.set_state(ahead.get_state())
        assert rest(behind) == expected[lead:]
        assert rest(ahead) == expected[lead:]


def test_iterating_again_gives_the_same(dataset):
    assert rest(iter(dataset)) == rest(iter(dataset))


def test_a_pickled_pipeline_gives_the_same(dataset):
    elements, states = recorded_to_the_end(
        dataset
    )  # reading first: what a pipeline has worked out must not be in the way
    loaded = pickle.loads(pickle.dumps(dataset))
    assert rest(iter(loaded)) == elements
    resumed = iter(loaded)
    resumed.set_state(states[len(elements) // 2])
    assert rest(resumed) == elements[len(elements) // 2 :]


def test_all_back_ends_give_the_same(name):
    expected = recorded_to_the_end(iter_pipeline(name, "inline"))
    for back_end in READ_OPTIONS:
        assert recorded_to_the_end(iter_pipeline(name, back_end)) == expected


def test_an_exhausted_iterator_stays_exhausted(dataset):
    iterator = iter(dataset)
    list(iterator)
    state = iterator.get_state()
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(iterator)
    assert iterator.get_state() == state


def test_an_iterator_is_its_own_iterator(dataset):
    iterator = iter(dataset)
    assert isinstance(iterator, grain.DatasetIterator)
    assert iter(iterator) is iterator


@pytest.mark.parametrize("used", ["fresh", "half way", "exhausted"])
def test_a_closed_iterator_refuses_elements_but_knows_its_state(dataset, used):
    elements = rest(iter(dataset))
    iterator = advanced(dataset, len(elements) // 2 if used == "half way" else 0)
    if used == "exhausted":
        list(iterator)
    state = copy.deepcopy(iterator.get_state())
    iterator.close()
    iterator.close()
    assert iterator.get_state() == state
    for _ in range(2):
        with pytest.raises(ValueError, match="closed iterator"):
            next(iterator)
    iterator.set_state(state)
    assert iterator.get_state() == state
    with pytest.raises(ValueError, match="closed iterator"):
        next(iterator)


def test_closing_one_iterator_leaves_others_open(dataset):
    expected = rest(iter(dataset))
    open_one, closed = iter(dataset), advanced(dataset, min(1, len(expected)))
    closed.close()
    assert rest(open_one) == expected


def test_a_with_statement_closes(dataset):
    with iter(dataset) as iterator:
        list(itertools.islice(iterator, 1))
    with pytest.raises(ValueError, match="closed iterator"):
        next(iterator)


def test_start_prefetch_changes_nothing_that_can_be_seen(dataset):
    elements, states = recorded_to_the_end(dataset)
    iterator = iter(dataset)
    iterator.start_prefetch()
    iterator.start_prefetch()
    assert iterator.get_state() == states[0]
    assert rest(iterator) == elements


# ---------------------------------------------------------------- random access


def at_each(dataset, indices):
    return [plain(dataset[index]) for index in indices]


def test_indexing_equals_iteration(map_dataset, back_end):
    stream = Opening(READ_OPTIONS[back_end])
    expected = at_each(map_dataset, range(len(map_dataset)))
    assert rest(iter(stream(map_dataset, allow_nones=True))) == expected
    assert rest(iter(stream(map_dataset))) == [element for element in expected if element is not None]


def test_indices_beyond_the_end_are_those_of_a_repeated_dataset(map_dataset, back_end):
    stream = Opening(READ_OPTIONS[back_end])
    length = len(map_dataset)
    expected = at_each(map_dataset, range(3 * length))
    repeated = map_dataset.repeat(3)
    assert len(repeated) == 3 * length
    assert rest(iter(stream(repeated, allow_nones=True))) == expected
    assert at_each(repeated, range(3 * length)) == expected


def test_repeating_without_reseeding_repeats_the_first_epoch(map_dataset):
    first = at_each(map_dataset, range(len(map_dataset)))
    repeated = map_dataset.repeat(2, reseed_each_epoch=False)
    assert at_each(repeated, range(len(repeated))) == first * 2


class IntegersOnly:
    """A source, and a function of index and element, that insist on Python's own integers."""

    def __len__(self):
        return 40

    def __getitem__(self, index):
        assert type(index) is int
        return index

    def __call__(self, index, element):
        assert type(index) is int
        return element


OPERATORS_ON_INDICES = {
    "nothing": lambda ds: ds,
    "shuffle": lambda ds: ds.shuffle(seed=1),
    "window_shuffle": lambda ds: ds.window_shuffle(5, seed=1),
    "slice": lambda ds: ds[1:39:2],
    "reindex": lambda ds: ds.slice([5, 3] * 20),
    "repeat": lambda ds: ds.shuffle(seed=1).repeat(2, reseed_each_epoch=False),
    "batch": lambda ds: ds.batch(3),
    "batch of batches": lambda ds: ds.batch(2).batch(2),
    "flat_map": lambda ds: ds.flat_map(UpToThree()),
    "flat_map with a table": lambda ds: ds.flat_map(lambda x: [x] * (x % 3), fan_out=np.arange(40) % 3),
    "mix": lambda ds: MapDataset.mix([ds, ds], [0.3, 0.7]),
    "concatenate": lambda ds: MapDataset.concatenate([ds, ds]),
    "select_from_datasets": lambda ds: MapDataset.select_from_datasets([ds, ds], Zigzag(40)),
    "zip": lambda ds: MapDataset.zip([ds, ds]),
    "custom": lambda ds: Doubled(ds).shuffle(seed=1),
}


@pytest.mark.parametrize("operator", OPERATORS_ON_INDICES)
def test_users_code_is_given_plain_integers(operator):
    integers = IntegersOnly()
    below = MapDataset.source(integers).map_with_index(integers)
    dataset = OPERATORS_ON_INDICES[operator](below).map_with_index(integers).repeat(2)
    assert len(list(dataset.to_iter_dataset(allow_nones=True))) == len(dataset)
    for index in (0, len(dataset) - 1, len(dataset), 3 * len(dataset) + 1):
        dataset[index]


def test_indices_can_be_asked_for_in_any_order(map_dataset):
    indices = range(2 * len(map_dataset))
    assert at_each(map_dataset, reversed(indices)) == at_each(map_dataset, indices)[::-1]


def test_a_slice_takes_those_elements(map_dataset):
    expected = at_each(map_dataset, range(len(map_dataset)))
    for taken in (slice(1, None, 2), slice(None, None, -1), slice(-2, None)):
        part = map_dataset[taken]
        assert at_each(part, range(len(part))) == expected[taken]


def test_a_pickled_dataset_has_the_same_elements(map_dataset):
    indices = range(2 * len(map_dataset))
    expected = at_each(map_dataset, indices)
    assert at_each(pickle.loads(pickle.dumps(map_dataset)), indices) == expected


# ---------------------------------------------------------------- the table


def operators():
    """All final classes of nodes in grain.ops."""
    for module in pkgutil.iter_modules(grain.ops.__path__, "grain.ops."):
        importlib.import_module(module.name)
    found, waiting = set(), [MapNode, IterNode]
    for kind in waiting:  # grows while it is gone through
        waiting += kind.__subclasses__()
        if not kind.__subclasses__() and kind.__module__.startswith("grain.ops."):
            found.add(kind)
    return found


def nodes_of(node):
    """All nodes of a pipeline, and those of the datasets that it interleaves."""
    for ancestor in ancestors(node):
        yield ancestor
        for dataset in getattr(ancestor, "datasets", ()):
            if dataset is not None:
                yield from nodes_of(node_of(dataset))


def test_every_operator_is_in_the_table():
    stream = Opening(None)
    pipelines = [*(build() for build in MAP_PIPELINES.values()), *(build(stream) for build in ITER_PIPELINES.values())]
    used = {type(node) for pipeline in pipelines for node in nodes_of(node_of(pipeline))}
    assert operators(), "the walk over the classes found nothing"
    assert operators() - used == set()
