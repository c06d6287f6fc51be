"""Samplers: which record stands at which index, and with what generator."""

import logging
import sys

import numpy as np
import pytest

import grain
from grain import IndexSampler, NoSharding, RecordMetadata, SequentialSampler, ShardOptions
from grain.samplers import length_of


def keys(sampler, count=None):
    return [sampler[index].record_key for index in range(len(sampler) if count is None else count)]


# What Grain 0.2.18 gives.
@pytest.mark.parametrize(
    ("count", "seed", "expected"),
    [
        (5, 0, [0, 4, 1, 2, 3, 1, 2, 3, 0, 4]),
        (10, 42, [8, 6, 7, 9, 0, 5, 1, 2, 4, 3, 2, 0, 9, 1, 5, 7, 6, 8, 4, 3]),
        (5, 32, [2, 4, 3, 0, 1, 0, 2, 4, 1, 3]),
    ],
)
def test_shuffled_epochs(count, seed, expected):
    assert keys(IndexSampler(count, shuffle=True, num_epochs=2, seed=seed)) == expected


def test_an_epoch_is_the_first_one_of_the_next_seed():
    sampler = IndexSampler(9, shuffle=True, seed=2**32 - 1)
    assert keys(sampler, 18)[9:] == keys(IndexSampler(9, shuffle=True, num_epochs=1, seed=0))


def test_shards_are_blocks_shuffled_by_themselves():
    shards = [IndexSampler(8, ShardOptions(index, 3), shuffle=True, num_epochs=1, seed=32) for index in range(3)]
    assert [[shard[index].record_key for index in range(0, 6, 3)] for shard in shards] == [[2, 1], [5, 4], [6, 7]]


def test_sequential_is_not_divided_by_itself():
    sampler = SequentialSampler(10, ShardOptions(1, 4, drop_remainder=True))
    assert keys(sampler) == list(range(8))


def test_keys_and_indices_are_python_ints():
    metadata = IndexSampler(100, shuffle=True, seed=1)[np.int64(3)]
    assert type(metadata.index) is type(metadata.record_key) is int


@pytest.mark.parametrize("indices", [range(40), range(6, 40, 7), range(2**62, 2**62 + 9)])
@pytest.mark.parametrize("shard", [NoSharding(), ShardOptions(1, 3)])
def test_many_at_once_are_the_same_as_one_by_one(indices, shard):
    sampler = IndexSampler(10, shard, shuffle=True, seed=5)
    assert sampler.record_keys(np.array(indices)).tolist() == [sampler[index].record_key for index in indices]


@pytest.mark.parametrize(
    ("seed", "index", "expected"),
    [(0, 0, [74607693, 24796466, 1314153177]), (42, 0, [649151495, 1761362110, 778321087])],
)
def test_generators(seed, index, expected):
    for sampler in (IndexSampler(5, seed=seed), SequentialSampler(5, seed=seed)):
        assert sampler[index].rng.integers(0, 2**31, 3).tolist() == expected


def test_without_a_seed_there_is_no_generator():
    assert IndexSampler(5)[0] == RecordMetadata(0, 0, None)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: IndexSampler(0), ValueError, "Invalid number of records in Sampler. Got 0"),
        (lambda: SequentialSampler(-1), ValueError, "Invalid number of records in Sampler. Got -1"),
        (lambda: IndexSampler(5, num_epochs=0), ValueError, "Invalid number of epochs in Index Sampler. ?Got 0"),
        (lambda: IndexSampler(5, shuffle=True), ValueError, "Shuffling requires specifying a seed."),
        (lambda: IndexSampler(5, shuffle=True, seed=np.int64(3)), TypeError, "numpy.int64"),
        (lambda: IndexSampler(5, seed=-1), ValueError, "Seed should be positive 32-bit integer."),
        (lambda: IndexSampler(5, seed=2**32), ValueError, "Seed should be positive 32-bit integer."),
        (lambda: IndexSampler(5, num_epochs=1)[5], IndexError, r"Got index 5, allowed indices should be in \[0, 5\]"),
        (lambda: SequentialSampler(5)[-1], IndexError, "Got index -1"),
    ],
)
def test_errors(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_length():
    assert len(IndexSampler(5)) == sys.maxsize
    assert len(IndexSampler(5, num_epochs=3)) == 15
    assert len(IndexSampler(5, ShardOptions(0, 2, drop_remainder=True), num_epochs=3)) == 12


def test_representation():
    assert repr(IndexSampler(5, seed=1)) == (
        "IndexSampler(num_records=5, shard_options=NoSharding(shard_index=0, shard_count=1, drop_remainder=False), "
        "shuffle=False, num_epochs=None, seed=1)"
    )
    assert repr(SequentialSampler(5, ShardOptions(0, 2), seed=7)) == (
        "SequentialSampler(num_records=5, "
        "shard_options=ShardOptions(shard_index=0, shard_count=2, drop_remainder=False))"
    )


def test_a_sampler_is_iterated_to_its_end():
    assert [metadata.index for metadata in SequentialSampler(3)] == [0, 1, 2]


@pytest.mark.parametrize("length", [0, 1, 2, 1000, sys.maxsize])
def test_the_length_of_a_sampler_without_one_is_searched_for(length):
    class Some:
        def __getitem__(self, index):
            if index >= length:
                raise IndexError(index)
            return RecordMetadata(index, index)

    assert length_of(Some()) == length


# ---------------------------------------------------------------- sharding


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((0, 0), "Number of shards must be a positive integer but got 0."),
        ((2, 2), "shard_count was 2 and shard_index was 2."),
        ((-1, 2), "shard_count was 2 and shard_index was -1."),
    ],
)
def test_shards_that_there_cannot_be(args, message):
    with pytest.raises(ValueError, match=message):
        ShardOptions(*args)


def test_options_of_different_kinds_are_different():
    assert NoSharding() == NoSharding() != ShardOptions(0, 1)
    assert {ShardOptions(0, 2), ShardOptions(0, 2)} == {ShardOptions(0, 2)}


def test_by_jax_process():
    import jax

    assert grain.ShardByJaxProcess(drop_remainder=True).shard_count == jax.process_count()
    assert repr(grain.ShardByJaxProcess()).startswith("ShardByJaxProcess(shard_index=0")


def test_by_jax_process_without_jax(monkeypatch):
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    assert grain.ShardByJaxProcess().shard_count == 1
    assert "jax" not in sys.modules


def test_dropping_a_remainder_is_told(caplog):
    with caplog.at_level(logging.WARNING, "grain"):
        IndexSampler(10, ShardOptions(1, 4, drop_remainder=True))
    assert "Dropping 2 examples of 10 examples (shard 4)." in caplog.text
