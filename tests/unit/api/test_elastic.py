"""Resuming with another number of shards and another batch size."""

import json
import sys

import pytest

import grain
from grain.checkpoint import CheckpointHandler
from grain.experimental import ElasticIterator
from grain.sharding import ShardOptions


def shards(dataset, batch_size, count, **options):
    return [ElasticIterator(dataset, batch_size, ShardOptions(index, count), **options) for index in range(count)]


def shuffled(length=23):
    return grain.MapDataset.range(length).shuffle(seed=3)


def lists(batches):
    return [batch.tolist() for batch in batches]


def interleaved(count=4, cycle_length=2, length=10):
    datasets = [grain.MapDataset.range(i, length, count) for i in range(count)]
    return grain.IterDataset.interleave(datasets, cycle_length=cycle_length)


def test_another_number_of_shards_and_another_batch_size():
    first = shards(shuffled(), 6, 3)
    assert [[next(shard).tolist() for _ in range(2)] for shard in first] == [
        [[4, 8], [10, 15]],
        [[7, 17], [19, 3]],
        [[11, 5], [21, 12]],
    ]
    assert [shard.get_state() for shard in first] == [{"global_next_index": 12}] * 3
    second = shards(shuffled(), 4, 2)
    for shard in second:
        shard.set_state(first[0].get_state())
    assert [lists(shard) for shard in second] == [[[16, 0], [14, 2], [18, 9]], [[1, 22], [20, 6]]]
    assert [shard.get_state()["global_next_index"] for shard in second] == [24, 20]


def test_each_element_comes_once_whatever_the_shards_are():
    dataset, seen, state = shuffled(120), [], {"global_next_index": 0}
    for count, batch_size, steps in [(1, 4, 3), (4, 8, 2), (3, 12, 4), (2, 2, 3), (5, 10, 3)]:
        running = shards(dataset, batch_size, count)
        for shard in running:
            shard.set_state(state)
        for _ in range(steps):
            seen += [element for shard in running for element in next(shard).tolist()]
        (state,) = {json.dumps(shard.get_state()) for shard in running}
        state = json.loads(state)
    assert sorted(seen) == sorted(dataset[index] for index in range(state["global_next_index"]))
    assert len(seen) == len(set(seen)) == 12 + 16 + 48 + 6 + 30


def test_worker_processes_give_the_same():
    options = {"multiprocessing_options": grain.MultiprocessingOptions(num_workers=2)}
    (shard,) = shards(shuffled(), 4, 1, **options)
    with shard:
        shard.set_state({"global_next_index": 5})
        assert lists(shard) == lists(shuffled()[5:].batch(4, drop_remainder=True))


def test_it_goes_back_and_forth():
    (shard,) = shards(shuffled(), 4, 1)
    first = next(shard).tolist()
    list(shard)
    with pytest.raises(StopIteration):
        next(shard)
    shard.set_state({"global_next_index": 0})
    assert next(shard).tolist() == first


def test_interleaved_datasets_are_dealt_out_anew():
    (alone,) = shards(interleaved(), 2, 1)
    assert next(alone).tolist() == [0, 1]
    states = alone.get_shard_states()
    assert states == {
        0: {"exhausted": 0, "state": {"next_index": 1}},
        1: {"exhausted": 0, "state": {"next_index": 1}},
        2: {"exhausted": 0, "state": {"next_index": 0}},
        3: {"exhausted": 0, "state": {"next_index": 0}},
    }
    pair = shards(interleaved(), 2, 2)
    for shard in pair:
        shard.set_shard_states(states)
    assert [lists(shard) for shard in pair] == [[[4], [2], [8], [6]], [[5], [3], [9], [7]]]


@pytest.mark.parametrize("cycle_length", [1, 2, 3, 7])
@pytest.mark.parametrize("counts", [(1, 2), (2, 1), (2, 3), (3, 1)])
@pytest.mark.parametrize("steps", range(0, 12, 2))
def test_no_element_of_an_interleave_is_lost_or_repeated(cycle_length, counts, steps):
    before, after = counts
    dataset = interleaved(7, cycle_length, 31)
    seen, states = [], {}
    for shard in shards(dataset, before, before):
        for _, batch in zip(range(steps), shard, strict=False):
            seen += batch.tolist()
        states |= json_round_trip(shard.get_shard_states())
    assert sorted(states) == list(range(7))
    for shard in shards(dataset, after, after):
        shard.set_shard_states(states)
        seen += next_ones(shard, 2)
        resumed = ElasticIterator(dataset, after, shard.shard_options)
        resumed.set_state(json.loads(json.dumps(shard.get_state())))
        seen += next_ones(resumed, 100)
    assert sorted(seen) == list(range(31))


def json_round_trip(states):
    return {number: json.loads(json.dumps(state)) for number, state in states.items()}


def next_ones(shard, count):
    return [element for _, batch in zip(range(count), shard, strict=False) for element in batch.tolist()]


def test_without_batches_and_with_operators_that_pass_elements_on():
    dataset = interleaved().map(lambda x: x * 10).filter(lambda x: x != 40).map_with_index(lambda i, x: (i, x))
    shard, other = shards(dataset, 0, 2)
    assert list(shard) == [(0, 0), (1, 20), (2, 60), (3, 80)]
    assert list(other) == [(0, 10), (1, 30), (2, 50), (3, 70), (4, 90)]


