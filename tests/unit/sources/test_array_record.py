"""ArrayRecord files as a source: what is selected, in which order, from several threads, and what goes wrong."""

import dataclasses
import hashlib
import logging
import os
import pickle
import random
import re
import shutil
import threading
import weakref
from pathlib import Path

import fsspec
import numpy as np
import pytest
from array_record.python.array_record_module import ArrayRecordWriter

import grain
from grain import ArrayRecordDataSource, DataLoader, MapDataset, SequentialSampler
from grain.sources import array_record_files as record_files
from grain.sources.array_record_files import Pace


def write_file(path, records, group_size=1):
    writer = ArrayRecordWriter(str(path), f"group_size:{group_size}")
    for record in records:
        writer.write(record)
    writer.close()
    return str(path)


def numbered(start, stop):
    return [b"%d" % number for number in range(start, stop)]


@dataclasses.dataclass
class FileInstruction:
    filename: str
    skip: int
    take: int
    examples_in_shard: int


@pytest.fixture
def folder(tmp_path):
    """Ten numbers in three files, of which one has none."""
    write_file(tmp_path / "a.arrayrecord", numbered(0, 4))
    write_file(tmp_path / "b.arrayrecord", [])
    write_file(tmp_path / "c.arrayrecord", numbered(4, 10), group_size=4)
    return tmp_path


SELECTIONS = {
    "one path": (lambda f: f"{f}/a.arrayrecord", range(4)),
    "a Path": (lambda f: f / "a.arrayrecord", range(4)),
    "bytes": (lambda f: os.fsencode(f / "a.arrayrecord"), range(4)),
    "a slice in bytes": (lambda f: [b"%b/a.arrayrecord[1:3]" % os.fsencode(f)], [1, 2]),
    "a file without records": (lambda f: f / "b.arrayrecord", []),
    "several": (lambda f: [f / "c.arrayrecord", f / "b.arrayrecord", f"{f}/a.arrayrecord"], [*range(4, 10), *range(4)]),
    "the same twice": (lambda f: (f / "a.arrayrecord", f / "a.arrayrecord"), [*range(4), *range(4)]),
    "a glob": (lambda f: f"{f}/*.arrayrecord", range(10)),
    "a glob in a list": (lambda f: [f"{f}/[bc].arrayrecord", f / "a.arrayrecord"], [*range(4, 10), *range(4)]),
    "a slice": (lambda f: f"{f}/c.arrayrecord[1:4]", [5, 6, 7]),
    "an empty slice": (lambda f: f"{f}/c.arrayrecord[2:2]", []),
    "slices": (lambda f: [f"{f}/c.arrayrecord[5:6]", f"{f}/a.arrayrecord[0:2]"], [9, 0, 1]),
    "a file instruction": (lambda f: FileInstruction(f"{f}/c.arrayrecord", 2, 3, 6), [6, 7, 8]),
    "a file instruction for all": (lambda f: FileInstruction(f"{f}/c.arrayrecord", 4, -1, 6), [8, 9]),
    "mixed": (lambda f: [FileInstruction(f"{f}/a.arrayrecord", 1, 2, 4), f / "c.arrayrecord"], [1, 2, *range(4, 10)]),
}


@pytest.mark.parametrize("name", SELECTIONS)
def test_what_is_selected(name, folder):
    paths, numbers = SELECTIONS[name]
    source, records = ArrayRecordDataSource(paths(folder)), [b"%d" % number for number in numbers]
    assert (len(source), list(source), [source[key] for key in range(len(source))]) == (len(records), records, records)
    order = random.Random(0).choices(range(len(records)), k=30) if records else []
    assert source.__getitems__(order) == [records[key] for key in order]
    assert list(pickle.loads(pickle.dumps(source))) == records


def test_keys_may_be_numbers_of_numpy(folder):
    source = ArrayRecordDataSource(f"{folder}/*.arrayrecord")
    assert source[np.int64(7)] == b"7"
    assert source.__getitems__(np.array([9, 0])) == [b"9", b"0"]
    assert source.__getitems__([]) == []


def test_a_file_whose_name_looks_like_a_slice(tmp_path):
    path = write_file(tmp_path / "odd[0:1]", numbered(0, 3))
    assert len(ArrayRecordDataSource(path)) == 3


