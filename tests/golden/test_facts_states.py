"""The states of all stream operators as Grain 0.2.18 writes them: after each element, at the end, and restored."""

import json

import pytest

from grain import IterDataset, MapDataset, transforms
from grain.experimental import DatasetOptions, get_next_index, set_next_index


def is_odd(x):
    return x % 2 == 1


def draw(x, rng):
    return int(rng.integers(9))


class Fan(transforms.FlatMap):
    """0, 1, 2, 0, 1, 2, … copies."""

    max_fan_out = 3

    def flat_map(self, element):
        return [element] * (element % 3)


def stream(length):
    return MapDataset.range(length).to_iter_dataset()


def at(index):
    return {"next_index": index}


def read(index, **fields):
    return {"parent": at(index), **fields}


def window(start, number, position):
    return {"parent_window_start_state": at(start), "window_index": number, "pos_in_window": position}


def interleaved(turn, opened, indices, positions, exhausted):
    return {
        "next_index_in_cycle": turn,
        "next_index_in_datasets": opened,
        "iterators_in_use_indices": indices,
        "iterators_in_use_states": [at(position) for position in positions],
        "exhausted": exhausted,
        "future_states": {},
    }


def mixed(first, second, index, stop=False, names=None):
    parents = [at(first), at(second)]
    return {"parents": dict(zip(names, parents, strict=True)) if names else parents, "index": index, "stop": stop}


NESTED = stream(10).random_map(draw, seed=0).batch(2).window_shuffle(2, seed=0).limit(4)


def nested(start, number, position, count):
    parent = window(0, number, position) | {"parent_window_start_state": read(start, index_for_rng=start)}
    return {"parent": parent, "count_elements_read": count}


