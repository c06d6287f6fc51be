"""Sources: numbers, and records that processes share."""

import datetime
import json
import os
import pickle
import struct
import subprocess
import sys
import uuid
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

import grain
from grain import DataLoader, InMemoryDataSource, RangeDataSource, SequentialSampler, SharedMemoryDataSource
from grain.multiprocessing import SharedMemoryArray, SharedMemoryArrayMetadata
from grain.sources import in_memory

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


@pytest.fixture
def name():
    """Of a block of shared memory, which is gone after the test."""
    name = f"grain-test-{uuid.uuid4().hex[:8]}"
    yield name
    Path("/dev/shm", name).unlink(missing_ok=True)


class Bomb:
    """Whoever unpickles it makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def foreign_block(name, contents):
    path = Path("/dev/shm", name)
    path.write_bytes(contents)
    path.chmod(0o600)
    return path


def layout(mark, ends, records):
    return mark + struct.pack(f"<{1 + len(ends)}q", len(ends), *ends) + records


def test_named_blocks_are_private(name):
    SharedMemoryDataSource([1], name=name)
    assert Path("/dev/shm", name).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mode", [0o666, 0o660, 0o602, 0o644])
def test_a_block_that_others_may_use_is_not_read(name, mode, tmp_path):
    source = SharedMemoryDataSource([Bomb(tmp_path / "made")], name=name)
    Path("/dev/shm", name).chmod(mode)
    with pytest.raises(PermissionError, match=rf"{name}' belongs to user .* mode {mode:o}: only those of this user"):
        SharedMemoryDataSource(name=name)
    with pytest.raises(PermissionError, match=name):
        SharedMemoryArray.from_metadata(source.shm and SharedMemoryArrayMetadata(name, (4,), np.uint8))
    assert not (tmp_path / "made").exists()


def test_a_block_of_another_user_is_not_read(name, tmp_path, monkeypatch):
    SharedMemoryDataSource([Bomb(tmp_path / "made")], name=name)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(PermissionError, match=rf"{name}' belongs to user {os.getuid()}"):
        SharedMemoryDataSource(name=name)
    assert not (tmp_path / "made").exists()


MARK = in_memory._MARK


@pytest.mark.parametrize(
    "make",
    {
        "of another layout": lambda bomb: layout(b"", [len(bomb)], bomb),
        "a pickle": lambda bomb: bomb,
        "small": lambda bomb: b"x",
        "only a mark": lambda bomb: MARK,
        "too many records": lambda bomb: MARK + struct.pack("<q", 1 << 40) + bomb,
        "a negative number of records": lambda bomb: MARK + struct.pack("<q", -1) + bomb,
        "a record beyond the block": lambda bomb: layout(MARK, [len(bomb) + 10_000], bomb),
        "ends that do not grow": lambda bomb: layout(MARK, [len(bomb), 3], bomb),
        "a negative end": lambda bomb: layout(MARK, [-8, 3], bomb),
    }.values(),
)
def test_a_block_of_something_else_is_refused_and_runs_no_code(name, make, tmp_path):
    foreign_block(name, make(pickle.dumps(Bomb(tmp_path / "made"))))
    with pytest.raises(ValueError, match=rf"{name}' was not made by a SharedMemoryDataSource, or is damaged"):
        list(SharedMemoryDataSource(name=name))
    assert not (tmp_path / "made").exists()


PLAIN = [
    None,
    True,
    -3,
    1 << 200,
    2.5,
    -0.0,
    float("inf"),
    "text\0 ü \u2028",
    b"bytes\0",
    [],
    {},
    (),
    {"a": [1, {"b": None}], "": [[]]},
    (1, (2, [3, (4,)])),
    np.arange(6, dtype=">i2").reshape(2, 3),
    np.zeros((0, 3), np.float32),
    np.array(["a", "bcd"]),
    np.array(["2020-01-01", "NaT"], "M8[D]"),
    np.array(5),
    np.float16(1.5),
    np.str_("x"),
    np.bool_(True),
    np.asfortranarray(np.arange(4).reshape(2, 2)),
    {"image": np.full((4, 4, 3), 7, np.uint8), "label": 3, "raw": b"\n\0", "pair": (1, np.int64(2))},
]
OTHERS = [
    {1: "a", (2, 3): b"b"},
    {4, 5},
    1 + 2j,
    "\ud800\udc00",
    datetime.date(2020, 1, 2),
    np.array([None, 3], object),
    np.zeros(2, [("x", np.int32)]),
    OrderedDict(a=1),
    bytearray(b"x"),
    Path("x"),
]


def test_plain_records_of_a_named_block_are_not_pickled(name, monkeypatch):
    for function in ("dumps", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, function, None)
    source = SharedMemoryDataSource(PLAIN, name=name)
    assert_same(source, PLAIN)
    assert [type(record) for record in source] == [type(record) for record in PLAIN]
    array = source[PLAIN.index({}) + 4]
    array[0, 0] = 9
    assert array[0, 0] == 9


def test_other_records_of_a_named_block(name):
    with_bytes = [{"x": b"", "y": other} for other in OTHERS]
    source = SharedMemoryDataSource([*OTHERS, *with_bytes], name=name)
    assert_same(SharedMemoryDataSource(name=name), [*OTHERS, *with_bytes])
    assert [type(record) for record in source] == [type(record) for record in [*OTHERS, *with_bytes]]


def test_an_integer_that_is_too_long_for_text(name):
    assert SharedMemoryDataSource([1 << 20_000, (b"", -1 << 20_000)], name=name)[1] == (b"", -1 << 20_000)


def test_a_record_that_contains_itself(name):
    record = [b""]
    record.append(record)
    found = SharedMemoryDataSource([record], name=name)[0]
    assert found[1] is found


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
