"""Sources: numbers, and records that processes share."""

import json
import pickle
import subprocess
import sys
import uuid

import numpy as np
import pytest

import grain
from grain import DataLoader, InMemoryDataSource, RangeDataSource, SequentialSampler, SharedMemoryDataSource

RECORDS = [1, 2.5, True, None, "text\0", b"bytes\0", {"a": [1, (2, 3)]}, np.arange(3), {4, 5}]


def assert_same(found, expected):
    assert [repr(element) for element in found] == [repr(element) for element in expected]


def test_anything_that_can_be_pickled():
    source = SharedMemoryDataSource(RECORDS)
    assert_same(source, RECORDS)
    assert len(source) == len(RECORDS)
    assert source[-1] == source[len(source) - 1] == {4, 5}
    assert_same(pickle.loads(pickle.dumps(source)), RECORDS)


def test_no_records_at_all():
    assert list(SharedMemoryDataSource([])) == []


@pytest.mark.parametrize("worker_count", [0, 2])
def test_in_a_loader(worker_count):
    source = SharedMemoryDataSource([{"x": i} for i in range(5)])
    made = DataLoader(data_source=source, sampler=SequentialSampler(5), worker_count=worker_count)
    assert list(made) == [{"x": i} for i in range(5)]


def test_workers_get_no_copy_of_the_records():
    class Memory:
        def __init__(self, source):
            self.source = source

        def __len__(self):
            return 1

        def __getitem__(self, index):
            return self.source._records.flags.owndata, self.source[3]

    source = SharedMemoryDataSource([bytes(1000)] * 100)
    dataset = grain.MapDataset.source(Memory(source)).to_iter_dataset()
    assert list(dataset.mp_prefetch(grain.MultiprocessingOptions(1))) == [(False, bytes(1000))]


def test_by_name():
    name = f"grain-test-{uuid.uuid4().hex[:8]}"
    source = SharedMemoryDataSource(["a", {"b": 1}], name=name)
    try:
        assert source.shm.name == name
        assert len(pickle.dumps(source)) < 200
        assert list(SharedMemoryDataSource(name=name)) == list(pickle.loads(pickle.dumps(source))) == ["a", {"b": 1}]
        script = f"import grain; print(list(grain.InMemoryDataSource(name={name!r})))"
        done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
        assert (done.stdout, done.stderr) == ("['a', {'b': 1}]\n", "")
        assert source[0] == "a"
    finally:
        source.unlink()
    source.unlink()
    with pytest.raises(FileNotFoundError):
        SharedMemoryDataSource(name=name)
    assert source[0] == "a"
    source.close()


def test_neither_elements_nor_a_name():
    with pytest.raises(ValueError, match=r"Elements or name must be provided."):
        SharedMemoryDataSource()


@pytest.mark.parametrize("index", [3, -4])
def test_beyond_the_end(index):
    with pytest.raises(IndexError, match=f"Index {index} out of range for 3"):
        SharedMemoryDataSource([1, 2, 3])[index]


def test_descriptions():
    assert InMemoryDataSource is SharedMemoryDataSource
    assert repr(SharedMemoryDataSource(range(1000))) == "SharedMemoryDataSource(len=1000)"
    assert str(SharedMemoryDataSource([1])) == "InMemoryDataSource(name=None, len=1)"


def test_states_that_hold_all_records_are_restored():
    made = DataLoader(data_source=SharedMemoryDataSource([7, 8]), sampler=SequentialSampler(2))
    iterator = iter(made)
    next(iterator)
    state = json.loads(iterator.get_state()) | {"data_source": "SharedMemoryDataSource([7, 8], name='psm_1')"}
    again = iter(made)
    again.set_state(json.dumps(state).encode())
    assert list(again) == [8]


@pytest.mark.parametrize(
    ("args", "expected"), [((0, 3, 1), [0, 1, 2]), ((2, 9, 3), [2, 5, 8]), ((5, 0, -2), [5, 3, 1]), ((3, 3, 1), [])]
)
def test_ranges(args, expected):
    source = RangeDataSource(*args)
    assert list(source) == expected
    assert isinstance(source, grain.RandomAccessDataSource)
    assert repr(source) == "RangeDataSource(start={}, stop={}, step={})".format(*args)


@pytest.mark.parametrize("args", [(0, 5, 0), (5, 4, 1)])
def test_ranges_that_there_cannot_be(args):
    with pytest.raises(AssertionError, match="can't be"):
        RangeDataSource(*args)


@pytest.mark.parametrize("key", [-1, 5])
def test_ranges_have_an_end(key):
    with pytest.raises(IndexError, match=f"Index {key} out of range for 5"):
        RangeDataSource(0, 5, 1)[key]