# name -> (dataset, [state before the first element, after the first, …, after the last, after the end])
STATES = {
    "to_iter_dataset": (stream(3), [at(0), at(1), at(2), at(3), at(3)]),
    "gaps": (MapDataset.range(6).filter(is_odd).to_iter_dataset(), [at(0), at(2), at(4), at(6), at(6)]),
    "allowed gaps": (
        MapDataset.range(3).filter(is_odd).to_iter_dataset(allow_nones=True),
        [at(0), at(1), at(2), at(3), at(3)],
    ),
    "map": (stream(2).map(abs), [at(0), at(1), at(2), at(2)]),
    "filter": (stream(6).filter(lambda x: x % 3 == 1), [at(0), at(2), at(5), at(6)]),
    "batch": (stream(5).batch(2), [at(0), at(2), at(4), at(5), at(5)]),
    "batch, rest dropped": (stream(5).batch(2, drop_remainder=True), [at(0), at(2), at(4), at(5)]),
    "seed": (stream(2).seed(1), [at(0), at(1), at(2), at(2)]),
    "options": (stream(2).with_options(DatasetOptions(min_shm_size=1)), [at(0), at(1), at(2), at(2)]),
    "thread_prefetch": (stream(2).thread_prefetch(2), [at(0), at(1), at(2), at(2)]),
    "random_map": (
        stream(2).random_map(draw, seed=0),
        [read(n, index_for_rng=n) for n in (0, 1, 2, 2)],
    ),
    "map_with_index": (
        stream(2).map_with_index(lambda i, x: x),
        [read(n, counter=n) for n in (0, 1, 2, 2)],
    ),
    "map_with_index after gaps": (
        MapDataset.range(5).filter(is_odd).to_iter_dataset().map_with_index(lambda i, x: x),
        [read(0, counter=0), read(2, counter=1), read(4, counter=2), read(5, counter=2)],
    ),
    "limit": (stream(5).limit(2), [read(n, count_elements_read=n) for n in (0, 1, 2, 2)]),
    "limit not reached": (stream(2).limit(5), [read(n, count_elements_read=n) for n in (0, 1, 2, 2)]),
    "repeat": (
        stream(3).repeat(2),
        [*(read(n, epoch=0) for n in (0, 1, 2, 3)), *(read(n, epoch=1) for n in (1, 2, 3)), read(3, epoch=2)],
    ),
    "zip": (
        IterDataset.zip([stream(2), stream(2)]),
        [{"parents": [at(n), at(n)]} for n in (0, 1, 2, 2)],
    ),
    "zip, not strict": (
        IterDataset.zip([stream(3), stream(2)], strict=False),
        [*({"parents": [at(n), at(n)]} for n in (0, 1, 2)), {"parents": [at(3), at(2)]}],
    ),
    "mix": (
        IterDataset.mix([stream(2), stream(3)]),
        [mixed(0, 0, 0), mixed(1, 0, 1), mixed(1, 1, 2), mixed(2, 1, 3), mixed(2, 2, 4), mixed(2, 2, 5, True)],
    ),
    "mix of a mapping": (
        IterDataset.mix({"b": stream(3), "a": stream(1)}),
        [
            mixed(0, 0, 0, names="ab"),
            mixed(1, 0, 1, names="ab"),
            mixed(1, 1, 2, names="ab"),
            mixed(1, 1, 3, True, names="ab"),
        ],
    ),
    "flat_map": (
        stream(6).flat_map(Fan()),
        [
            read(index, next_index_in_buffer=place)
            for index, place in [(0, 0), (1, 1), (2, 1), (2, 2), (4, 1), (5, 1), (5, 2), (6, 2)]
        ],
    ),
    "rebatch": (
        stream(10).batch(4).rebatch(3),
        [read(index, batch_idx=row) for index, row in [(0, 0), (0, 3), (4, 2), (8, 1), (10, 2), (10, 2)]],
    ),
    "window_shuffle": (
        stream(10).window_shuffle(4, seed=1),
        [
            *(window(0, 0, 0), window(0, 0, 1), window(0, 0, 2), window(0, 0, 3), window(0, 1, 4)),
            *(window(4, 1, 1), window(4, 1, 2), window(4, 1, 3), window(4, 2, 4)),
            *(window(8, 2, 1), window(8, 3, 2), window(8, 3, 2)),
        ],
    ),
    "cache": (
        stream(3).cache(),
        [*(read(n, position=n, cache_filled=False) for n in range(4)), read(3, position=3, cache_filled=True)],
    ),
    "repeat of a cache": (
        stream(2).cache().repeat(2),
        [
            *({"parent": read(n, position=n, cache_filled=False), "epoch": 0} for n in range(3)),
            *({"parent": read(0, position=n, cache_filled=True), "epoch": 1} for n in (1, 2)),
            {"parent": read(0, position=2, cache_filled=True), "epoch": 2},
        ],
    ),
    "interleave": (
        IterDataset.interleave([MapDataset.source([n] * n) for n in range(1, 6)], cycle_length=2),
        [
            interleaved(0, 2, [0, 1], [0, 0], [0, 0]),
            interleaved(1, 2, [0, 1], [1, 0], [0, 0]),
            interleaved(0, 2, [0, 1], [1, 1], [0, 0]),
            interleaved(0, 2, [0, 1], [1, 2], [1, 0]),
            interleaved(1, 3, [2, 1], [1, 2], [0, 0]),
            interleaved(1, 3, [2, 1], [2, 2], [0, 1]),
            interleaved(0, 4, [2, 3], [2, 1], [0, 0]),
            interleaved(1, 4, [2, 3], [3, 1], [0, 0]),
            interleaved(0, 4, [2, 3], [3, 2], [0, 0]),
            interleaved(0, 4, [2, 3], [3, 3], [1, 0]),
            interleaved(1, 5, [4, 3], [1, 3], [0, 0]),
            interleaved(0, 5, [4, 3], [1, 4], [0, 0]),
            interleaved(1, 5, [4, 3], [2, 4], [0, 0]),
            interleaved(1, 5, [4, 3], [3, 4], [0, 1]),
            interleaved(1, 5, [4, 3], [4, 4], [0, 1]),
            interleaved(1, 5, [4, 3], [5, 4], [0, 1]),
            interleaved(1, 5, [4, 3], [5, 4], [1, 1]),
        ],
    ),
    "nested": (
        NESTED,
        [
            nested(0, 0, 0, 0),
            nested(0, 0, 1, 1),
            nested(0, 1, 2, 2),
            nested(4, 1, 1, 3),
            nested(4, 2, 2, 4),
            nested(4, 2, 2, 4),
        ],
    ),
}


def text(state):
    return json.dumps(state)  # the order of the keys counts too


@pytest.mark.parametrize(("dataset", "states"), STATES.values(), ids=STATES)
def test_state_after_each_element(dataset, states):
    iterator = iter(dataset)
    found = [iterator.get_state()]
    for _ in iterator:
        found.append(iterator.get_state())
    found.append(iterator.get_state())
    assert list(map(text, found)) == list(map(text, states))
    assert next(iterator, "ended") == "ended"
    assert text(iterator.get_state()) == text(states[-1])