def test_paths_and_description(folder):
    files = [f"{folder}/{name}.arrayrecord" for name in "abc"]
    source = ArrayRecordDataSource([files[0], f"{files[1]}[0:0]", Path(files[2])])
    digest = hashlib.sha1("".join(files).encode()).hexdigest()
    assert (source.paths, repr(source)) == (files, f"ArrayRecordDataSource(hash_of_paths={digest})")
    assert repr(ArrayRecordDataSource(f"{folder}/*.arrayrecord")) == repr(source)


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        ([], "Paths sequence can not be of 0 length"),
        ([3], "All elements in a path sequence must be of type: String, pathlib.Path, or FileInstruction. Got 3."),
        (
            3,
            "Unsupported path format was used. Path format must be a Sequence, String, pathlib.Path or FileInst",
        ),
        ({"a"}, "Unsupported path format was used."),
        ("a[3:1]", "There are no records from 3 to 1 in 'a'"),
        (FileInstruction("a", -2, 3, 5), "There are no records from -2 to 1 in 'a'"),
    ],
)
def test_paths_that_are_none(paths, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        ArrayRecordDataSource(paths)


def test_a_slice_of_a_glob_says_that_it_is_ambiguous(folder):
    with pytest.raises(ValueError, match="selects records of 3 files: name one file"):
        ArrayRecordDataSource(f"{folder}/*.arrayrecord[0:1]")


@pytest.mark.parametrize("key", [-1, 10, 2**70])
def test_a_record_that_there_is_not(key, folder):
    source = ArrayRecordDataSource(f"{folder}/*.arrayrecord")
    for read in (lambda: source[key], lambda: source.__getitems__([3, key, 4])):
        with pytest.raises(
            ValueError, match=rf"should be in \[0, num_records\): got {key}, and there are 10 rec"
        ) as caught:
            read()
        assert isinstance(caught.value, IndexError)
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_files_are_opened_when_needed(folder, monkeypatch):
    opened = []
    original = record_files.RecordFile._opened
    monkeypatch.setattr(
        record_files.RecordFile, "_opened", lambda self: (opened.append(self.path[-13]), original(self))[1]
    )
    source = ArrayRecordDataSource([f"{folder}/a.arrayrecord[0:4]", f"{folder}/c.arrayrecord[0:6]"])
    assert (len(source), opened) == (10, [])
    assert (source[9], source[8], opened) == (b"9", b"8", ["c"])
    counted = ArrayRecordDataSource(f"{folder}/*.arrayrecord")
    assert opened == ["c"]
    assert len(counted) == 10
    assert sorted(opened[1:]) == ["a", "b", "c"]
    copied = pickle.loads(pickle.dumps(counted))
    assert (len(copied), copied[0], opened[4:]) == (10, b"0", ["a"])  # a worker opens only what it reads


def test_a_source_that_was_closed_opens_its_files_again(folder):
    with ArrayRecordDataSource(f"{folder}/*.arrayrecord") as source:
        assert source[0] == b"0"
    assert source[9] == b"9"
    assert not source._files[0]._idle


def test_the_number_of_open_files_is_bounded(tmp_path, monkeypatch):
    for number in range(40):
        write_file(tmp_path / f"{number:02d}", [b"%d" % number])
    monkeypatch.setattr(record_files, "_most_open", lambda: 8)
    monkeypatch.setattr(record_files, "_READERS", record_files._Readers())
    source = ArrayRecordDataSource(f"{tmp_path}/*")
    assert list(source) == numbered(0, 40)
    assert source.__getitems__(range(39, -1, -1)) == numbered(0, 40)[::-1]
    assert sum(len(file._idle) for file in source._files) <= 8


def test_a_source_that_is_gone_keeps_no_file_open(folder):
    source = ArrayRecordDataSource(f"{folder}/*.arrayrecord")
    readers = [weakref.ref(file) for file in source._files]
    assert list(source) == numbered(0, 10)
    del source
    assert [reader() for reader in readers] == [None] * 3


def test_many_threads(tmp_path):
    records = [random.Random(number).randbytes(200) for number in range(500)]
    write_file(tmp_path / "a", records[:300])
    write_file(tmp_path / "b", records[300:], group_size=16)
    source, wrong = ArrayRecordDataSource(f"{tmp_path}/*"), []

    def read(seed):
        generator = random.Random(seed)
        for _ in range(50):
            keys = generator.choices(range(500), k=20)
            if source.__getitems__(keys) != [records[key] for key in keys] or source[keys[0]] != records[keys[0]]:
                wrong.append(keys)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


class SlowClock:
    """Lets every second look at the time be `seconds` after the first."""

    def __init__(self, seconds):
        self.seconds, self.now = seconds, 0.0

    def perf_counter(self):
        self.now += self.seconds
        return self.now


def test_slow_files_are_read_by_the_readers_threads(tmp_path, monkeypatch):
    source = ArrayRecordDataSource(write_file(tmp_path / "a", [b"", *numbered(1, 20)]))
    left, parallel = [], Pace.in_parallel
    monkeypatch.setattr(Pace, "in_parallel", lambda self, reader, keys: left.append(keys) or parallel(reader, keys))
    monkeypatch.setattr(record_files, "time", SlowClock(1.0))
    for _ in range(3 * 4 + 1 + 2 + 4):
        assert source.__getitems__([3, 1]) == [b"3", b"1"]
    assert len(left) == 1 + 2 + 4  # after every four reads that turn out to be slow, more of them
    assert source.__getitems__([0, 5]) == [b"", b"5"]  # nothing in it is not the same as cut off
    monkeypatch.setattr(record_files, "time", SlowClock(0.0))
    assert [source[7] for _ in range(100)] == [b"7"] * 100
    left.clear()
    assert [source[7] for _ in range(100)] == [b"7"] * 100
    assert not left  # in memory by now


def damaged(path):
    """A file of which only record 59 can not be read."""
    write_file(path, [random.Random(number).randbytes(5000) for number in range(100)])
    content = bytearray(path.read_bytes())
    for place in range(300_000, 300_400):
        content[place] ^= 0xFF
    path.write_bytes(content)
    return ArrayRecordDataSource(path)


@pytest.mark.parametrize("is_slow", [False, True])
def test_a_damaged_record_is_named_and_others_are_read(is_slow, tmp_path):
    source = damaged(tmp_path / "a")
    if is_slow:
        source._files[0]._pace._in_parallel = 1
    with pytest.raises(ValueError, match=rf"Record 59 of '{tmp_path}/a' can not be read: Corrupted"):
        source.__getitems__(range(100))
    with pytest.raises(ValueError, match="Record 59 of"):
        source[59]
    assert len(source.__getitems__([*range(59), *range(60, 100)])) == 99


@pytest.mark.parametrize("is_slow", [False, True])
def test_a_file_that_shrinks(is_slow, tmp_path):
    path = write_file(tmp_path / "a", [random.Random(number).randbytes(5000) for number in range(1000)])
    source = ArrayRecordDataSource(path)
    assert len(source) == 1000
    os.truncate(path, 1_000_000)
    if is_slow:
        source._files[0]._pace._in_parallel = 1
    with pytest.raises(ValueError, match="/a' was changed after it was opened"):
        source.__getitems__([900, 999])


def test_a_file_that_shrinks_and_is_gone(tmp_path):
    source = ArrayRecordDataSource(write_file(tmp_path / "a", [bytes([number]) * 5000 for number in range(100)], 4))
    assert len(source) == 100
    os.truncate(tmp_path / "a", 100)
    os.unlink(tmp_path / "a")
    with pytest.raises(FileNotFoundError, match="/a'"):
        source[99]


def test_a_file_that_is_replaced(tmp_path):
    source = ArrayRecordDataSource(write_file(tmp_path / "a", numbered(0, 3)))
    assert list(source) == numbered(0, 3)
    write_file(tmp_path / "b", numbered(0, 30))
    os.replace(tmp_path / "b", tmp_path / "a")
    assert list(source) == numbered(0, 3)
    source.close()
    os.utime(tmp_path / "a", (1, 1))  # for systems whose clock stands still between the two
    with pytest.raises(ValueError, match="was changed after it was opened"):
        source[0]


def test_files_that_can_not_be_opened(folder):
    whole = folder.joinpath("c.arrayrecord").read_bytes()
    folder.joinpath("empty").write_bytes(b"")
    folder.joinpath("cut off").write_bytes(whole[: len(whole) // 2])
    folder.joinpath("text").write_bytes(b"hello\n" * 30_000)
    for name in ("empty", "cut off", "text"):
        source = ArrayRecordDataSource([f"{folder}/a.arrayrecord", f"{folder}/{name}"])
        with pytest.raises(ValueError, match=rf"'{folder}/{name}' is not an ArrayRecord file, or was cut off .*: \w"):
            len(source)
    with pytest.raises(FileNotFoundError, match="missing"):
        ArrayRecordDataSource(f"{folder}/missing")
    with pytest.raises(FileNotFoundError, match=r"No file matches .*\*.nothing"):
        ArrayRecordDataSource(f"{folder}/*.nothing")
    with pytest.raises(IsADirectoryError, match=r"To read the files in it, pass .*/\*'"):
        len(ArrayRecordDataSource(folder))
    with pytest.raises(ValueError, match=r"c.arrayrecord' has 6 records, not those from 3 to 9"):
        ArrayRecordDataSource(f"{folder}/c.arrayrecord[3:9]")[0]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(folder):
    folder.joinpath("a.arrayrecord").chmod(0)
    with pytest.raises(PermissionError, match=r"a.arrayrecord' can not be read: this user has no permission"):
        len(ArrayRecordDataSource(folder / "a.arrayrecord"))


def test_reader_options(folder):
    for option in ("in_memory", "offloaded"):
        source = ArrayRecordDataSource(f"{folder}/*.arrayrecord", {"index_storage_option": option})
        assert list(source) == numbered(0, 10)
        assert source.__getitems__([8, 2]) == [b"8", b"2"]
    with pytest.raises(ValueError, match="Unknown option nonsense, valid options"):
        len(ArrayRecordDataSource(f"{folder}/*.arrayrecord", {"nonsense": 1}))


def test_large_groups_are_warned_of_when_read_at_random(tmp_path, caplog):
    for name in "ab":
        write_file(tmp_path / name, [random.Random(number).randbytes(500) for number in range(6000)], group_size=500)
    in_order, at_random = ArrayRecordDataSource(f"{tmp_path}/*"), ArrayRecordDataSource(f"{tmp_path}/*")
    with caplog.at_level(logging.WARNING, "grain"):
        assert sum(1 for _ in in_order) == 12_000
        in_order.__getitems__(range(12_000))
        assert not caplog.messages
        keys = list(range(12_000))
        random.Random(0).shuffle(keys)
        for start in range(0, 600, 20):
            at_random.__getitems__(keys[start : start + 20])
    [message] = caplog.messages
    assert "unpacking 500 records (256 kB)" in message
    assert "grain.sources.write" in message
    assert "grain convert" in message


def test_remote_files(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAIN_CACHE", str(tmp_path / "cache"))
    system = fsspec.filesystem("memory")
    for name, records in (("a", numbered(0, 4)), ("b", numbered(4, 10))):
        system.pipe_file(f"/far/{name}.arrayrecord", Path(write_file(tmp_path / name, records)).read_bytes())
    try:
        source = ArrayRecordDataSource(["memory:///far/*.arrayrecord", "memory:///far/b.arrayrecord[0:1]"])
        assert source.paths == [f"memory:///far/{name}.arrayrecord" for name in "abb"]
        assert list(source) == [*numbered(0, 10), b"4"]
        assert len(os.listdir(tmp_path / "cache")) == 2
    finally:
        system.rm("/far", recursive=True)


def test_pipelines(folder):
    source = ArrayRecordDataSource(f"{folder}/*.arrayrecord")
    dataset = MapDataset.source(source).shuffle(seed=1).map(int)
    expected = list(MapDataset.range(10).shuffle(seed=1).batch(4))
    for pipeline in (
        dataset.batch(4),
        dataset.to_iter_dataset(grain.ReadOptions(num_threads=0)).batch(4),
        dataset.batch(4).to_iter_dataset().mp_prefetch(grain.MultiprocessingOptions(num_workers=2)),
    ):
        np.testing.assert_equal(list(pipeline), expected)


@pytest.mark.parametrize("worker_count", [0, 2])
def test_data_loader(worker_count, folder):
    source = ArrayRecordDataSource(f"{folder}/*.arrayrecord")
    loader = DataLoader(data_source=source, sampler=SequentialSampler(10), worker_count=worker_count)
    iterator = iter(loader)
    assert [next(iterator) for _ in range(3)] == numbered(0, 3)
    state = iterator.get_state()
    assert repr(source) in state.decode()
    again = iter(loader)
    again.set_state(state)
    assert list(again) == numbered(3, 10)


def test_a_copy_elsewhere_is_another_source_for_checkpoints(folder):
    shutil.copytree(folder, folder / "copy")
    assert repr(ArrayRecordDataSource(f"{folder}/a.arrayrecord")) != repr(
        ArrayRecordDataSource(f"{folder}/copy/a.arrayrecord")
    )
