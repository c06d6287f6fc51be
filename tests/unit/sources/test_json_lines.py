"""JSON lines, by index and as streams."""

import gc
import json
import os
import pickle
import re
import resource
import subprocess
import sys

import numpy as np
import pytest

import grain
from grain import JsonLinesDataSource, JsonLinesIterDataset, MultiprocessingOptions
from grain.sources import byte_streams, json_lines
from support.record_files import elements_and_errors, written

VALUES = [{"number": number, "text": "ü" * (number % 7)} for number in range(30)]
CONTENT = "".join(f"{json.dumps(value, ensure_ascii=False)}\n" for value in VALUES).encode()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAIN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def both(path):
    by_index = grain.MapDataset.source(JsonLinesDataSource(path)).to_iter_dataset()
    return elements_and_errors(JsonLinesIterDataset(path)), elements_and_errors(by_index)


@pytest.mark.parametrize(
    "content",
    {
        "as usual": CONTENT,
        "no line end at the end": CONTENT[:-1],
        "line ends of Windows": CONTENT.replace(b"\n", b"\r\n"),
        "byte order mark": b"\xef\xbb\xbf" + CONTENT,
        "blank lines": b"\n \t\r\n" + CONTENT.replace(b"\n", b"\n\n  \n") + b"\n\n",
        "white space before": CONTENT.replace(b"{", b"  {"),
        "lines of form feeds and vertical tabs": b"\f\n" + CONTENT.replace(b"\n", b"\n\f\n \v\t\r\n") + b"\v",
        "a byte order mark on a line of its own": b"\xef\xbb\xbf \r\n\n" + CONTENT,
    }.items(),
    ids=lambda item: item[0],
)
def test_all_lines(tmp_path, content, monkeypatch):
    path = written(tmp_path / "lines.jsonl", content[1])
    assert both(path) == (VALUES, VALUES)
    monkeypatch.setattr(json_lines, "_PIECE", 7)  # lines are longer than what is read at once
    assert JsonLinesDataSource(path, index_folder=tmp_path / "again").__getitems__(range(30)) == VALUES


def test_values_of_other_kinds_than_objects(tmp_path):
    assert both(written(tmp_path / "lines.jsonl", b'1\n"two"\nnull\n[4]\n'))[1] == [1, "two", [4]]
    assert JsonLinesDataSource(tmp_path / "lines.jsonl").__getitems__(range(4)) == [1, "two", None, [4]]


@pytest.mark.parametrize("name", ["lines.jsonl", "lines.jsonl.gz"])
def test_a_stream_resumes_at_every_line(tmp_path, name):
    dataset = JsonLinesIterDataset(written(tmp_path / name, CONTENT))
    iterator = iter(dataset)
    for position in range(30):
        resumed = iter(dataset)
        resumed.set_state(json.loads(json.dumps(iterator.get_state())))
        assert list(resumed) == VALUES[position:]
        assert next(iterator) == VALUES[position]
    assert iterator.get_state() == {"reader_offset": len(CONTENT)}


@pytest.mark.parametrize("name", ["lines.jsonl", "lines.jsonl.gz"])
def test_a_bad_line_is_an_error_that_shows_it_and_reading_goes_on(tmp_path, name):
    content = b'{"a": 1}\n\n{"a": 2' + b"x" * 1000 + b'\n{"a": 3}\n\xff\xfe\n{"a": 4}\n'
    path = written(tmp_path / name, content)
    found = [elements_and_errors(JsonLinesIterDataset(path))]
    if name.endswith("jsonl"):
        found += both(path)
    for first, bad, third, worse, last in found:
        assert (first, third, last) == ({"a": 1}, {"a": 3}, {"a": 4})
        # Lines of a compressed file are not counted, for which all would have to be unpacked again.
        third_line, fifth_line = (
            (
                rf"The line at byte {place} of what '.*{name}' holds"
                if name.endswith("gz")
                else f"Line {line} of '.*{name}'"
            )
            for line, place in ((3, 10), (5, 1027))
        )
        assert re.fullmatch(rf"{third_line} is not valid JSON: .*\. It reads b'{{\"a\": 2x{{73}}'\.\.\.\.", bad), bad
        assert re.search(rf"{fifth_line} is not valid JSON: 'utf-8' codec.*It reads b'\\xff\\xfe'", worse), worse


@pytest.mark.parametrize(
    "odd", [b"\0", b"\x1c", "\u2028".encode(), "\u00a0".encode(), "\ufeff".encode(), b"1\r2", b"\f3"]
)
def test_a_line_of_what_is_neither_json_nor_blank_is_an_error(tmp_path, odd):
    for first, bad, last in both(written(tmp_path / "lines.jsonl", b"1\n\n" + odd + b"\n\f\n2\n")):
        assert (first, last) == (1, 2)
        assert bad.startswith(f"Line 3 of '{tmp_path}/lines.jsonl' is not valid JSON: ")