@pytest.mark.parametrize(("dataset", "states"), STATES.values(), ids=STATES)
def test_recorded_state_restored_on_a_fresh_iterator(dataset, states):
    elements = list(map(str, dataset))
    for position, state in enumerate(states):
        iterator = iter(dataset)
        iterator.set_state(json.loads(text(state)))
        assert list(map(str, iterator)) == elements[position:], position


@pytest.mark.parametrize(("dataset", "states"), STATES.values(), ids=STATES)
def test_recorded_state_restored_on_a_used_iterator(dataset, states):
    elements = list(map(str, dataset))
    for used in range(len(elements) + 1):
        for position, state in enumerate(states):
            iterator = iter(dataset)
            for _ in range(used):
                next(iterator)
            iterator.set_state(state)
            assert list(map(str, iterator)) == elements[position:], (used, position)


@pytest.mark.parametrize(("dataset", "states"), STATES.values(), ids=STATES)
def test_restored_state_is_given_back(dataset, states):
    for state in states[:-1]:
        iterator = iter(dataset)
        iterator.set_state(state)
        assert text(iterator.get_state()) == text(state)


@pytest.mark.parametrize(("dataset", "states"), STATES.values(), ids=STATES)
def test_states_are_snapshots(dataset, states):
    """Neither the iterator changes a state that it gave or was given, nor does changing one change the iterator."""

    def spoil(value):
        for item in list(value.values()) if isinstance(value, dict) else value:
            if isinstance(item, dict | list):
                spoil(item)
        value.clear()

    elements = list(map(str, dataset))
    for position, state in enumerate(states):
        iterator = iter(dataset)
        given = json.loads(text(state))
        iterator.set_state(given)
        assert text(given) == text(state)
        spoil(given)
        spoil(iterator.get_state())
        saved = iterator.get_state()
        before = text(saved)
        assert list(map(str, iterator)) == elements[position:]
        assert text(saved) == before
        end = text(iterator.get_state())
        spoil(iterator.get_state())
        assert text(iterator.get_state()) == end


def test_interleave_accepts_states_without_future_states():
    dataset, states = STATES["interleave"]
    iterator = iter(dataset)
    iterator.set_state({key: value for key, value in states[4].items() if key != "future_states"})
    assert list(iterator) == list(dataset)[4:]


@pytest.mark.parametrize("key", [3, "3"])
def test_interleave_applies_future_states(key):
    """Also when JSON has made strings of their keys."""
    dataset, states = STATES["interleave"]
    iterator = iter(dataset)
    iterator.set_state(states[0] | {"future_states": {key: at(2)}})
    assert list(iterator) == [1, 2, 2, 3, 3, 4, 3, 4, 5, 5, 5, 5, 5]


NEXT_INDEX = {
    "to_iter_dataset": stream(7),
    "map": stream(7).map(abs),
    "random_map": stream(7).random_map(draw, seed=0),
    "map_with_index": stream(7).map_with_index(lambda i, x: (i, x)),
    "limit": stream(7).limit(5),
    "batch": stream(7).batch(2),
    "seed": stream(7).seed(1),
    "thread_prefetch": stream(7).thread_prefetch(2),
    "interleave of one": IterDataset.interleave([stream(7)], cycle_length=3),
    "Map batch": MapDataset.range(7).batch(2).to_iter_dataset(),
}


@pytest.mark.parametrize("dataset", NEXT_INDEX.values(), ids=NEXT_INDEX)
def test_next_index_is_the_number_of_elements_so_far(dataset):
    elements = list(map(str, dataset))
    iterator = iter(dataset)
    for index, element in enumerate(elements):
        assert get_next_index(iterator) == index
        assert str(next(iterator)) == element
    assert get_next_index(iterator) == len(elements)


@pytest.mark.parametrize("dataset", NEXT_INDEX.values(), ids=NEXT_INDEX)
def test_setting_the_next_index_sets_the_state(dataset):
    elements = list(map(str, dataset))
    walking = iter(dataset)
    for index in range(len(elements)):
        iterator = iter(dataset)
        next(iterator)
        set_next_index(iterator, index)
        assert get_next_index(iterator) == index
        assert text(iterator.get_state()) == text(walking.get_state())
        assert list(map(str, iterator)) == elements[index:]
        next(walking)
