"""An exception costs the element that has failed, and nothing else; a state saved then resumes to the same rest."""

from __future__ import annotations

import numpy as np
import pytest

from grain import IterDataset, MapDataset, MultiprocessingOptions
from support.comparison import plain
from support.outcomes import ERROR, BrokenError, assert_any_state_has_the_same_rest, step, steps

COUNT = 24
FAILING = {0, 5, 6, 13, 23}


def broken(element):
    if element in FAILING:
        raise BrokenError(element)
    return element


def as_document(element):
    return {"tokens": np.arange(1, 2 + element % 5), "id": np.array([element])}


PACKING = {"length_struct": {"tokens": 8, "id": 8}, "num_packing_bins": 3, "shuffle_bins": False}

COLLECTING = {
    "batch": lambda ds: ds.batch(4),
    "batch without the rest": lambda ds: ds.batch(4, drop_remainder=True),
    "batch of batches": lambda ds: ds.batch(2, drop_remainder=True).batch(2),
    "padded_batch": lambda ds: ds.map(as_document).padded_batch(3),
    "rebatch": lambda ds: ds.batch(1).rebatch(3),
    "window_shuffle": lambda ds: ds.window_shuffle(4, seed=1),
    "window_shuffle, batched": lambda ds: ds.window_shuffle(5, seed=2).batch(3),
    "batch_by_cost": lambda ds: ds.batch_by_cost(20, cost_fn=lambda x: 1 + x % 7),
    "bucket_by_length": lambda ds: ds.map(as_document).bucket_by_length(
        [2, 5], [3, 2], length_fn=lambda x: len(x["tokens"]), max_wait=100
    ),
    "pack_first_fit": lambda ds: ds.map(as_document).pack_first_fit(**PACKING),
    "pack_best_fit": lambda ds: ds.map(as_document).pack_best_fit(**PACKING),
    "concat_and_split": lambda ds: ds.map(as_document).concat_and_split(length_struct={"tokens": 7, "id": 7}),
    "concat_and_split of one feature": lambda ds: ds.map(lambda x: {"tokens": np.full(1 + x % 5, x)}).concat_and_split(
        length_struct={"tokens": 7}
    ),
    "flat_map": lambda ds: ds.flat_map(lambda x: [x, -x]),
    "flat_map, batched": lambda ds: ds.flat_map(lambda x: [x] * (x % 3)).batch(4),
    "filter": lambda ds: ds.filter(lambda x: x % 2).batch(2),
    "limit": lambda ds: ds.limit(9).batch(2),
    "repeat": lambda ds: ds.repeat(2).batch(4),
    "cache": lambda ds: ds.cache().batch(4),
    "cache, repeated": lambda ds: ds.cache().repeat(2).batch(5),
    "thread_prefetch": lambda ds: ds.batch(4).thread_prefetch(2),
    "mix of batches": lambda ds: IterDataset.mix(
        [ds.window_shuffle(3, seed=1).batch(4), MapDataset.range(9).to_iter_dataset().batch(4)]
    ).rebatch(3),
    "deep": lambda ds: ds.window_shuffle(3, seed=1).flat_map(lambda x: [x, x]).batch(3).rebatch(4),
}


ENDING_EARLY = {"limit": 3, "mix of batches": 4}
"""How many of the elements that fail these meet."""


def stream(is_broken):
    kept = MapDataset.range(COUNT) if is_broken else MapDataset.source([x for x in range(COUNT) if x not in FAILING])
    return kept.to_iter_dataset()


@pytest.mark.parametrize("name", COLLECTING)
def test_everything_but_what_fails_comes_as_if_that_had_not_been_there(name):
    build = COLLECTING[name]
    expected = [plain(element) for element in build(stream(is_broken=False))]
    found = steps(iter(build(stream(is_broken=True).map(broken))))
    assert [element for element in found if element != ERROR] == expected
    assert found.count(ERROR) >= ENDING_EARLY.get(name, len(FAILING))


@pytest.mark.parametrize("name", COLLECTING)
def test_any_state_is_followed_by_the_same_rest(name):
    assert_any_state_has_the_same_rest(COLLECTING[name](stream(is_broken=True).map(broken)))


@pytest.mark.parametrize("name", COLLECTING)
def test_errors_in_workers_are_as_here(name):
    build = COLLECTING[name]
    dataset = build(stream(is_broken=True).map(broken)).mp_prefetch(MultiprocessingOptions(num_workers=1))
    whole = steps(iter(build(stream(is_broken=True).map(broken))))
    iterator = iter(dataset)
    states = [iterator.get_state()]
    for element in whole:
        assert step(iterator) == element
        states.append(iterator.get_state())
    resumed = iter(dataset)
    for position in range(0, len(states), 1 + len(states) // 5):
        resumed.set_state(states[position])
        assert steps(resumed) == whole[position:], position


def failing_batch(values):
    if 5 in values:
        raise BrokenError
    return values


def late(element):
    broken(element - 5)
    return element


ZIPS = {
    "the element of a parent": (
        lambda s: IterDataset.zip([s().map(broken), s()]),
        [(x, x) for x in range(COUNT) if x not in FAILING],
    ),
    "elements of both": (
        lambda s: IterDataset.zip([s().map(broken), s().map(broken)]),
        [(x, x) for x in range(COUNT) if x not in FAILING],
    ),
    "a batch of a parent": (
        lambda s: IterDataset.zip([s().batch(4, batch_fn=failing_batch), s().batch(4, batch_fn=list)]),
        [([*range(x, x + 4)],) * 2 for x in range(0, COUNT, 4) if x != 4],
    ),
    "a part of a batch of a parent": (
        lambda s: IterDataset.zip([s().map(late).batch(4, batch_fn=list), s().batch(4, batch_fn=list)], strict=False),
        None,
    ),
}


@pytest.mark.parametrize("name", ZIPS)
def test_what_belongs_together_stays_together(name):
    build, expected = ZIPS[name]
    dataset = build(lambda: MapDataset.range(COUNT).to_iter_dataset())
    whole = steps(iter(dataset))
    found = [element for element in whole if element != ERROR]
    if expected is None:  # the batches of the other parent come one after the other, and none is left out
        assert [second for _, second in found] == [[*range(x, x + 4)] for x in range(0, 4 * len(found), 4)]
    else:
        assert found == expected
    iterator = iter(dataset)
    for position in range(len(whole) + 1):
        resumed = iter(dataset)
        resumed.set_state(iterator.get_state())
        assert steps(resumed) == whole[position:], position
        step(iterator)