@pytest.mark.parametrize("name", ["lines.jsonl", "lines.jsonl.gz"])
@pytest.mark.parametrize("deep", [b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 100_000, b"[{}, " * 50_000])
def test_a_line_that_is_nested_too_deeply_is_an_error_and_reading_goes_on(tmp_path, name, deep):
    path = written(tmp_path / name, b"1\n" + deep + b"\n3\n")
    place = "The line at byte 2 of what" if name.endswith("gz") else "Line 2 of"
    for first, bad, last in [elements_and_errors(JsonLinesIterDataset(path))] if name.endswith("gz") else both(path):
        assert (first, last) == (1, 3)
        assert bad.startswith(f"{place} '{path}'")
        assert "nested too deeply" in bad


def test_an_error_of_a_source_tells_the_record(tmp_path):
    source = JsonLinesDataSource(written(tmp_path / "lines.jsonl", b"1\n\nx\n"))
    with pytest.raises(ValueError, match="Line 3") as caught:
        source[1]
    assert caught.value.__notes__ == [f"Raised by reading record 1 of {source!r}."]


def test_nothing_in_it(tmp_path):
    for content in (b"", b"\n\n"):
        path = written(tmp_path / "empty.jsonl", content)
        assert (len(JsonLinesDataSource(path)), list(JsonLinesIterDataset(path))) == (0, [])


def test_workers_share_the_lines(tmp_path):
    options = MultiprocessingOptions(num_workers=2)
    path = written(tmp_path / "lines.jsonl", CONTENT)
    assert list(JsonLinesIterDataset(path).mp_prefetch(options)) == VALUES
    by_index = grain.MapDataset.source(JsonLinesDataSource(path)).to_iter_dataset()
    assert list(by_index.mp_prefetch(options)) == VALUES


# ---------------------------------------------------------------- the index


@pytest.fixture
def searches(monkeypatch):
    """The files that were gone through to find their lines."""
    found, find = [], json_lines.JsonLinesFormat.offsets
    monkeypatch.setattr(
        json_lines.JsonLinesFormat, "offsets", lambda self, reading: found.append(reading.path) or find(self, reading)
    )
    return found


def test_lines_are_looked_for_once(tmp_path, cache, searches):
    path = written(tmp_path / "lines.jsonl", CONTENT)
    source = JsonLinesDataSource(path)
    (kept,) = os.listdir(cache)
    assert kept.endswith("-lines.jsonl.jsonlines.index")
    assert JsonLinesDataSource(path)[29] == VALUES[29]
    assert pickle.loads(pickle.dumps(source))[3] == VALUES[3]
    assert len(searches) == 1


def test_a_file_that_has_changed_is_indexed_again(tmp_path, searches):
    path = written(tmp_path / "lines.jsonl", CONTENT)
    old = JsonLinesDataSource(path)
    written(path, b"1\n2\n")
    assert JsonLinesDataSource(path).__getitems__([0, 1]) == [1, 2]
    assert len(searches) == 2
    with pytest.raises(ValueError, match=r"lines\.jsonl' was changed after it was opened"):
        old[0]


def test_a_file_that_shrinks_while_it_is_read(tmp_path):
    path = written(tmp_path / "lines.jsonl", CONTENT)
    source = JsonLinesDataSource(path)
    assert source[0] == VALUES[0]
    os.truncate(path, 100)
    for number in (1, 29):
        with pytest.raises(ValueError, match=r"lines\.jsonl' was changed after it was opened"):
            source[number]


@pytest.mark.parametrize(
    "damage", [lambda kept: kept[:-8], lambda kept: b"", lambda kept: b"?" * 99, lambda kept: kept[:50]]
)
def test_a_damaged_index_is_made_again(tmp_path, cache, damage, searches):
    path = written(tmp_path / "lines.jsonl", CONTENT)
    JsonLinesDataSource(path)
    (kept,) = cache.iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(damage(whole))
    assert JsonLinesDataSource(path)[29] == VALUES[29]
    assert kept.read_bytes() == whole
    assert len(searches) == 2


def test_an_index_of_another_shape_is_made_again(tmp_path, cache):
    path = written(tmp_path / "lines.jsonl", CONTENT)
    JsonLinesDataSource(path)
    (kept,) = cache.iterdir()
    np.save(kept, np.zeros((3, 3)))
    assert JsonLinesDataSource(path)[29] == VALUES[29]


def test_where_an_index_cannot_be_kept_it_is_in_memory(tmp_path, cache):
    path = written(tmp_path / "lines.jsonl", CONTENT)
    cache.write_text("a file where the folder should be")
    with pytest.warns(UserWarning, match=r"index of '.*lines\.jsonl' cannot be kept.*Set GRAIN_CACHE"):
        source = JsonLinesDataSource(path)
    assert pickle.loads(pickle.dumps(source))[29] == VALUES[29]


