"""Files far away: in an object store, on a web server, in fsspec's memory."""

import gzip
import io
import json
import os
import uuid
from pathlib import Path

import fsspec
import pytest
from PIL import Image

import grain
from grain import (
    ImageFolderDataSource,
    JsonLinesDataSource,
    JsonLinesIterDataset,
    MultiprocessingOptions,
    TFRecordDataSource,
    TFRecordIterDataset,
    WebDatasetDataSource,
    WebDatasetIterDataset,
)
from grain.files.cache_folder import local_copy
from grain.files.paths import File, files_of, paths_of, read_ranges
from support.file_servers import http_server, s3_server
from support.record_files import elements_and_errors, tar, tfrecord

VALUES = [f"{number:06}" for number in range(500)]


def of_kind(kind):
    """The content of a file with all values, and those as its source has them."""
    if kind == "tfrecord":
        return tfrecord([value.encode() for value in VALUES]), [value.encode() for value in VALUES]
    if kind == "jsonl":
        return "".join(f'"{value}"\n' for value in VALUES).encode(), VALUES
    samples = [{"__key__": value, "txt": value.encode()} for value in VALUES]
    return tar([(f"{value}.txt", value.encode()) for value in VALUES]), samples


SOURCES = {"tfrecord": TFRecordDataSource, "jsonl": JsonLinesDataSource, "tar": WebDatasetDataSource}
STREAMS = {"tfrecord": TFRecordIterDataset, "jsonl": JsonLinesIterDataset, "tar": WebDatasetIterDataset}


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAIN_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def store():
    """An object store, and its requests. Workers find it by the environment, as programs find theirs."""
    settings = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "AWS_DEFAULT_REGION": "us-east-1"}
    with s3_server() as (address, requests), pytest.MonkeyPatch.context() as environment:
        for name, value in {**settings, "AWS_ENDPOINT_URL": address}.items():
            environment.setenv(name, value)
        fsspec.filesystem("s3").mkdir("bucket")
        yield requests
        fsspec.filesystem("s3").clear_instance_cache()


class Place:
    """A folder far away: where it is, how a file gets there, and what was asked of it since."""

    def __init__(self, url, requests, write):
        self.url, self.requests, self.write = url, requests, write

    def put(self, name, content):
        self.write(name, content)
        return f"{self.url}/{name}"


@pytest.fixture
def s3(store):
    url = f"s3://bucket/{uuid.uuid4().hex}"
    return Place(url, store, lambda name, content: fsspec.filesystem("s3").pipe_file(f"{url}/{name}", content))


@pytest.fixture(params=["s3", "http", "memory"])
def place(request, tmp_path):
    if request.param == "s3":
        yield request.getfixturevalue("s3")
    elif request.param == "http":
        folder = tmp_path / "served"
        folder.mkdir()
        with http_server(folder) as (address, requests):
            yield Place(address, requests, lambda name, content: folder.joinpath(name).write_bytes(content))
    else:
        url, system = f"memory://{uuid.uuid4().hex}", fsspec.filesystem("memory")
        yield Place(url, [], lambda name, content: system.pipe_file(f"{url}/{name}", content))


@pytest.mark.parametrize("kind", SOURCES)
def test_every_format_by_index_and_as_a_stream(place, kind):
    content, expected = of_kind(kind)
    path = place.put(f"data.{kind}", content)
    source = SOURCES[kind](path)
    assert source.__getitems__([499, 0, 250]) == [expected[499], expected[0], expected[250]]
    assert list(STREAMS[kind](path)) == expected
    assert path in repr(source)


@pytest.mark.parametrize("kind", SOURCES)
def test_a_stream_resumes(place, kind):
    content, expected = of_kind(kind)
    dataset = STREAMS[kind](place.put(f"data.{kind}", content))
    iterator = iter(dataset)
    for _ in range(300):
        next(iterator)
    resumed = iter(dataset)
    resumed.set_state(json.loads(json.dumps(iterator.get_state())))
    assert list(resumed) == expected[300:]


