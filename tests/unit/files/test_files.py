"""Which files a path names, and bytes of them, here and far away."""

import os
import pickle
from pathlib import Path

import fsspec
import pytest

from grain.files.cache_folder import local_copy, written_at_once
from grain.files.folders import files_below
from grain.files.opened_files import opened
from grain.files.paths import (
    File,
    files_of,
    paths_of,
    read_ranges,
    read_whole,
)


@pytest.fixture(params=["here", "far away"])
def folder(request, tmp_path):
    """A folder with three files, as a path or as a URL."""
    if request.param == "here":
        for name in ("b.txt", "a.txt", "c.bin"):
            tmp_path.joinpath(name).write_bytes(bytes(range(256)) * 1000)
        yield str(tmp_path)
    else:
        system = fsspec.filesystem("memory")
        for name in ("b.txt", "a.txt", "c.bin"):
            system.pipe_file(f"/folder/{name}", bytes(range(256)) * 1000)
        yield "memory://folder"
        system.rm("/folder", recursive=True)


def test_a_glob_is_sorted_and_a_list_keeps_its_order(folder):
    names = [path.rpartition("/")[2] for path in paths_of(f"{folder}/*.txt")]
    assert names == ["a.txt", "b.txt"]
    assert [path.rpartition("/")[2] for path in paths_of([f"{folder}/c.bin", f"{folder}/*.txt"])] == ["c.bin", *names]


def test_bytes_of_a_file(folder):
    file = File(f"{folder}/a.txt")
    assert (file.size, file.read(254, 258), file.read(5, 5)) == (256_000, b"\xfe\xff\x00\x01", b"")
    ranges = [(255_990, 256_000), (0, 3), (2, 5), (100_000, 100_001)]
    content = bytes(range(256)) * 1000
    assert file.read_many(ranges) == [content[start:stop] for start, stop in ranges]
    assert pickle.loads(pickle.dumps(file)).read(0, 2) == b"\x00\x01"
    with file.open() as opened:
        assert opened.read(3) == b"\x00\x01\x02"


def test_ranges_that_lie_close_together_are_read_at_once(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(bytes(100_000))
    file, reads = File(path), []
    read = os.pread
    monkeypatch.setattr(
        os, "pread", lambda number, size, start: reads.append((start, start + size)) or read(number, size, start)
    )
    file.read_many([(50_000, 50_010), (0, 10), (20, 30), (10, 20)])
    assert reads == [(0, 30), (50_000, 50_010)]


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"missing\.txt"):
        File(tmp_path / "missing.txt")
    with pytest.raises(FileNotFoundError, match=r"No file matches '.*none-\*\.txt'"):
        paths_of(tmp_path / "none-*.txt")
    with pytest.raises(ValueError, match="at least one path"):
        paths_of([])
    with pytest.raises(TypeError, match="got 3"):
        paths_of([3])


def test_a_name_with_the_characters_of_a_glob_is_taken_as_it_is(tmp_path):
    path = tmp_path / "a[1].txt"
    path.write_text("x")
    assert paths_of(path) == (str(path),)


def test_a_file_that_was_changed_or_shrinks_is_noticed(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(1000))
    file = File(path)
    path.write_bytes(bytes(900))
    with pytest.raises(ValueError, match=r"file' was changed after it was opened"):
        file.read(0, 10)
    file = File(path)
    assert file.read(0, 1) == b"\0"
    os.truncate(path, 10)
    with pytest.raises(ValueError, match=r"file' was changed after it was opened"):
        file.read(5, 900)


@pytest.fixture
def _unprivileged():
    """Root may read everything: then be somebody else."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    yield
    os.seteuid(0)


@pytest.mark.usefixtures("_unprivileged")
@pytest.mark.parametrize(
    "read", [lambda path: File(path).read(0, 1), lambda path: opened(path), lambda path: read_whole([path], [None])]
)
def test_a_file_that_may_not_be_read(read):
    with pytest.raises(PermissionError, match="/etc/shadow"):
        read("/etc/shadow")


def test_a_batch_of_ranges_of_several_files(folder):
    first, second = files_of([f"{folder}/a.txt", f"{folder}/c.bin"])
    content = bytes(range(256)) * 1000
    ranges = [(second, 7, 9), (first, 100, 300), (second, 200_000, 200_004), (first, 0, 0), (second, 8, 20)]
    assert read_ranges(ranges) == [content[start:stop] for _, start, stop in ranges]
    assert read_whole([f"{folder}/a.txt", f"{folder}/b.txt"], [None, 256_000]) == [content, content]


def test_all_files_below_a_folder(folder):
    assert sorted(files_below(folder)) == ["a.txt", "b.txt", "c.bin"]


def test_many_files_do_not_stay_open(tmp_path):
    files = []
    for number in range(300):
        tmp_path.joinpath(str(number)).write_bytes(b"x")
        files.append(File(tmp_path / str(number)))
    before = len(os.listdir("/proc/self/fd"))
    assert {file.read(0, 1) for file in files} == {b"x"}
    assert len(os.listdir("/proc/self/fd")) - before <= 128


def test_a_copy_of_a_remote_file_is_fetched_once_for_each_version(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAIN_CACHE", str(tmp_path / "cache"))
    system = fsspec.filesystem("memory")
    system.pipe_file("/copied.bin", b"one")
    first = local_copy(File("memory://copied.bin"))
    assert Path(first).read_bytes() == b"one"
    assert local_copy(File("memory://copied.bin")) == first
    system.pipe_file("/copied.bin", b"two!")
    assert Path(local_copy(File("memory://copied.bin"))).read_bytes() == b"two!"
    system.rm("/copied.bin")


def test_what_is_written_at_once_is_there_whole_or_not_at_all(tmp_path):
    path = tmp_path / "file"
    with written_at_once(path) as partial:
        Path(partial).write_text("all of it")
        assert not path.exists()
    assert path.read_text() == "all of it"

    def fail():
        with written_at_once(path) as partial:
            Path(partial).write_text("half")
            raise RuntimeError("disk on fire")

    with pytest.raises(RuntimeError):
        fail()
    assert os.listdir(tmp_path) == ["file"]
    assert path.read_text() == "all of it"
