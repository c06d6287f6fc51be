"""Writing elements to files: names, formats, going on after an interruption, and nothing left of what went wrong."""

import logging
import os
import pickle
import resource
import signal

import fsspec
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from array_record.python.array_record_module import ArrayRecordReader

import grain
from grain import ArrayRecordDataSource, MapDataset, ParquetDataSource
from grain.sources import write
from grain.writing.formats import ArrayRecordFormat, format_of
from support.comparison import plain
from support.programs import program


def numbered(count):
    return [b"%d" % number for number in range(count)]


def names(paths):
    return [os.path.basename(path) for path in paths]


def stream(count):
    yield from numbered(count)


def group_size(path):
    return ArrayRecordReader(path).writer_options_string().split(",")[0]


INPUTS = {
    "a list": lambda: numbered(10),
    "a source": lambda: np.array(numbered(10)).astype(object),
    "a MapDataset": lambda: MapDataset.range(10).map(lambda number: b"%d" % number),
    "an IterDataset": lambda: MapDataset.source(numbered(10)).to_iter_dataset(),
    "a generator": lambda: stream(10),
    "a set in order": lambda: dict.fromkeys(numbered(10)),
}


@pytest.mark.parametrize("name", INPUTS)
def test_whatever_gives_elements(name, tmp_path):
    paths = write(INPUTS[name](), tmp_path / "numbers.arrayrecord", shards=3, length=10)
    assert names(paths) == names(sorted(os.listdir(tmp_path)))
    assert names(paths)[2] == "numbers-00002-of-00003.arrayrecord"
    assert [len(ArrayRecordDataSource(path)) for path in paths] == [3, 3, 4]
    assert list(ArrayRecordDataSource(f"{tmp_path}/numbers-*.arrayrecord")) == numbered(10)


@pytest.mark.parametrize(
    ("path", "shards", "expected"),
    [
        ("a.arrayrecord", 1, ["a.arrayrecord"]),
        ("a.arrayrecord", 2, ["a-00000-of-00002.arrayrecord", "a-00001-of-00002.arrayrecord"]),
        ("a-*.arrayrecord", 1, ["a-00000-of-00001.arrayrecord"]),
        ("new/folder/*.arrayrecord", 2, ["00000-of-00002.arrayrecord", "00001-of-00002.arrayrecord"]),
    ],
)
def test_names_of_shards(path, shards, expected, tmp_path):
    paths = write(numbered(3), tmp_path / path, shards=shards)
    assert names(paths) == expected
    assert all(map(os.path.exists, paths))


def test_more_shards_than_elements(tmp_path):
    paths = write(numbered(2), tmp_path / "a.arrayrecord", shards=5)
    assert sum(len(ArrayRecordDataSource(path)) for path in paths) == 2
    assert list(ArrayRecordDataSource(paths)) == numbered(2)
    assert len(ArrayRecordDataSource(write([], tmp_path / "empty.arrayrecord"))) == 0


@pytest.mark.parametrize("guess", [4, 10, 30])
def test_a_guessed_length(guess, tmp_path):
    paths = write(stream(10), tmp_path / "a.arrayrecord", shards=3, length=guess)
    assert (len(paths), list(ArrayRecordDataSource(paths))) == (3, numbered(10))


def test_elements_that_are_encoded_and_filtered(tmp_path):
    dataset = MapDataset.range(10).filter(lambda number: number % 2 == 0)
    paths = write(dataset, tmp_path / "a.arrayrecord", shards=2, encode=pickle.dumps)
    assert list(map(pickle.loads, ArrayRecordDataSource(paths))) == [0, 2, 4, 6, 8]


@pytest.mark.parametrize(("size", "expected"), [(0, 16), (100, 16), (1000, 16), (4000, 4), (100_000, 1)])
def test_small_records_are_grouped(size, expected, tmp_path):
    [path] = write([bytes(size)] * 20, tmp_path / "a.arrayrecord")
    assert group_size(path) == f"group_size:{expected}"


def test_a_group_size_that_was_asked_for(tmp_path):
    [path] = write(numbered(20), tmp_path / "a", "arrayrecord", group_size=3)
    assert group_size(path) == "group_size:3"


ROWS = [{"id": number, "name": f"n{number}", "image": np.full((2, 3), number)} for number in range(10)]