def gets(place, since):
    return [request for request in place.requests[since:] if request[0] == "GET"]


def test_ranges_that_lie_close_together_are_one_request_and_a_far_one_is_another(s3):
    content = bytes(range(256)) * 4000
    file, since = File(s3.put("file.bin", content)), len(s3.requests)
    ranges = [(0, 10), (40_000, 40_010), (20, 30), (900_000, 900_005)]
    assert file.read_many(ranges) == [content[start:stop] for start, stop in ranges]
    assert sorted(wanted for _, _, wanted in gets(s3, since)) == ["bytes=0-40009", "bytes=900000-900004"]


def test_a_batch_of_records_is_few_requests(s3):
    content, expected = of_kind("tfrecord")
    source = TFRecordDataSource(s3.put("data.tfrecord", content))
    since = len(s3.requests)
    assert source.__getitems__(range(0, 500, 7)) == expected[::7]
    assert len(s3.requests) - since == 1


def test_opening_an_indexed_file_again_reads_nothing_of_it(s3):
    path = s3.put("data.jsonl", of_kind("jsonl")[0])
    JsonLinesDataSource(path)
    since = len(s3.requests)
    source = JsonLinesDataSource(path)
    assert gets(s3, since) == []
    assert len(s3.requests) - since <= 1
    assert source[3] == VALUES[3]


def test_a_file_that_was_replaced_is_indexed_again(place):
    path = place.put("data.jsonl", b"1\n2\n")
    assert JsonLinesDataSource(path)[1] == 2
    place.put("data.jsonl", b"3\n44\n5\n")
    fsspec.core.url_to_fs(path)[0].invalidate_cache()
    assert JsonLinesDataSource(path).__getitems__(range(3)) == [3, 44, 5]


def test_globs_and_shards_that_come_later(s3):
    s3.put("b.jsonl", b"2\n")
    s3.put("a.jsonl", b"1\n")
    assert JsonLinesDataSource(f"{s3.url}/*.jsonl").__getitems__([0, 1]) == [1, 2]
    s3.put("c.jsonl", b"3\n")
    assert [path.rpartition("/")[2] for path in paths_of(f"{s3.url}/*.jsonl")] == ["a.jsonl", "b.jsonl", "c.jsonl"]
    assert list(JsonLinesIterDataset(f"{s3.url}/*.jsonl")) == [1, 2, 3]
    with pytest.raises(FileNotFoundError, match=r"No file matches 's3://bucket/.*\*\.nothing'"):
        paths_of(f"{s3.url}/*.nothing")


def test_records_of_many_files_are_asked_for_together(s3):
    files = files_of([s3.put(f"{number}.bin", b"%02d" % number) for number in range(12)])
    since = len(s3.requests)
    assert read_ranges([(file, 0, 2) for file in reversed(files)]) == [
        b"%02d" % number for number in reversed(range(12))
    ]
    assert len(s3.requests) - since == 12


def test_files_here_and_far_away_in_one_batch(s3, tmp_path):
    tmp_path.joinpath("here.jsonl").write_text("1\n")
    assert JsonLinesDataSource([tmp_path / "here.jsonl", s3.put("far.jsonl", b"2\n")]).__getitems__([1, 0]) == [2, 1]


def test_in_worker_processes_and_threads(s3):
    path, options = s3.put("data.jsonl", of_kind("jsonl")[0]), MultiprocessingOptions(num_workers=2)
    by_index = grain.MapDataset.source(JsonLinesDataSource(path))[:60]
    assert list(by_index.to_iter_dataset(grain.ReadOptions(num_threads=4))) == VALUES[:60]
    assert list(by_index.to_iter_dataset().mp_prefetch(options)) == VALUES[:60]
    assert list(JsonLinesIterDataset(path).mp_prefetch(options)) == VALUES