class Jax:
    """Stands for `jax` in one of several processes."""

    def __init__(self, index, count):
        self.process_index, self.process_count = (lambda: index), (lambda: count)


@pytest.fixture
def as_process(monkeypatch):
    return lambda index, count: monkeypatch.setitem(sys.modules, "jax", Jax(index, count))


def test_files_of_an_interleave(tmp_path, as_process):
    seen = []
    for index in range(2):
        as_process(index, 2)
        shard = ElasticIterator(interleaved(5, length=20), 4, ShardOptions(index, 2))
        seen += [*next(shard).tolist(), *next(shard).tolist()]
        CheckpointHandler().save(tmp_path, shard)
        again = ElasticIterator(interleaved(5, length=20), 4, ShardOptions(index, 2))
        assert lists(CheckpointHandler().restore(tmp_path, again)) == lists(shard)
    names = [*(f"process_{i}-of-2.json" for i in range(2)), *(f"shard_state_{i}.json" for i in range(5))]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert (tmp_path / "shard_state_0.json").read_text() == (
        '{\n    "exhausted": 0,\n    "state": {\n        "next_index": 2\n    }\n}'
    )
    for index in range(3):
        as_process(index, 3)
        shard = ElasticIterator(interleaved(5, length=20), 3, ShardOptions(index, 3))
        seen += next_ones(CheckpointHandler().restore(tmp_path, shard), 100)
    assert sorted(seen) == list(range(20))


def test_files_of_random_access(tmp_path, as_process):
    for index in range(2):
        as_process(index, 2)
        shard = ElasticIterator(shuffled(), 4, ShardOptions(index, 2))
        next(shard)
        CheckpointHandler().save(tmp_path, shard)
    as_process(0, 1)
    (alone,) = shards(shuffled(), 3, 1)
    CheckpointHandler().restore(tmp_path, alone)
    assert lists(alone) == lists(shuffled()[4:].batch(3, drop_remainder=True))


def test_files_of_other_datasets(tmp_path, as_process):
    as_process(0, 2)
    for index in range(2):
        CheckpointHandler().save(tmp_path, ElasticIterator(interleaved(5), 2, ShardOptions(index, 2)))
    as_process(0, 1)
    for count, words in [(4, "shard_state_4.json is of a dataset"), (6, "shard_state_5.json does not exist")]:
        (shard,) = shards(interleaved(count), 1, 1)
        next(shard)
        with pytest.raises(ValueError, match=words):
            CheckpointHandler().restore(tmp_path, shard)
        assert next(shard).tolist() == [1]


@pytest.mark.parametrize(
    ("dataset", "words"),
    [
        (grain.MapDataset.range(9).filter(lambda x: x > 3), "does not support `filter` transformation"),
        (grain.MapDataset.range(9).to_iter_dataset(), "PrefetchIterDataset"),
        (grain.IterDataset.zip([interleaved(), interleaved()]), "ZipIterDataset"),
        (grain.IterDataset.mix([interleaved(), interleaved()]), "MixedIterDataset"),
        (interleaved().window_shuffle(3, seed=1), "WindowShuffle"),
        (interleaved().limit(3), "Limit"),
    ],
)
def test_pipelines_whose_position_can_not_be_divided(dataset, words):
    with pytest.raises(ValueError, match=words):
        ElasticIterator(dataset, 2, ShardOptions(0, 1))


def test_wrong_arguments():
    with pytest.raises(NotImplementedError, match="multiprocessing_options"):
        shards(interleaved(), 2, 1, multiprocessing_options=grain.MultiprocessingOptions(2))
    uneven = ElasticIterator(shuffled(), 5, ShardOptions(0, 2))
    with pytest.raises(ValueError, match=r"Global batch size 5 is not divisible by shard count 2\."):
        next(uneven)
    with pytest.raises(NotImplementedError, match="no shard states"):
        uneven.get_shard_states()
    (shard,) = shards(interleaved(), 2, 1)
    with pytest.raises(ValueError, match=r"datasets \[1, 2, 3\] are missing"):
        shard.set_shard_states({0: {"exhausted": 1, "state": None}})


@pytest.mark.parametrize("state", [{}, {"next_index": 3}, {"global_next_index": -1}, {"global_next_index": "2"}, []])
def test_a_state_that_does_not_fit_leaves_it_as_it_was(state):
    (shard,) = shards(shuffled(), 4, 1)
    expected = lists(shuffled().batch(4, drop_remainder=True))
    assert next(shard).tolist() == expected[0]
    with pytest.raises((ValueError, TypeError, KeyError)):
        shard.set_state(state)
    assert next(shard).tolist() == expected[1]


def test_closing():
    (shard,) = shards(shuffled(), 4, 1)
    next(shard)
    shard.close()
    shard.close()
    with pytest.raises(ValueError, match="closed"):
        next(shard)


def test_it_is_an_iterator():
    (shard,) = shards(shuffled(), 4, 1)
    assert isinstance(shard, grain.DatasetIterator)
    assert iter(shard) is shard
    assert shard.shard_options == ShardOptions(0, 1)
    assert next(shard.base_iterator).tolist() == shuffled().batch(4)[0].tolist()
