"""DataLoader: which records a sampler and shards give it."""

import itertools

import numpy as np
import pytest

import grain
from grain import Batch, DataLoader, IndexSampler, NoSharding, RecordMetadata, SequentialSampler, ShardOptions


class Draw(grain.RandomMapTransform):
    def random_map(self, element, rng):
        return element, int(rng.integers(1000))


class WithIndex(grain.MapWithIndexTransform):
    def map_with_index(self, index, element):
        return index, element


def loader(sampler, records=10, **kwargs):
    return DataLoader(data_source=range(records), sampler=sampler, **kwargs)


@pytest.mark.parametrize(
    ("shard_count", "epochs", "worker_count"),
    [*itertools.product([1, 2, 3, 12], [1, 3], [0]), (3, 3, 1), (3, 3, 2), (2, 3, 3), (12, 1, 2)],
)
@pytest.mark.parametrize("level", ["sampler", "loader"])
def test_shards_are_disjoint_and_together_complete(shard_count, epochs, worker_count, level):
    found = []
    for index in range(shard_count):
        shard = ShardOptions(index, shard_count)
        divides = {"shard_options": shard} if level == "loader" else {}
        sampler = IndexSampler(10, NoSharding() if divides else shard, shuffle=True, num_epochs=epochs, seed=1)
        some = list(loader(sampler, worker_count=worker_count, **divides))
        found += some
        if level == "sampler":
            assert {some.count(record) for record in some} <= {epochs}
    assert sorted(found) == sorted(list(range(10)) * epochs)


def test_shards_without_the_remainder_are_equally_long():
    for index in range(3):
        sampler = IndexSampler(10, ShardOptions(index, 3, drop_remainder=True), num_epochs=2)
        assert list(loader(sampler)) == [*range(3 * index, 3 * index + 3)] * 2


def test_a_sampler_s_shards_and_the_loader_s_are_both_applied():
    sampler = IndexSampler(10, ShardOptions(1, 3), num_epochs=1)
    assert list(loader(sampler, shard_options=ShardOptions(0, 2))) == [4, 4, 5, 6, 6]


def test_an_endless_loader_with_an_empty_shard_ends():
    assert list(loader(IndexSampler(1, ShardOptions(1, 2), shuffle=True, seed=0), records=1)) == []


@pytest.mark.parametrize("worker_count", [0, 2])
def test_an_endless_loader(worker_count):
    with iter(loader(IndexSampler(3), records=3, worker_count=worker_count)) as iterator:
        assert list(itertools.islice(iterator, 8)) == [0, 1, 2, 0, 1, 2, 0, 1]


class Backwards:
    """A user's sampler: it has generators of its own, and may be asked for each index only once."""

    def __init__(self):
        self.asked = []

    def __getitem__(self, index):
        if index >= 5:
            raise IndexError(index)
        self.asked.append(index)
        return RecordMetadata(10 * index, 4 - index, np.random.default_rng(index))


class Together(list):
    def __getitems__(self, indices):
        self.calls = [*getattr(self, "calls", []), indices]
        return [self[index] for index in indices]


def test_a_user_s_sampler():
    sampler = Backwards()
    made = DataLoader(
        data_source=list("abcde"), sampler=sampler, operations=[Draw(), WithIndex()], shard_options=NoSharding()
    )
    sampler.asked = []
    draws = [int(np.random.default_rng(index).integers(1000)) for index in range(5)]
    assert list(made) == [(10 * i, (letter, draws[i])) for i, letter in enumerate("edcba")]
    assert sampler.asked == [0, 1, 2, 3, 4]


def test_a_subclass_of_a_sampler_has_the_last_word():
    class Reversed(SequentialSampler):
        def __getitem__(self, index):
            return RecordMetadata(index, len(self) - 1 - index)

    assert list(loader(Reversed(4), records=4)) == [3, 2, 1, 0]


@pytest.mark.parametrize("sampler", [SequentialSampler(5), Backwards()])
@pytest.mark.parametrize("operations", [[], [WithIndex()]])
def test_a_batch_is_read_in_one_call_where_the_source_can(sampler, operations):
    source = Together("abcde")
    batch = Batch(2, batch_fn=list)
    read = DataLoader(data_source=source, sampler=sampler, operations=[*operations, batch], shard_options=NoSharding())
    list(read)
    assert [len(call) for call in source.calls] == [2, 2, 1]


def test_keys_beyond_the_source_wrap():
    assert list(DataLoader(data_source=[1, 2], sampler=SequentialSampler(5))) == [1, 2, 1, 2, 1]