@pytest.mark.parametrize("kind", ["s3", "memory"])
def test_a_folder_of_images(request, kind):
    if kind == "s3":
        place = request.getfixturevalue("s3")
    else:
        url = f"memory://{uuid.uuid4().hex}"
        place = Place(url, [], lambda name, content: fsspec.filesystem("memory").pipe_file(f"{url}/{name}", content))
    for number, name in enumerate(["dog/1.png", "cat/2.png"]):
        picture = io.BytesIO()
        Image.new("RGB", (2, 2), (number, 0, 0)).save(picture, "PNG")
        place.put(name, picture.getvalue())
    source = ImageFolderDataSource(place.url)
    assert source.classes == ("cat", "dog")
    assert [(int(record["image"][0, 0, 0]), record["label"]) for record in source.__getitems__([0, 1])] == [
        (1, 0),
        (0, 1),
    ]


def test_compressed_streams(place):
    path = place.put("data.jsonl.gz", gzip.compress(of_kind("jsonl")[0]))
    assert list(JsonLinesIterDataset(path)) == VALUES


def test_a_local_copy(place, tmp_path):
    assert Path(local_copy(File(place.put("data.bin", b"content")))).read_bytes() == b"content"
    assert os.listdir(tmp_path / "cache")


def test_what_is_not_there(place):
    with pytest.raises(FileNotFoundError, match=r"missing\.jsonl"):
        JsonLinesDataSource(f"{place.url}/missing.jsonl")
    with pytest.raises(FileNotFoundError, match=r"missing\.jsonl"):
        next(iter(JsonLinesIterDataset(f"{place.url}/missing.jsonl")))


def test_damage_far_away(place):
    path = place.put("data.jsonl", b"1\nx\n3\n")
    for dataset in (JsonLinesIterDataset(path), grain.MapDataset.source(JsonLinesDataSource(path)).to_iter_dataset()):
        first, message, last = elements_and_errors(dataset)
        assert (first, last) == (1, 3)
        assert f"Line 2 of '{path}' is not valid JSON" in message


def test_a_file_that_shrinks_after_it_was_opened(place):
    path = place.put("data.jsonl", b'"a"\n' * 100)
    source = JsonLinesDataSource(path)
    place.put("data.jsonl", b'"a"\n' * 10)
    for number in (9, 99):
        with pytest.raises(ValueError, match=f"'{path}' was changed after it was opened"):
            source[number]


def test_a_server_that_ignores_ranges(tmp_path):
    tmp_path.joinpath("data.jsonl").write_bytes(b"1\n2\n" * 50)
    with http_server(tmp_path, answers_ranges=False) as (address, _):
        source = JsonLinesDataSource(f"{address}/data.jsonl")
        with pytest.raises(
            ValueError, match=r"data\.jsonl' does not support ranged reads: it gave 200 bytes.*2\. Copy"
        ):
            source[1]
        assert list(JsonLinesIterDataset(f"{address}/data.jsonl")) == [1, 2] * 50


@pytest.mark.parametrize("read", [JsonLinesDataSource, lambda path: next(iter(JsonLinesIterDataset(path))), paths_of])
@pytest.mark.parametrize("error", [PermissionError("Forbidden"), RuntimeError("Unable to locate credentials")])
def test_a_refusal_names_the_file_and_the_reason(monkeypatch, error, read):
    def refuse(*args, **kwargs):
        raise error

    for method in ("info", "_open", "glob"):
        monkeypatch.setattr(f"fsspec.implementations.memory.MemoryFileSystem.{method}", refuse)
    expected = PermissionError if isinstance(error, PermissionError) else OSError
    with pytest.raises(expected, match=rf"^'memory://a/\*\.jsonl' cannot be read\. {type(error).__name__}: {error}$"):
        read("memory://a/*.jsonl")


def test_a_protocol_that_is_not_known():
    with pytest.raises(ValueError, match="'abc://bucket/x' cannot be read: Protocol not known: abc"):
        File("abc://bucket/x")
