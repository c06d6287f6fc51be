"""What is kept from one run to the next: copies of remote files, and what is left over of them."""

import errno
import os
import signal
import stat
import time
import uuid
from pathlib import Path

import fsspec
import pytest

import grain
from grain.files import cache_folder as caching
from grain.files.cache_folder import cache_folder, clean, local_copy, written_at_once
from grain.files.paths import File
from grain.files.remote_ranges import TransferError
from support.file_servers import http_server
from support.programs import program

MONTH = 31 * 24 * 3600
CONTENT = bytes(range(256)) * 100


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(caching, "_cleaned", {})
    return tmp_path / "cache"


@pytest.fixture
def url():
    path = f"memory://{uuid.uuid4().hex}/data.bin"
    fsspec.filesystem("memory").pipe_file(path, CONTENT)
    return path


@pytest.fixture
def served(tmp_path):
    folder = tmp_path / "served"
    folder.mkdir()
    return folder


def all_files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def make_old(path):
    os.utime(path, (time.time() - MONTH, time.time() - MONTH))


class Cuts:
    """Takes bytes from the first answers of a server."""

    def __init__(self, times):
        self.times = times

    def __call__(self):
        self.times -= 1
        return 10 if self.times >= 0 else 0


@pytest.mark.parametrize("times", [1, 2])
def test_a_transfer_that_ends_early_is_asked_for_again(cache, served, times):
    served.joinpath("data.bin").write_bytes(CONTENT)
    cuts = Cuts(0)
    with http_server(served, cut=cuts) as (address, _):
        file = File(f"{address}/data.bin")
        for read in (lambda: file.read(0, 20_000), lambda: Path(local_copy(file)).read_bytes()[:20_000]):
            cuts.times = times
            assert read() == CONTENT[:20_000]
        cuts.times = times
        with file.open() as stream:
            assert stream.read() == CONTENT


def test_a_transfer_that_always_ends_early_is_an_error_and_is_not_kept(cache, served):
    served.joinpath("data.bin").write_bytes(CONTENT)
    with http_server(served, cut=lambda: 10) as (address, _):
        file = File(f"{address}/data.bin")
        for read in (lambda: file.read(0, 20_000), lambda: local_copy(file), lambda: file.open().read()):
            with pytest.raises(TransferError, match=rf"'{address}/data\.bin' cannot be read: the transfer ended after"):
                read()
        assert all_files(cache) == []


@pytest.mark.parametrize("times", [1, 100])
def test_a_server_that_knows_no_ranges_and_ends_early(served, times):
    served.joinpath("data.jsonl").write_bytes(b"1234567\n" * 1000)
    cuts = Cuts(times)
    with http_server(served, answers_ranges=False, cut=cuts) as (address, _):
        iterator = iter(grain.JsonLinesIterDataset(f"{address}/data.jsonl"))
        if times == 1:
            assert list(iterator) == [1234567] * 1000
        else:
            with pytest.raises(TransferError, match="7990 of 8000 bytes"):
                list(iterator)


def test_a_picture_that_comes_cut_off(cache, monkeypatch):
    folder = uuid.uuid4().hex
    fsspec.filesystem("memory").pipe_file(f"memory://{folder}/cat/1.png", CONTENT)
    source, whole = grain.ImageFolderDataSource(f"memory://{folder}", decode=False), iter([CONTENT[:-1], CONTENT])
    system = "fsspec.implementations.memory.MemoryFileSystem.cat_file"
    monkeypatch.setattr(system, lambda *args, **kwargs: next(whole))
    assert source[0]["image"] == CONTENT
    monkeypatch.setattr(system, lambda *args, **kwargs: CONTENT[:-1])
    with pytest.raises(TransferError, match=r"1\.png' cannot be read: the transfer ended after 25599 of 25600 bytes"):
        source[0]


@pytest.mark.parametrize("damage", [lambda path: os.truncate(path, 5), lambda path: path.write_bytes(b"")])
def test_a_copy_that_is_too_short_is_fetched_again(cache, url, damage):
    kept = Path(local_copy(File(url)))
    damage(kept)
    assert Path(local_copy(File(url))).read_bytes() == CONTENT


def test_only_the_last_version_of_a_copy_is_kept(cache, url):
    kept = Path(local_copy(File(url)))
    with kept.open("rb") as opened:
        fsspec.filesystem("memory").pipe_file(url, b"another")
        local_copy(File(url))
        assert [path.read_bytes() for path in all_files(cache)] == [b"another"]
        assert opened.read() == CONTENT  # who has it open keeps it