def test_parquet(tmp_path):
    paths = write(ROWS, tmp_path / "rows.parquet", shards=2, rows_per_group=2)
    files = [pyarrow.parquet.ParquetFile(path) for path in paths]
    assert [file.num_row_groups for file in files] == [3, 3]
    rows = [row for file in files for row in file.read().to_pylist()]
    assert rows == [{**row, "image": row["image"].tolist()} for row in ROWS]


class Tensor:
    """An array of another library."""

    def __array__(self, dtype=None, copy=None):
        return np.arange(2, dtype=np.float32)


def test_values_of_all_types(tmp_path):
    row = {
        "day": np.datetime64("2020-01-02"),
        "time": np.datetime64("2020-01-02T03:04:05"),
        "nested": {"image": np.eye(2, dtype=np.uint8), "day": np.array("NaT", "M8[D]")},
        "tensor": Tensor(),
        "number": np.array(3, np.int16),
    }
    paths = write([row], tmp_path / "a.parquet")
    [read] = ParquetDataSource(paths)
    assert (read["day"], read["time"], read["number"].dtype) == (row["day"], row["time"], np.int16)
    assert [part.tolist() for part in read["nested"]["image"]] == [[1, 0], [0, 1]]
    assert plain(read["tensor"]) == ("array", "float32", (2,), [0.0, 1.0])
    again = ParquetDataSource(write(ParquetDataSource(paths), tmp_path / "b.parquet"))
    assert repr(plain(again[0])) == repr(plain(read))


def test_columns_that_only_some_of_the_first_rows_have(tmp_path):
    paths = write([{"x": 1}, {"x": 2, "y": "a"}, {"y": "b"}], tmp_path / "a.parquet")
    assert pyarrow.parquet.read_table(paths[0]).to_pylist() == [
        {"x": 1, "y": None},
        {"x": 2, "y": "a"},
        {"x": None, "y": "b"},
    ]


class Row(dict):
    """A row that counts how often rows were shown."""

    shown = 0

    def __repr__(self):
        Row.shown += 1
        return super().__repr__()


def test_few_rows_are_shown_to_tell_a_job_from_others(tmp_path):
    write([Row(x=bytes(1000)) for _ in range(900)], tmp_path / "a.parquet")
    assert 0 < Row.shown < 50


def test_no_rows_at_all(tmp_path):
    with pytest.raises(ValueError, match="no elements, which would tell the columns"):
        write([], tmp_path / "a.parquet")
    assert list(ParquetDataSource(write([], tmp_path / "a.parquet", schema=pyarrow.schema([("x", "int8")])))) == []


def test_all_shards_have_the_types_of_the_first_rows(tmp_path):
    rows = [{"x": 1.5}, {"x": 2.5}, {"x": None}, {"x": 3}]
    paths = write(rows, tmp_path / "rows.parquet", shards=4, rows_per_group=2)
    assert {str(pyarrow.parquet.read_schema(path).field("x").type) for path in paths} == {"double"}
    schema = pyarrow.schema([("x", pyarrow.float32())])
    [path] = write(rows, tmp_path / "small.parquet", schema=schema)
    assert pyarrow.parquet.read_table(path).column("x").to_pylist() == [1.5, 2.5, None, 3]


def test_types_that_change_on_the_way(tmp_path):
    with pytest.raises(pyarrow.ArrowInvalid) as caught:
        write([{"x": 1}, {"x": "one"}], tmp_path / "rows.parquet", rows_per_group=1)
    assert "Pass schema=" in caught.value.__notes__[0]
    assert os.listdir(tmp_path) == []


