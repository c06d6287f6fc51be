"""Files that are changed while they are read, here and far away: never are records of two versions mixed."""

import os
import pickle
import uuid

import fsspec
import pytest

import grain
from grain.files.opened_files import opened
from grain.files.paths import File
from grain.files.versions import FileChangedError, LocalVersion
from support.changing_files import COPIED, COUNT, KINDS, STREAMED, letter
from support.file_servers import http_server

CHANGED = "was changed after it was opened. Make the source again"
FIRST = {kind: KINDS[kind].content("a") for kind in KINDS}
SECOND = {kind: KINDS[kind].content("b") for kind in KINDS}
LONGER = {kind: SECOND[kind] + b"\0" * 1024 for kind in KINDS}


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAIN_CACHE", str(tmp_path / "cache"))


def rewrite(path, content):
    path.write_bytes(content)


def rewrite_with_the_same_time(path, content):
    before = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replace(path, content):
    other = path.with_name("other")
    other.write_bytes(content)
    os.replace(other, path)


def replace_with_the_same_time(path, content):
    before = path.stat()
    other = path.with_name("other")
    other.write_bytes(content)
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(other, path)


KEPT_OPEN = ["jsonl", "tfrecord", "tar", "arrayrecord"]
"""Formats whose files stay open, and are what they were for who reads them when others take their places."""
CHANGES = [rewrite, rewrite_with_the_same_time, replace, replace_with_the_same_time]


def test_both_versions_are_of_one_size():
    assert all(len(FIRST[kind]) == len(SECOND[kind]) for kind in KINDS if kind != "arrow.lz4")


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_local_file_by_index(tmp_path, kind, change):
    path = tmp_path / f"data.{kind}"
    path.write_bytes(FIRST[kind])
    source = KINDS[kind].source(path)
    arrived = pickle.loads(pickle.dumps(source))
    assert letter(source[0]) == "a"
    change(path, SECOND[kind])
    if change in (replace, replace_with_the_same_time) and kind in KEPT_OPEN:
        assert {letter(source[number]) for number in (0, 1, COUNT - 1)} == {"a"}
    else:
        for read in (lambda: source[COUNT - 1], lambda: source.__getitems__([0, COUNT - 1]), lambda: arrived[1]):
            with pytest.raises(FileChangedError, match=CHANGED):
                read()
    now = KINDS[kind].source(path)
    assert {letter(record) for record in now.__getitems__([0, 1, COUNT - 1])} == {"b"}


@pytest.mark.parametrize("change", [rewrite, rewrite_with_the_same_time])
@pytest.mark.parametrize("kind", STREAMED)
def test_a_local_file_as_a_stream(tmp_path, kind, change):
    path = tmp_path / f"data.{kind}"
    path.write_bytes(FIRST[kind])
    dataset = KINDS[kind].stream(path)
    iterator = iter(dataset)
    assert letter(next(iterator)) == "a"
    change(path, SECOND[kind])
    state = iterator.get_state()
    assert set(letters_until_the_error(iterator)) == {"a"}
    with pytest.raises(FileChangedError, match=CHANGED):
        next(resumed(dataset, state))
    assert {letter(record) for record in dataset} == {"b"}  # who begins again reads it as it is now


def letters_until_the_error(iterator):
    """The versions of records up to the error, which must come; what comes after it, if anything, is an error too."""
    found = letters(iterator)
    for _ in range(10):
        with pytest.raises((FileChangedError, StopIteration)):
            next(iterator)
    return found


def letters(iterator):
    """The versions of records up to the error, which must come."""
    found = []
    with pytest.raises(ValueError, match=CHANGED):
        found.extend(letter(record) for record in iterator)
    return found


def resumed(dataset, state):
    iterator = iter(dataset)
    iterator.set_state(state)
    return iterator


def test_a_changed_file_does_not_keep_others_from_being_read(tmp_path):
    paths = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for path in paths:
        path.write_bytes(FIRST["jsonl"])
    iterator = iter(grain.JsonLinesIterDataset(paths))
    next(iterator), next(iterator)
    paths[0].write_bytes(SECOND["jsonl"])
    found, errors = [], 0
    while True:
        try:
            found.append(letter(next(iterator)))
        except FileChangedError:
            errors += 1
        except StopIteration:
            break
    assert (set(found), errors) == ({"a"}, 1)
    assert len(found) >= COUNT - 1


LONG = 30
"""How many files in one are more than workers read ahead."""