def test_what_nobody_uses_is_removed_and_what_is_used_stays(cache, url, tmp_path):
    lines = tmp_path / "lines.jsonl"
    lines.write_bytes(b"1\n2\n")
    grain.JsonLinesDataSource(lines)
    used = local_copy(File(url))
    other = url.replace("data.bin", "other.bin")
    fsspec.filesystem("memory").pipe_file(other, b"other")
    unused = local_copy(File(other))
    theirs = cache / "not-ours.txt"
    theirs.write_text("")
    for path in all_files(cache):
        make_old(path)
    assert local_copy(File(url)) == used
    grain.JsonLinesDataSource(lines)
    caching._cleaned.clear()
    clean(cache)
    assert Path(used).exists()
    assert not Path(unused).exists()
    assert theirs.exists()
    assert len([path for path in all_files(cache) if path.suffix == ".index"]) == 1


def test_indexes_in_a_folder_of_the_users_stay(cache, tmp_path):
    for name in ("a.jsonl", "b.jsonl"):
        tmp_path.joinpath(name).write_bytes(b"1\n")
    grain.JsonLinesDataSource(tmp_path / "a.jsonl", index_folder=tmp_path / "indexes")
    (kept,) = all_files(tmp_path / "indexes")
    make_old(kept)
    caching._cleaned.clear()
    grain.JsonLinesDataSource(tmp_path / "b.jsonl", index_folder=tmp_path / "indexes")
    assert kept.exists()


KILLED = """
import os, signal
from grain.files.cache_folder import cache_folder, cache_name, written_at_once
with written_at_once(cache_folder() / (cache_name("memory://gone/file") + "{suffix}") / "x") as partial:
    open(partial, "wb").write(b"half of it")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("suffix", ["", ".copies"])
def test_pieces_of_a_killed_process_are_removed(cache, url, tmp_path, suffix):
    # Without its own folder, a piece lies beside the indexes.
    text = KILLED.format(suffix=suffix)
    killed = program(text if suffix else text.replace(' / "x")', ")"), folder=tmp_path)
    assert killed.finish()[0] == -signal.SIGKILL
    assert len(all_files(cache)) == 1
    kept = local_copy(File(url))
    assert all_files(cache) == [Path(kept)]


def test_pieces_of_a_living_process_are_left_alone(cache, url):
    with written_at_once(cache / f"{'0' * 16}-index") as partial:
        make_old(partial)
        local_copy(File(url))
        assert Path(partial).exists()


COPYING = """
from pathlib import Path
from grain.files import cache_folder as caching
from grain.files.paths import File
caching._BETWEEN_CLEANINGS = 0
for turn in range(40):
    file = File(f"{address}/{{turn % 4}}")
    assert Path(caching.local_copy(file)).read_bytes() == bytes(range(256)) * 100
    with caching.written_at_once(caching.cache_folder() / caching.cache_name(f"{{turn % 4}}")) as partial:
        Path(partial).write_text("index")
    caching.clean(caching.cache_folder())
"""


def test_many_processes_copy_and_clean_at_once(cache, served):
    for number in range(4):
        served.joinpath(str(number)).write_bytes(CONTENT)
    with http_server(served) as (address, _):
        programs = [program(COPYING.format(address=address), how="-c") for _ in range(4)]
        assert [each.finish() for each in programs] == [(0, "", "")] * 4
    assert len(all_files(cache)) == 8


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_cache_folder_without_room_is_named(cache, url, monkeypatch, number):
    def fail(self, path, target, **kwargs):
        Path(target).write_bytes(b"some")
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fsspec.implementations.memory.MemoryFileSystem.get_file", fail)
    with pytest.raises(OSError, match=rf"'{url}' cannot be copied to this machine: .*Set GRAIN_CACHE.*25600 bytes"):
        local_copy(File(url))
    assert all_files(cache) == []


def test_what_gets_its_name_is_on_the_disk(tmp_path, monkeypatch):
    calls, sync, replace = [], os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda descriptor: calls.append("sync") or sync(descriptor))
    monkeypatch.setattr(os, "replace", lambda *names: calls.append("replace") or replace(*names))
    with written_at_once(tmp_path / "file") as partial:
        Path(partial).write_text("x")
    assert calls == ["sync", "replace"]


def test_the_folder_is_for_its_user_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAIN_CACHE", str(tmp_path / "kept"))
    assert stat.S_IMODE(cache_folder().stat().st_mode) == 0o700