def test_processes_and_threads_that_make_the_same_index_at_once(tmp_path, cache):
    path = written(tmp_path / "lines.jsonl", CONTENT * 1000)
    script = f"import grain; assert grain.JsonLinesDataSource([{str(path)!r}] * 3)[-1] == {VALUES[-1]!r}"
    processes = [subprocess.Popen([sys.executable, "-W", "error", "-c", script]) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert len(list(cache.iterdir())) == 1


def test_a_folder_for_the_index_can_be_chosen(tmp_path, cache, searches):
    path = written(tmp_path / "lines.jsonl", CONTENT)
    JsonLinesDataSource(path, index_folder=tmp_path)
    assert JsonLinesDataSource(path, index_folder=str(tmp_path))[1] == VALUES[1]
    assert len(searches) == 1
    assert not cache.exists()


def test_many_files_do_not_take_many_descriptors(tmp_path):
    for number in range(300):
        written(tmp_path / f"{number:03}.jsonl", b"%d\n" % number)
    JsonLinesDataSource(tmp_path / "*.jsonl")
    _, hard = limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 250, hard))
    try:
        source = JsonLinesDataSource(tmp_path / "*.jsonl")
        assert source.__getitems__(range(300)) == list(range(300))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_file_that_took_the_place_of_another_of_the_same_size_and_time(tmp_path):
    path = written(tmp_path / "lines.jsonl", b"1\n2\n")
    JsonLinesDataSource(path)
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    os.utime(written(tmp_path / "new", b"123\n"), ns=times)
    os.replace(tmp_path / "new", path)
    assert list(JsonLinesDataSource(path)) == [123]


def test_a_file_that_grows_while_it_is_indexed(tmp_path, monkeypatch):
    path, find = written(tmp_path / "lines.jsonl", b"1\n2\n"), json_lines.JsonLinesFormat.offsets

    def grown(self, reading):
        path.write_bytes(b"1\n2\n3\n")
        return find(self, reading)

    monkeypatch.setattr(json_lines.JsonLinesFormat, "offsets", grown)
    with pytest.raises(ValueError, match=r"lines\.jsonl' was changed after it was opened"):
        JsonLinesDataSource(path)


@pytest.mark.parametrize("name", [b"\xff\xfe.jsonl", "漢".encode() * 80 + b".jsonl"])
def test_names_that_are_not_text_or_very_long(tmp_path, cache, name):
    path = os.fsencode(tmp_path) + b"/" + name
    written(os.fsdecode(path), b"1\n2\n")
    assert JsonLinesDataSource([path, path])[3] == 2
    assert len(os.listdir(cache)) == 1
    assert repr(JsonLinesDataSource([path, path])).startswith("JsonLinesDataSource(2 files, ")


def test_a_user_without_a_home(tmp_path, monkeypatch):
    def unknown(cls):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr("pathlib.Path.home", classmethod(unknown))
    monkeypatch.delenv("GRAIN_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    with pytest.warns(UserWarning, match="no home folder to keep a cache in: set GRAIN_CACHE"):
        assert JsonLinesDataSource(written(tmp_path / "lines.jsonl", b"1\n"))[0] == 1


# ---------------------------------------------------------------- many bad lines


@pytest.mark.parametrize("name", ["lines.jsonl", "lines.jsonl.gz"])
def test_bytes_before_a_bad_line_are_read_once(tmp_path, name, monkeypatch):
    path, seen = written(tmp_path / name, b"1\n2\noops\n" * 50), []
    if name.endswith("gz"):
        restart = byte_streams._Unpacked._restart
        monkeypatch.setattr(byte_streams._Unpacked, "_restart", lambda self: seen.append(1) or restart(self))
        most = 51  # once to read all, and once for each error, which looks whether the file is compressed
    else:
        piece = byte_streams.Reading.piece
        monkeypatch.setattr(
            byte_streams.Reading, "piece", lambda self, *args, **more: seen.append(1) or piece(self, *args, **more)
        )
        most = 10 * 150
    monkeypatch.setattr(json_lines, "_PIECE", 7)
    found = elements_and_errors(JsonLinesIterDataset(path))
    assert found[0::3] + found[1::3] == [1] * 50 + [2] * 50
    assert len(seen) <= most


def test_a_stream_that_is_dropped_after_a_bad_line_leaves_no_file_open(tmp_path):
    iterator = iter(JsonLinesIterDataset(written(tmp_path / "lines.jsonl", b"oops\n1\n")))
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ValueError, match="Line 1"):
        next(iterator)
    del iterator
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


def test_bad_lines_are_counted_in_the_version_that_is_read(tmp_path):
    path = written(tmp_path / "lines.jsonl", b"1\n" * 10 + b"x\n")
    with pytest.raises(ValueError, match="Line 11 of"):
        list(JsonLinesIterDataset(path))
    written(path, b"1111\n" * 5 + b"x\n")
    with pytest.raises(ValueError, match="Line 6 of"):
        list(JsonLinesIterDataset(path))