def test_columns_that_are_new_on_the_way(tmp_path):
    with pytest.raises(ValueError, match=r"columns \['y'\] beside those of the first ones"):
        write([{"x": 1}, {"x": 2, "y": 3}], tmp_path / "rows.parquet", rows_per_group=1)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda path: write([b"a"], path), "The format of .* is not known by its name. Pass format=, one of"),
        (lambda path: write([b"a"], path, "csv"), "Cannot write 'csv': format must be one of"),
        (lambda path: write([b"a"], path, "arrayrecord", shards=0), "shards must be at least 1, got 0"),
        (lambda path: write([b"a"], path, "arrayrecord", group_size=0), "group_size must be at least 1, got 0"),
        (lambda path: write([{"a": 1}], path, "parquet", rows_per_group=0), "rows_per_group must be at least 1, got 0"),
        (lambda path: write(stream(3), path, "arrayrecord", shards=2), "generator has no length.*: pass length="),
        (lambda path: write(stream(3), path, "arrayrecord", length=-1), "length must be at least 0, got -1"),
        (lambda path: write(stream(3), path, "arrayrecord", workers=2), "elements that can be had by index"),
        (lambda path: write(MapDataset.range(3).repeat(), path, "parquet"), "no end. Write one epoch"),
    ],
)
def test_arguments_that_make_no_sense(call, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        call(tmp_path / "a")
    assert os.listdir(tmp_path) == []


def test_options_of_another_format(tmp_path):
    with pytest.raises(
        TypeError, match=r"ArrayRecordFormat has the options \['group_size'\], got \['rows_per_group'\]"
    ):
        write([b"a"], tmp_path / "a.arrayrecord", rows_per_group=3)


@pytest.mark.parametrize(
    ("name", "elements", "message"),
    [
        ("a.arrayrecord", [b"a", {"x": 1}], r"hold bytes, got \{'x': 1\} \(dict\). Pass encode="),
        ("a.parquet", [{"x": 1}, b"a"], r"hold dicts, a column for each key, got b'a' \(bytes\). Pass encode="),
    ],
)
def test_elements_of_the_wrong_type_are_named(name, elements, message, tmp_path):
    with pytest.raises(TypeError, match=message) as caught:
        write(elements, tmp_path / name)
    assert "Raised for element 1 of those to be written." in caught.value.__notes__
    assert os.listdir(tmp_path) == []


def test_files_that_were_there_are_replaced(tmp_path):
    for count in (5, 3):
        paths = write(numbered(count), tmp_path / "a.arrayrecord", shards=2)
    assert list(ArrayRecordDataSource(paths)) == numbered(3)


class Failing:
    """A source of bytes of which one can not be read, and a record of what was read."""

    def __init__(self, failing=None, error=ValueError):
        self.failing, self.error, self.read = failing, error, []

    def __len__(self):
        return 80

    def __getitem__(self, index):
        self.read.append(index)
        if index == self.failing:
            raise self.error("no such luck")
        return b"%d" % index


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_job_that_fails_goes_on_where_it_was(error, tmp_path):
    target = tmp_path / "a-*.arrayrecord"
    with pytest.raises(error):
        write(Failing(failing=55, error=error), target, shards=4)
    finished = [path.name for path in sorted(tmp_path.glob("a-*"))]
    assert finished == ["a-00000-of-00004.arrayrecord", "a-00001-of-00004.arrayrecord"]
    source = Failing()
    paths = write(source, target, shards=4)
    assert set(source.read) == {*range(16), *range(40, 80)}  # the first are looked at to see what they are like
    assert list(ArrayRecordDataSource(paths)) == numbered(80)
    assert sorted(os.listdir(tmp_path)) == names(paths)  # the journal is gone
    again = Failing()
    write(again, target, shards=4)
    assert set(again.read) == set(range(80))


def test_a_stream_is_passed_over_up_to_where_it_was(tmp_path, caplog):
    def failing():
        yield from stream(50)
        raise ValueError("no such luck")

    with pytest.raises(ValueError, match="no such luck"):
        write(failing(), tmp_path / "a.arrayrecord", shards=4, length=80)
    first = tmp_path / "a-00000-of-00004.arrayrecord"
    written = first.stat().st_mtime_ns
    with caplog.at_level(logging.WARNING, "grain"):
        paths = write(stream(80), tmp_path / "a.arrayrecord", shards=4, length=80)
    assert caplog.messages == ["Passing over the elements of 2 shards that are finished."]
    assert first.stat().st_mtime_ns == written
    assert list(ArrayRecordDataSource(paths)) == numbered(80)


@pytest.mark.parametrize("change", ["shards", "group size", "elements", "file", "journal"])
def test_what_another_job_finished_is_written_again(change, tmp_path):
    with pytest.raises(ValueError, match="no such luck"):
        write(Failing(failing=55), tmp_path / "a-*.arrayrecord", shards=4, group_size=2)
    elements, shards, options = Failing(), 4, {"group_size": 2}
    if change == "shards":
        shards = 2
    elif change == "group size":
        options["group_size"] = 3
    elif change == "elements":
        elements = MapDataset.source(elements)[::-1]
    elif change == "journal":
        [journal] = tmp_path.glob(".*.json")
        journal.write_text("")
    else:
        tmp_path.joinpath("a-00000-of-00004.arrayrecord").write_bytes(b"touched")
    expected = [elements[index] for index in range(80)]
    paths = write(elements, tmp_path / "a-*.arrayrecord", shards=shards, **options)
    assert list(ArrayRecordDataSource(paths)) == expected


def test_workers(tmp_path):
    target = tmp_path / "a-*.arrayrecord"
    with pytest.raises(ValueError, match="no such luck"):
        write(Failing(failing=79), target, shards=4, workers=2)
    assert not list(tmp_path.glob("*.partial"))
    dataset = MapDataset.source(Failing()).shuffle(seed=3)
    paths = write(dataset, target, shards=5, workers=2, encode=lambda record: record + b"!")
    assert list(ArrayRecordDataSource(paths)) == [record + b"!" for record in dataset]
    assert sorted(os.listdir(tmp_path)) == sorted({*names(paths), *names(tmp_path.glob("*-of-00004*"))})


@pytest.mark.parametrize("name", ["a.arrayrecord", "a.parquet"])
def test_a_full_disk_leaves_nothing(name, tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    records = MapDataset.range(100).map(lambda number: np.random.default_rng(number).bytes(100_000))
    encode = None if name == "a.arrayrecord" else lambda record: {"x": record}
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            write(records, tmp_path / name, encode=encode)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert os.listdir(tmp_path) == []


def test_what_a_killed_program_left_is_removed(tmp_path):
    tmp_path.joinpath("a-00000-of-00002.arrayrecord.123.partial").touch()
    paths = write(numbered(3), tmp_path / "a.arrayrecord", shards=2)
    assert sorted(os.listdir(tmp_path)) == names(paths)


INTERRUPTED = """
    import time
    from grain.sources import write

    def encode(number):
        if number == 25:
            print("started", flush=True)
            time.sleep(60)
        return b"%d" % number

    write(list(range(80)), {target!r}, shards=8, encode=encode, workers={workers})
"""


@pytest.mark.parametrize("workers", [0, 2])
def test_ctrl_c_leaves_nothing(workers, tmp_path):
    running = program(INTERRUPTED.format(target=str(tmp_path / "a.arrayrecord"), workers=workers), how="-c")
    assert running.read_line() == "started"
    for pid in [*running.descendants(), running.pid]:  # as a terminal does
        os.kill(pid, signal.SIGINT)
    code, _, errors = running.finish()
    assert code == -signal.SIGINT, errors
    running.assert_nothing_left()
    assert not list(tmp_path.glob("*.partial"))
    finished = sorted(tmp_path.glob("a-*"))
    assert finished
    assert {len(ArrayRecordDataSource(path)) for path in finished} == {10}


def test_progress(tmp_path, capfd):
    for elements in (numbered(1000), stream(1000)):
        write(elements, tmp_path / "a.arrayrecord", shards=2, length=1000, progress=True)
        assert "1000/1000" in capfd.readouterr().err
    write(numbered(1000), tmp_path / "a.arrayrecord")
    assert capfd.readouterr() == ("", "")


def test_far_away(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAIN_CACHE", str(tmp_path))
    try:
        paths = write(numbered(10), "memory://written/a-*.arrayrecord", shards=2)
        assert paths[1] == "memory://written/a-00001-of-00002.arrayrecord"
        assert os.listdir(tmp_path) == []
        assert list(ArrayRecordDataSource(paths)) == numbered(10)
    finally:
        fsspec.filesystem("memory").rm("/written", recursive=True)


def test_a_writer_by_itself(tmp_path):
    chosen = format_of("a.array_record", None, {}).fitted(numbered(3))
    assert isinstance(chosen, ArrayRecordFormat)
    writer = chosen.open(str(tmp_path / "a"))
    writer.write(b"x")
    writer.close()
    assert list(grain.ArrayRecordDataSource(tmp_path / "a")) == [b"x"]