@pytest.mark.parametrize("kind", ["jsonl", "tfrecord"])
def test_workers_that_share_a_file_read_one_version(tmp_path, kind):
    path = tmp_path / f"data.{kind}"
    path.write_bytes(FIRST[kind] * LONG)
    iterator = iter(KINDS[kind].stream(path).mp_prefetch(grain.MultiprocessingOptions(2, per_worker_buffer_size=1)))
    assert letter(next(iterator)) == "a"
    path.write_bytes(SECOND[kind] * LONG)
    assert set(letters(iterator)) <= {"a"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_local_file_by_index_in_workers(tmp_path, kind):
    path = tmp_path / f"data.{kind}"
    path.write_bytes(FIRST[kind])
    dataset = grain.MapDataset.source(KINDS[kind].source(path))
    path.write_bytes(SECOND[kind])
    with pytest.raises(ValueError, match=CHANGED):
        next(iter(dataset.to_iter_dataset().mp_prefetch(grain.MultiprocessingOptions(1))))


def test_a_picture_is_of_one_version(tmp_path):
    path = tmp_path / "cat" / "1.png"
    path.parent.mkdir()
    path.write_bytes(b"a" * 1000)
    source = grain.ImageFolderDataSource(tmp_path, decode=False)
    assert source[0]["image"] == b"a" * 1000
    path.write_bytes(b"b" * 10)
    assert source[0]["image"] == b"b" * 10
    file = opened(str(path))
    assert file.read(1) == b"b"
    path.write_bytes(b"c" * 100_000)
    file.seek(5000)
    with pytest.raises(FileChangedError, match=CHANGED):
        file.read()


@pytest.fixture(params=["memory", "ETag", "Last-Modified", None])
def place(request, tmp_path):
    """Where files lie far away: how one gets there, its address, and what tells versions apart."""
    if request.param == "memory":
        url, system = f"memory://{uuid.uuid4().hex}", fsspec.filesystem("memory")
        yield lambda name, content: system.pipe_file(f"{url}/{name}", content), url, "memory"
        return
    folder, times = tmp_path / "served", iter(range(1_000_000_000, 2_000_000_000, 1000))
    folder.mkdir()

    def put(name, content):
        folder.joinpath("new").write_bytes(content)
        os.utime(folder / "new", (time := next(times), time))
        os.replace(folder / "new", folder / name)

    with http_server(folder, mark=request.param) as (address, _):
        yield put, address, request.param


def second(kind, mark):
    """The second version, of another size where nothing else tells of it."""
    return SECOND[kind] if mark else LONGER[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_a_remote_file_by_index(place, kind):
    put, url, mark = place
    name, path = f"data.{kind}", f"{url}/data.{kind}"
    put(name, FIRST[kind])
    source = KINDS[kind].source(path)
    assert letter(source[0]) == "a"
    put(name, second(kind, mark))
    if kind in COPIED:  # of the version that was opened
        assert {letter(record) for record in source.__getitems__([0, 1, COUNT - 1])} == {"a"}
    else:
        for read in (lambda: source[COUNT - 1], lambda: source.__getitems__([0, 1, COUNT - 1])):
            with pytest.raises(FileChangedError, match=f"'{path}' {CHANGED}"):
                read()
    if mark:
        assert {letter(record) for record in KINDS[kind].source(path).__getitems__([0, 1, COUNT - 1])} == {"b"}


@pytest.mark.parametrize("kind", STREAMED)
def test_a_remote_file_as_a_stream(place, kind, monkeypatch):
    monkeypatch.setattr("grain.files.opened_files._PIECE", 1 << 17)
    put, url, mark = place
    name, path = f"data.{kind}", f"{url}/data.{kind}"
    put(name, FIRST[kind])
    dataset = KINDS[kind].stream(path)
    iterator = iter(dataset)
    assert letter(next(iterator)) == "a"
    put(name, second(kind, mark))
    state = iterator.get_state()
    assert set(letters_until_the_error(iterator)) <= {"a"}
    with pytest.raises(FileChangedError, match=CHANGED):
        next(resumed(dataset, state))
    if mark:
        assert {letter(record) for record in dataset} == {"b"}


@pytest.mark.parametrize("kind", ["jsonl", "tfrecord"])
@pytest.mark.parametrize("is_stream", [False, True])
def test_a_remote_file_in_workers(tmp_path, kind, is_stream):
    folder = tmp_path / "served"
    folder.mkdir()
    path = folder / f"data.{kind}"
    path.write_bytes(FIRST[kind] * LONG)
    with http_server(folder) as (address, _):
        url = f"{address}/data.{kind}"
        if is_stream:
            dataset = KINDS[kind].stream(url)
        else:
            dataset = grain.MapDataset.source(KINDS[kind].source(url)).to_iter_dataset(grain.ReadOptions(1, 1))
        iterator = iter(dataset.mp_prefetch(grain.MultiprocessingOptions(1, per_worker_buffer_size=1)))
        assert letter(next(iterator)) == "a"
        path.write_bytes(SECOND[kind] * LONG)
        assert set(letters(iterator)) <= {"a"}


def test_a_version_on_another_machine(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"content")
    file = pickle.dumps(File(path))
    content, before = path.read_bytes(), path.stat()
    path.unlink()
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(FileChangedError):
        pickle.loads(file).read(0, 1)
    monkeypatch.setattr("grain.files.versions.this_machine", lambda: "another")
    assert pickle.loads(file).read(0, 1) == b"c"
    path.write_bytes(content)
    with pytest.raises(FileChangedError):
        pickle.loads(file).read(0, 1)


def test_a_kept_version_does_not_depend_on_the_number_of_the_device():
    assert LocalVersion(1, 2, 3, 4, device=5).stamp == LocalVersion(1, 2, 3, 4, device=6).stamp
    assert LocalVersion(1, 2, 3, 4, 5).stamp != LocalVersion(1, 2, 3, 5, 5).stamp
