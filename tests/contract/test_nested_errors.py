"""A state saved after an error gives the same rest, whatever operators are upon each other: all pairs, some triples."""

from __future__ import annotations

import json
import random
from itertools import product

import numpy as np
import pytest

from grain import IterDataset, MapDataset
from support.outcomes import BrokenError, step, steps


def numbers_in(element):
    if isinstance(element, dict):
        return [number for key in sorted(element) if key in "tu" for number in numbers_in(element[key])]
    if isinstance(element, list | tuple | np.ndarray):
        return [number for part in element for number in numbers_in(part)]
    return [int(element)]


def document(element):
    return {"t": np.array(numbers_in(element)[:5], np.int64)}


def richer_document(element):
    return {**document(element), "u": np.array(numbers_in(element)[:2], np.int64)}


def array(element):
    return np.array(numbers_in(element) or [0])


def pieces(element):
    numbers = numbers_in(element)
    return [numbers[start : start + 2] for start in range(0, len(numbers), 2)] + [numbers[:1]] * (sum(numbers) % 2)


def cost(element):
    return 1 + sum(numbers_in(element)) % 4


def others(count):
    return MapDataset.range(100, 100 + count).to_iter_dataset()


OPERATORS = {
    "batch": lambda ds: ds.batch(2, batch_fn=list),
    "window_shuffle": lambda ds: ds.window_shuffle(3, seed=1),
    "cache": lambda ds: ds.cache(),
    "cache, repeated": lambda ds: ds.cache().repeat(2),
    "pack_first_fit": lambda ds: ds.map(document).pack_first_fit(length_struct={"t": 6}, num_packing_bins=2),
    "pack_best_fit": lambda ds: ds.map(richer_document).pack_best_fit(
        length_struct={"t": 6, "u": 4}, num_packing_bins=3, seed=2
    ),
    "concat_and_split": lambda ds: ds.map(document).concat_and_split(length_struct={"t": 3}),
    "concat_and_split of more": lambda ds: ds.map(richer_document).concat_and_split(
        length_struct={"t": 4, "u": 3}, split_full_length_features=False
    ),
    "batch_by_cost": lambda ds: ds.batch_by_cost(6, cost, batch_fn=list),
    "bucket_by_length": lambda ds: ds.map(array).bucket_by_length([1, 3], [2, 2, 2], max_wait=4),
    "flat_map": lambda ds: ds.flat_map(pieces),
    "unbatch": lambda ds: ds.map(array).unbatch(),
    "rebatch": lambda ds: ds.map(array).rebatch(2),
    "zip": lambda ds: IterDataset.zip([ds, others(40)], strict=False),
    "zip behind another": lambda ds: IterDataset.zip([others(40).window_shuffle(3, seed=2), ds], strict=False),
    "thread_prefetch": lambda ds: ds.thread_prefetch(2),
    "filter": lambda ds: ds.filter(lambda element: sum(numbers_in(element)) % 3),
    "mix": lambda ds: IterDataset.mix([ds, others(3)], stop="renormalize"),
    "interleave": lambda ds: IterDataset.interleave([ds, others(2)], cycle_length=2),
    "limit": lambda ds: ds.limit(7),
    "repeat": lambda ds: ds.repeat(2),
}


def broken(element):
    if element in (1, 4, 5):
        raise BrokenError
    return element


def broken_between(element):
    numbers = numbers_in(element)
    if (7 * sum(numbers) + len(numbers)) % 5 == 0:
        raise BrokenError
    return element


def check(names, fails_between):
    dataset = MapDataset.range(9).to_iter_dataset().map(broken)
    for name in names:
        dataset = OPERATORS[name](dataset.map(broken_between) if fails_between else dataset)
    whole, iterator = steps(iter(dataset)), iter(dataset)
    for position in range(len(whole) + 1):
        resumed = iter(dataset)
        resumed.set_state(json.loads(json.dumps(iterator.get_state())))
        assert steps(resumed) == whole[position:], (names, fails_between, position)
        step(iterator)


@pytest.mark.parametrize("first", OPERATORS)
def test_pairs(first):
    for second, fails_between in product(OPERATORS, (False, True)):
        check([first, second], fails_between)


KEPT = [(kept, name, "repeat") for kept in ("cache", "cache, repeated") for name in OPERATORS]
"""A cache below a repeat keeps its elements; so it does after a restore."""


@pytest.mark.parametrize("names", KEPT + random.Random(0).sample([*product(OPERATORS, repeat=3)], 60), ids=" ".join)
def test_triples(names):
    check(names, fails_between=False)
    check(names, fails_between=True)
