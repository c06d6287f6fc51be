"""An element that fails in one of several datasets ends nothing: the others go on, and so does that one."""

from __future__ import annotations

from itertools import product

import pytest

from grain import IterDataset, MapDataset, MultiprocessingOptions
from support.outcomes import ERROR, BrokenError, assert_any_state_has_the_same_rest, steps

FAILING = {0, 3, 5, 13, 20, 21, 22}


def broken(element):
    if element in FAILING:
        raise BrokenError
    return element


def by_index(start, count):
    return MapDataset.range(start, start + count).map(broken)


def stream(start, count):
    return MapDataset.range(start, start + count).to_iter_dataset().map(broken)


INDEXED = {
    **{
        f"mix, stop={stop}": lambda stop=stop: MapDataset.mix([by_index(0, 6), by_index(10, 9)], stop=stop)
        for stop in ("first", "longest", "renormalize")
    },
    "mix of mixes": lambda: MapDataset.mix([MapDataset.mix([by_index(0, 6), by_index(10, 9)]), by_index(20, 4)]),
    "concatenate": lambda: MapDataset.concatenate([by_index(0, 6), by_index(20, 3), by_index(10, 9)]),
    "zip": lambda: MapDataset.zip([by_index(0, 6), by_index(10, 6)]),
    "zip of a mixture, batched": lambda: MapDataset.zip(
        [MapDataset.mix([by_index(0, 6), by_index(10, 6)]), by_index(20, 12)]
    ).batch(2),
}

COMPONENTS = {
    "plain": lambda: [stream(0, 6), stream(10, 9)],
    "read by index": lambda: [by_index(0, 6).to_iter_dataset(), by_index(10, 9).to_iter_dataset()],
    "batches": lambda: [stream(0, 6).batch(2, batch_fn=list), stream(10, 9).batch(2, batch_fn=list)],
    "what reads again": lambda: [stream(0, 6).window_shuffle(3, seed=1), stream(10, 9).cache()],
    "threads": lambda: [stream(0, 6).thread_prefetch(2), stream(10, 9).batch(2, batch_fn=list).thread_prefetch(1)],
    "nothing but failures": lambda: [stream(20, 3), stream(10, 9)],
}

STREAMED = {
    **{
        f"mix of {name}, stop={stop}, {with_counts=}": lambda name=name, stop=stop, with_counts=with_counts: (
            IterDataset.mix(COMPONENTS[name](), stop=stop, with_counts=with_counts)
        )
        for name, stop, with_counts in product(COMPONENTS, ("first", "longest", "renormalize"), (False, True))
    },
    "mix of a mapping": lambda: IterDataset.mix(dict(zip("ba", COMPONENTS["plain"](), strict=True))),
    "mix of mixes": lambda: IterDataset.mix([IterDataset.mix(COMPONENTS["batches"]()), stream(20, 4)]),
    "mix of a zip": lambda: IterDataset.mix(
        [IterDataset.zip(COMPONENTS["batches"](), strict=False), IterDataset.zip([stream(0, 6), stream(10, 6)])]
    ),
    **{
        f"interleave of {name}, {cycle_length=}": lambda name=name, cycle_length=cycle_length: IterDataset.interleave(
            [*COMPONENTS[name](), stream(20, 4)], cycle_length=cycle_length
        )
        for name, cycle_length in product(COMPONENTS, (1, 2, 3))
    },
    "interleave of mixes": lambda: IterDataset.interleave(
        [IterDataset.mix(COMPONENTS[name]()) for name in ("plain", "batches")], cycle_length=2
    ),
    **{f"zip of {name}": lambda name=name: IterDataset.zip(COMPONENTS[name](), strict=False) for name in COMPONENTS},
}

ALL = {**{f"map: {name}": lambda build=build: build().to_iter_dataset() for name, build in INDEXED.items()}, **STREAMED}


@pytest.mark.parametrize("name", ALL)
def test_any_state_is_followed_by_the_same_rest(name):
    dataset = ALL[name]()
    assert ERROR in steps(iter(dataset))[:-1]
    assert_any_state_has_the_same_rest(dataset)


@pytest.mark.parametrize("name", ["mix of mixes", "mix of a mapping", "interleave of mixes", "zip of batches"])
def test_in_a_worker(name):
    dataset = ALL[name]()
    whole = steps(iter(dataset))
    assert steps(iter(dataset.mp_prefetch(MultiprocessingOptions(num_workers=1)))) == whole
