"""Pipelines long enough that elements are worked out in many blocks: what is done for whole arrays equals `ds[i]`."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest

from grain import IterDataset, MapDataset
from support.comparison import plain
from support.pipelines import numbers
from support.user_code import Doubled, Shelf, UpToThree, add_noise, is_even, pair_with_index


def noisy_mix():
    parts = [numbers(3000).shuffle(seed=1), numbers(5000, 9000).random_map(add_noise, seed=2), numbers(-900, 0)]
    return MapDataset.mix(parts, weights=[0.5, 0.7, 0.2])


LONG = {
    "shuffle": lambda: numbers(6000).shuffle(seed=1).map_with_index(pair_with_index),
    "epochs": lambda: numbers(700).seed(3).shuffle().random_map(add_noise).repeat(9),
    "epochs without reseeding": lambda: numbers(701).shuffle(seed=3).repeat(8, reseed_each_epoch=False),
    "slice": lambda: numbers(9000).shuffle(seed=4)[8000:100:-2],
    "reindex": lambda: numbers(500).shuffle(seed=5).slice([(i * i) % 1200 for i in range(5500)]),
    "window_shuffle": lambda: numbers(6000).window_shuffle(75, seed=6),
    "gaps": lambda: numbers(6000).shuffle(seed=7).filter(is_even).map_with_index(pair_with_index),
    "flat_map": lambda: numbers(2000).flat_map(UpToThree()),
    "mix": noisy_mix,
    "concatenate": lambda: MapDataset.concatenate([noisy_mix(), numbers(900).shuffle(seed=1), numbers(1)]).repeat(2),
    "zip": lambda: MapDataset.zip([numbers(5200).shuffle(seed=1), MapDataset.source(np.arange(5200)).shuffle(seed=2)]),
    "batch": lambda: numbers(20000).shuffle(seed=9).batch(3),
    "batch of records": lambda: MapDataset.source(Shelf(900)).shuffle(seed=9).repeat(3).batch(2, drop_remainder=True),
    "batch of a mix": lambda: noisy_mix().batch(4).shuffle(seed=2),
    "custom": lambda: Doubled(noisy_mix()).shuffle(seed=3),
}
# Next to every size that a block may have, whether counted from the start or after smaller blocks.
POSITIONS = sorted({base + offset for base in (1, 16, 33, 145, 1024, 1057, 4096, 5153) for offset in (-1, 0, 1)})


@pytest.fixture(params=LONG)
def dataset(request):
    return LONG[request.param]()


def elements_of(iterator, count=None):
    return [plain(element) for element in itertools.islice(iterator, count)]


def started_at(dataset, position):
    iterator = iter(dataset.to_iter_dataset(allow_nones=True))
    iterator.set_state({"next_index": position})
    return iterator


def test_iteration_equals_indexing(dataset):
    expected = [plain(dataset[index]) for index in range(len(dataset))]
    assert elements_of(started_at(dataset, 0)) == expected
    for position in POSITIONS:
        assert elements_of(started_at(dataset, min(position, len(dataset))), 60) == expected[position:][:60]


def test_one_iterator_goes_to_and_fro(dataset):
    iterator = started_at(dataset, 0)
    for position in [*POSITIONS[::5], *POSITIONS[::-3]]:
        if position < len(dataset):
            iterator.set_state({"next_index": position})
            assert elements_of(iterator, 2) == [plain(dataset[index]) for index in range(position, len(dataset))[:2]]


@pytest.mark.parametrize("start", [10**6, 2**31 - 9, 2**40, 2**53 - 3, 2**62, sys.maxsize - 40])
@pytest.mark.parametrize(
    "name", ["shuffle", "slice", "reindex", "window_shuffle", "gaps", "flat_map", "mix", "zip", "batch"]
)
def test_epochs_far_away(name, start):
    dataset = LONG[name]()
    indices = range(start, start + 40)
    assert elements_of(started_at(dataset.repeat(), start), 40) == [plain(dataset[index]) for index in indices]


def test_all_epochs_shuffled_together(dataset):
    """An endless dataset is shuffled over its whole length, so indices of any size are met."""
    shuffled = dataset.repeat().shuffle(seed=5)
    assert elements_of(started_at(shuffled, 0), 30) == [plain(shuffled[index]) for index in range(30)]


def test_all_epochs_of_a_mix_shuffled_together():
    mixed = MapDataset.mix([numbers(10), numbers(100, 120)], weights=[0.3, 0.7]).repeat().shuffle(seed=5)
    assert list(itertools.islice(iter(mixed), 10)) == [107, 9, 106, 111, 102, 4, 100, 8, 2, 106]


@pytest.mark.parametrize("weights", [None, [1, 2, 3], [0.3, 0.7, 0.123], [0.9, 0.05, 0.05], [1, 1.07, 1.45]])
def test_streams_are_mixed_like_random_access(weights):
    parts = [numbers(start, start + 6000) for start in (0, 10000, 20000)]
    mixed = MapDataset.mix(parts, weights)
    streamed = IterDataset.mix([part.to_iter_dataset() for part in parts], weights)
    assert list(itertools.islice(streamed, len(mixed))) == list(mixed)


def test_a_long_stream_resumes_at_any_distance():
    def build():
        mixed = IterDataset.mix(
            [noisy_mix().to_iter_dataset(), numbers(4000).shuffle(seed=2).to_iter_dataset()], [2, 1]
        )
        return mixed.filter(is_even).window_shuffle(64, seed=1).batch(3).rebatch(4)

    iterator = iter(build())
    states, elements = [iterator.get_state()], []
    for element in iterator:
        elements.append(plain(element))
        states.append(iterator.get_state())
    assert len(elements) > 500
    for position in [*range(0, len(elements), 97), len(elements)]:
        resumed = iter(build())
        resumed.set_state(states[position])
        assert elements_of(resumed, 9) == elements[position:][:9]
