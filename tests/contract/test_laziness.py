"""Inline, nothing runs ahead: users' functions are called for elements that were asked for, or for their batch."""

from __future__ import annotations

import numpy as np
import pytest

from grain import IterDataset, MapDataset
from support.comparison import plain
from support.pipelines import READ_OPTIONS, numbers


class Watched:
    """A function, and a source, that remember what they were asked for."""

    def __init__(self):
        self.calls = []

    def __call__(self, *arguments):
        self.calls.append(arguments)
        return arguments[-1]

    def keep_even(self, x):
        return self(x) % 2 == 0

    def twice(self, x):
        return [self(x)] * 2

    def with_rng(self, x, rng):
        return self(x)

    def __len__(self):
        return 12

    def __getitem__(self, index):
        return self(index)


class WatchedTogether(Watched):
    def __init__(self):
        super().__init__()
        self.reads = []

    def __getitems__(self, indices):
        self.reads.append(len(indices))
        return [self(index) for index in indices]


def inline(dataset):
    return dataset.to_iter_dataset(READ_OPTIONS["inline"])


def groups(size, count):
    """`count` rounded up to whole groups."""
    return -(-count // size) * size


# For each pipeline, how often the function has been called when k elements were asked for.
CALLS = {
    "source": (lambda f: inline(MapDataset.source(f)), lambda k: k),
    "map": (lambda f: inline(numbers(40).map(f)), lambda k: k),
    "map below others": (lambda f: inline(numbers(20).map(f).shuffle(seed=1)[::2].repeat(2)), lambda k: k),
    "map_with_index": (lambda f: inline(numbers(20).map_with_index(f)), lambda k: k),
    "random_map": (lambda f: inline(numbers(20).random_map(f.with_rng, seed=1)), lambda k: k),
    "filter": (lambda f: inline(numbers(20).filter(f.keep_even)), lambda k: 2 * k - 1),
    "batch, each of its elements": (
        lambda f: inline(numbers(20).map(f).batch(3, drop_remainder=True)),
        lambda k: 3 * k,
    ),
    "batch of batches": (lambda f: inline(numbers(40).map(f).batch(2).batch(3, drop_remainder=True)), lambda k: 6 * k),
    "batch, mapped": (lambda f: inline(numbers(20).batch(3).map(f)), lambda k: k),
    "mix": (lambda f: inline(MapDataset.mix([numbers(30).map(f), numbers(30).map(f)])), lambda k: k),
    "concatenate": (lambda f: inline(MapDataset.concatenate([numbers(3).map(f), numbers(30).map(f)])), lambda k: k),
    "zip": (lambda f: inline(MapDataset.zip([numbers(20).map(f), numbers(20).map(f)])), lambda k: 2 * k),
    "stream": (lambda f: inline(numbers(20)).map(f).map_with_index(f).random_map(f.with_rng, seed=1), lambda k: 3 * k),
    "stream, filtered": (lambda f: inline(numbers(20)).filter(f.keep_even), lambda k: 2 * k - 1),
    "stream, flattened": (lambda f: inline(numbers(20)).flat_map(f.twice), lambda k: groups(2, k) // 2),
    "stream, batched": (lambda f: inline(numbers(20).map(f)).map(f).batch(3), lambda k: 6 * k),
    "stream, rebatched": (lambda f: inline(numbers(20).map(f)).batch(4).rebatch(3), lambda k: groups(4, 3 * k)),
    "stream, shuffled in windows": (
        lambda f: inline(numbers(20)).map(f).window_shuffle(4, seed=1),
        lambda k: groups(4, k),
    ),
    "stream, limited": (lambda f: inline(numbers(20)).map(f).limit(3), lambda k: k),
    "stream, cached and repeated": (lambda f: inline(numbers(2)).map(f).cache().repeat(3), lambda k: min(k, 2)),
    "streams, mixed": (lambda f: IterDataset.mix([inline(numbers(20)).map(f)] * 2), lambda k: k),
    "streams, zipped": (lambda f: IterDataset.zip([inline(numbers(20)).map(f)] * 2), lambda k: 2 * k),
    "streams, interleaved": (
        lambda f: IterDataset.interleave([inline(numbers(20)).map(f)] * 3, cycle_length=2),
        lambda k: k,
    ),
}


@pytest.mark.parametrize("row", CALLS)
def test_functions_run_only_for_what_was_asked_for(row):
    build, expected = CALLS[row]
    watched = Watched()
    dataset = build(watched)
    iterator = iter(dataset)
    state = iterator.get_state()
    assert watched.calls == []
    for asked in range(1, 4):
        next(iterator)
        assert len(watched.calls) == expected(asked)
        state = iterator.get_state()
        assert len(watched.calls) == expected(asked)
    iter(dataset).set_state(state)
    assert len(watched.calls) == expected(3)


@pytest.mark.parametrize("kind", [Watched, WatchedTogether])
@pytest.mark.parametrize("side", ["random access", "stream"])
def test_a_batch_reads_only_its_own_records(kind, side):
    watched = kind()
    dataset = MapDataset.source(watched).shuffle(seed=1)
    iterator = iter(inline(dataset.batch(3)) if side == "random access" else inline(dataset).batch(3))
    for asked in range(1, 5):
        next(iterator)
        assert len(watched.calls) == 3 * asked
        if kind is WatchedTogether:
            assert watched.reads == [3] * asked


def test_one_index_runs_functions_for_that_index_alone():
    watched = Watched()
    dataset = MapDataset.mix([numbers(9).map(watched), numbers(9)]).map(watched).batch(2)
    assert plain(dataset[3]) == plain(np.array([3, 3]))
    assert watched.calls == [(3,), (3,), (3,)]
