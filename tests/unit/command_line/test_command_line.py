"""The command `grain`, as one types it."""

import json
import os
import pickle
import resource
import subprocess
import sys

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from PIL import Image

from grain import ArrayRecordDataSource, JsonLinesDataSource, ParquetDataSource
from grain.command_line import main
from grain.command_line.describing import lines, sizes_of_some
from support.record_files import tar


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """An empty folder to work in, and one for indexes."""
    monkeypatch.setenv("GRAIN_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def table(here):
    columns = {"id": range(100), "word": [f"word {number}" for number in range(100)]}
    pa.parquet.write_table(pa.table(columns), here / "table.parquet", row_group_size=30)


@pytest.fixture
def photos(here):
    for name, size in (("cat/1.png", (6, 4)), ("dog/2.jpg", (5, 7))):
        here.joinpath("photos", name).parent.mkdir(parents=True)
        Image.new("RGB", size).save(here / "photos" / name)


def run(capsys, *arguments):
    """The exit status, and what was printed, with single spaces."""
    status = main(arguments)
    printed = capsys.readouterr()
    return status, " ".join(printed.out.split()), printed.err


def test_inspect_shows_format_numbers_sizes_and_records(capsys, table):
    status, output, _ = run(capsys, "inspect", "table.parquet")
    assert status == 0
    assert "format Parquet files 1: table.parquet size" in output
    assert "records 100" in output
    assert "record 0 id 0 (int64) word 'word 0' record 1 id 1 (int64) word 'word 1'" in output
    assert "record 2" not in output


def test_inspect_shows_images_as_their_type_and_size(capsys, photos):
    _, output, _ = run(capsys, "inspect", "photos")
    assert "format folder of images files 2: photos/cat/1.png … " in output
    assert "labels 0 cat, 1 dog" in output
    assert "image PNG image, 6 x 4 RGB" in output
    assert "image JPEG image, 5 x 7 RGB" in output


def test_inspect_of_several_formats(capsys, table, photos, here):
    here.joinpath("a.tar").write_bytes(tar([("x.txt", b"hello"), ("x.cls", b"3")]))
    _, output, _ = run(capsys, "inspect", "table.parquet", "a.tar", "--records", "1")
    assert "format Parquet" in output
    assert "format WebDataset" in output
    assert "__key__ 'x' txt 5 B: 'hello' cls 1 B: '3'" in output


def test_inspect_of_nothing(capsys, here):
    here.joinpath("empty.jsonl").touch()
    assert "records 0" in run(capsys, "inspect", "empty.jsonl")[1]


@pytest.mark.parametrize("workers", ["0", "2"])
def test_convert_to_array_records(capsys, table, workers):
    status, output, _ = run(
        capsys, "convert", "table.parquet", "out.arrayrecord", "--shards", "3", "--workers", workers
    )
    assert status == 0
    assert "100 records in 3 files" in output
    assert "out-00000-of-00003.arrayrecord … out-00002-of-00003.arrayrecord" in output
    assert "read them with .map(pickle.loads)" in output
    records = [pickle.loads(record) for record in ArrayRecordDataSource("out-*.arrayrecord")]
    assert records == [{"id": number, "word": f"word {number}"} for number in range(100)]


def test_convert_of_some_columns_as_json(capsys, table):
    run(capsys, "convert", "table.parquet", "out.arrayrecord", "--columns", "id", "--encoding", "json")
    assert json.loads(ArrayRecordDataSource("out.arrayrecord")[7]) == {"id": 7}


def test_convert_to_parquet_and_back(capsys, here, photos):
    status, output, _ = run(capsys, "convert", "photos", "photos.parquet")
    assert (status, output.endswith("Labels: 0 cat, 1 dog.")) == (0, True)
    image = ParquetDataSource("photos.parquet")[1]
    assert image == {"image": here.joinpath("photos/dog/2.jpg").read_bytes(), "label": 1}
    assert run(capsys, "convert", "photos.parquet", "photos.arrayrecord")[0] == 0
    assert run(capsys, "convert", "photos.arrayrecord", "again.parquet")[0] == 0
    assert pickle.loads(ParquetDataSource("again.parquet")[1]["record"]) == image


@pytest.fixture
def interrupted(capsys, here):
    """A conversion that ended in its last shard, for want of space: the files that are finished, and when they were."""
    texts = [""] * 50 + [np.random.default_rng(number).bytes(1000).hex() for number in range(10)]
    lines = [json.dumps({"id": number, "text": text}) for number, text in enumerate(texts)]
    here.joinpath("in.jsonl").write_text("\n".join(lines))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, limits[1]))
    try:
        command = ["convert", "in.jsonl", "out-*.parquet", "--shards", "3"]
        status, _, errors = run(capsys, *command)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (status, "File too large" in errors) == (1, True)
    finished = {path.name: path.stat().st_mtime_ns for path in sorted(here.glob("out-*.parquet"))}
    assert [*finished] == ["out-00000-of-00003.parquet", "out-00001-of-00003.parquet"]
    return finished


def ids(pattern):
    return [int(record["id"]) for record in ParquetDataSource(pattern)]


@pytest.mark.parametrize("option", [[], ["--resume"], ["--overwrite"]])
def test_convert_continues_where_it_was_interrupted(capsys, here, interrupted, option):
    assert run(capsys, "convert", "in.jsonl", "out-*.parquet", "--shards", "3", *option)[0] == 0
    assert {name: here.joinpath(name).stat().st_mtime_ns for name in interrupted} == interrupted
    assert ids("out-*.parquet") == list(range(60))


@pytest.mark.parametrize("change", ["source", "shards"])
def test_convert_of_something_else_starts_over_or_is_refused(capsys, here, interrupted, change):
    command = ["convert", "in.jsonl", "out-*.parquet", "--shards", "3"]
    expected = list(range(60))
    if change == "source":
        here.joinpath("in.jsonl").write_text(here.joinpath("in.jsonl").read_text().replace('"id": 30', '"id": 99'))
        expected[30] = 99
    else:
        command[-1] = "2"
    status, _, errors = run(capsys, *command, "--resume")
    assert status == 1
    assert "begun by another job, which differs in: " in errors
    assert {name: here.joinpath(name).stat().st_mtime_ns for name in interrupted} == interrupted
    assert run(capsys, *command)[0] == 0
    assert ids("out-*.parquet") == expected


def test_convert_replaces_nothing_unless_it_is_told_to(capsys, here):
    for number in range(3):
        pa.parquet.write_table(pa.table({"id": [number]}), here / f"part-{number}.parquet")
    before = {path.name: path.read_bytes() for path in here.iterdir()}
    command = ["convert", *sorted(before)]  # the destination was forgotten
    status, _, errors = run(capsys, *command)
    assert status == 1
    assert "'part-2.parquet' is there already" in errors
    assert "The last path, 'part-2.parquet', is the destination. To replace files: --overwrite." in errors
    assert {path.name: path.read_bytes() for path in here.iterdir()} == before
    assert run(capsys, *command, "--overwrite")[0] == 0
    assert ids("part-2.parquet") == [0, 1]


@pytest.mark.parametrize(
    ("sources", "destination"),
    [
        (["a.parquet"], "a.parquet"),
        (["a.parquet"], "./folder/../a.parquet"),
        (["a.parquet"], "link.parquet"),
        (["link.parquet"], "a.parquet"),
        (["a.parquet"], "linked/a.parquet"),
        (["a.parquet"], "hard.parquet"),
        (["*.parquet"], "a.parquet"),
        (["a.parquet"], "{here}/a.parquet"),
        (["a.parquet"], "file://{here}/a.parquet"),
        (["file://{here}/a.parquet"], "a.parquet"),
        (["a-00000-of-00001.parquet"], "a-*.parquet"),
        (["photos"], "photos/cat/1.png"),
        (["photos/"], "linked/photos/cat/1.png"),
        (["memory://convert/a.parquet"], "memory://convert/a.parquet"),
        (["memory://convert/*.parquet"], "memory://convert/b/../a.parquet"),
    ],
)
def test_convert_never_replaces_a_source(capsys, here, photos, sources, destination):
    here.joinpath("folder").mkdir()
    for name in ("a.parquet", "a-00000-of-00001.parquet"):
        pa.parquet.write_table(pa.table({"id": [1]}), here / name)
    here.joinpath("link.parquet").symlink_to("a.parquet")
    here.joinpath("linked").symlink_to(here)
    os.link(here / "a.parquet", here / "hard.parquet")
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/convert/a.parquet", here.joinpath("a.parquet").read_bytes())
    before = here.joinpath("a.parquet").read_bytes()
    command = [
        path.format(here=here) for path in ("convert", *sources, destination, "--format", "parquet", "--overwrite")
    ]
    try:
        status, _, errors = run(capsys, *command)
        assert memory.cat_file("/convert/a.parquet") == before
    finally:
        memory.rm("/convert", recursive=True)
    assert status == 1
    assert "would be written, and is one of the sources" in errors
    assert here.joinpath("a.parquet").read_bytes() == before


def test_bench_measures_four_ways(capsys, table):
    status, output, _ = run(capsys, "bench", "table.parquet", "--seconds", "0.01", "--batch-size", "1000")
    assert status == 0
    assert "100 records of" in output
    assert "in batches of 100" in output
    for way in ("sequential", "shuffled", "shuffled, threads", "shuffled, 2 processes"):
        assert f"│ {way} │" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["inspect", "missing-*.parquet"], "No file matches 'missing-*.parquet'"),
        (["inspect", "missing.parquet"], "missing.parquet"),
        (["inspect", "table.parquet", "--columns", "nope"], "nope"),
        (["inspect", "notes.md"], "The format of 'notes.md' is not known"),
        (["bench", "empty.jsonl"], "There are no records in empty.jsonl"),
        (["bench", "empty.jsonl", "--columns", "a"], "--columns is for tables (Arrow, CSV, Parquet)"),
        (["convert", "table.parquet", "out.txt"], "out.txt"),
    ],
)
def test_errors_are_one_line_and_leave_nothing(capsys, here, table, arguments, message):
    here.joinpath("notes.md").write_text("# Notes")
    here.joinpath("empty.jsonl").touch()
    before = sorted(here.iterdir())
    status, _, errors = run(capsys, *arguments)
    assert status == 1
    assert errors.startswith("grain: error: ")
    assert message in errors
    assert "Traceback" not in errors
    assert sorted(here.iterdir()) == before
    with pytest.raises((ValueError, OSError, KeyError)):
        main(["--traceback", *arguments])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bench", "x", "--batch-size", "0"], "--batch-size: expected a whole number from 1 on, got '0'"),
        (["bench", "x", "--seconds", "0"], "--seconds: expected more than 0 seconds, got '0'"),
        (["bench", "x", "--seconds", "soon"], "--seconds: invalid seconds value: 'soon'"),
        (["bench", "x", "--workers", "-1"], "--workers: expected a whole number from 0 on, got '-1'"),
        (["convert", "x", "y.parquet", "--shards", "1.5"], "--shards: expected a whole number from 1 on, got '1.5'"),
        (["inspect", "x", "--records", "-1"], "--records: expected a whole number from 0 on, got '-1'"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_opened(capsys, arguments, message):
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert message in capsys.readouterr().err


def test_sizes_are_those_of_records_from_all_over(here):
    here.joinpath("rows.jsonl").write_text("".join(f'"{"x" * (number // 100)}"\n' for number in range(1000)))
    sizes = sizes_of_some(JsonLinesDataSource("rows.jsonl"))
    assert (len(sizes), set(sizes)) == (100, set(range(10)))


def test_help_and_version_as_a_program():
    def printed(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "grain", *arguments], capture_output=True, text=True, check=True
        ).stdout

    assert all(command in printed("--help") for command in ("inspect", "convert", "bench", "examples:"))
    assert "--shards" in printed("convert", "--help")
    assert printed("--version").startswith("grain ")


def test_a_reader_that_has_seen_enough_sees_no_error(here):
    here.joinpath("many.jsonl").write_text('{"word": "word"}\n' * 5000)
    command = f"{sys.executable} -m grain inspect many.jsonl --records 5000 | head -1"
    shown = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["format", "JSON", "lines"]
    assert shown.stderr == ""


HOSTILE = "a\x1b]0;title\x07\x1b[2J\u202egpj.\r\x9b31m[red]\u2028"
SHOWN = HOSTILE.encode("unicode_escape").decode()


def hostile_files(here):
    """Files of many formats, in whose names and contents there is what terminals obey."""
    line = json.dumps({HOSTILE: HOSTILE, "deep": {HOSTILE: [HOSTILE]}})
    here.joinpath(f"{HOSTILE}.jsonl").write_text(f"{line}\n{line}\n")
    pa.parquet.write_table(pa.table({HOSTILE: [HOSTILE], "x": [{HOSTILE: 1}]}), here / f"{HOSTILE}.parquet")
    here.joinpath(f"{HOSTILE}.csv").write_text(f'"{HOSTILE}"\n"{HOSTILE}"\n')
    here.joinpath(f"{HOSTILE}.tar").write_bytes(tar([(f"k{HOSTILE}.{HOSTILE}", HOSTILE.encode())]))
    np.savez(here / f"{HOSTILE}.npz", **{HOSTILE: np.array([HOSTILE])})
    here.joinpath("photos", HOSTILE).mkdir(parents=True)
    Image.new("RGB", (2, 2)).save(here / "photos" / HOSTILE / f"{HOSTILE}.png")
    return [f"{HOSTILE}.{kind}" for kind in ("jsonl", "parquet", "csv", "tar", "npz")] + ["photos"]


def run_as_it_is_printed(capsys, *arguments):
    try:
        status = main(arguments)
    except SystemExit as error:
        status = error.code
    printed = capsys.readouterr()
    assert all(letter.isprintable() or letter == "\n" for letter in printed.out + printed.err), printed
    return status, printed.out.replace("\n", "") + printed.err


@pytest.mark.parametrize("number", range(6))
def test_what_terminals_obey_is_escaped(capsys, here, number, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    path = hostile_files(here)[number]
    status, printed = run_as_it_is_printed(capsys, "inspect", path)
    assert status == 0
    assert SHOWN.split("[red]")[0].replace(r"\u2028", "") in printed
    for destination in (f"{HOSTILE}-out.parquet", f"{HOSTILE}-out.arrayrecord"):
        assert run_as_it_is_printed(capsys, "convert", path, destination)[0] == 0
    assert run_as_it_is_printed(capsys, "bench", path, "--seconds", "0.01", "--workers", "0")[0] == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", f"missing{HOSTILE}.parquet"],
        ["inspect", f"missing{HOSTILE}*.parquet"],
        ["inspect", f"{HOSTILE}.unknown"],
        ["inspect", f"{HOSTILE}.parquet", "--columns", "nope"],
        ["inspect", f"{HOSTILE}.csv", "--columns", HOSTILE + "x"],
        ["inspect", f"--{HOSTILE}", "x"],
        [HOSTILE],
        ["inspect", "bad/bad.jsonl"],
        ["inspect", "bad/bad.csv"],
        ["inspect", "bad/bad.tar"],
        ["inspect", "bad/bad.parquet"],
        ["inspect", "bad/bad.arrayrecord"],
        ["inspect", f"bad/{HOSTILE}.arrayrecord"],
        ["convert", f"{HOSTILE}.jsonl", f"{HOSTILE}.txt"],
        ["convert", f"{HOSTILE}.jsonl", f"none/{HOSTILE}.parquet", "--shards", "x\x1b"],
    ],
)
def test_what_terminals_obey_is_escaped_in_errors(capsys, here, arguments):
    hostile_files(here)
    here.joinpath(f"{HOSTILE}.unknown").write_text("?")
    here.joinpath("bad").mkdir()
    here.joinpath("bad", "bad.jsonl").write_text(HOSTILE)
    here.joinpath("bad", "bad.csv").write_text(f"a,b\n{HOSTILE}\n")
    here.joinpath("bad", "bad.tar").write_bytes(tar([(f"k.{HOSTILE}", b"1"), (f"k.{HOSTILE}", b"1")]))
    for name in ("bad.parquet", "bad.arrayrecord", f"{HOSTILE}.arrayrecord"):
        here.joinpath("bad", name).write_text(HOSTILE * 1000)
    status, printed = run_as_it_is_printed(capsys, *arguments)
    assert status in (1, 2)
    assert "error: " in printed


def test_a_name_that_is_not_text(capsys, here):
    path = "\udcff.jsonl"
    here.joinpath(path).write_text("1\n")
    status, printed = run_as_it_is_printed(capsys, "inspect", path)
    assert (status, r"\udcff.jsonl" in printed) == (0, True)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b"", "0 B"),
        (b"\x00\xff\x01", "3 B: 00 ff 01"),
        (pickle.dumps([1]), f"a pickle, {len(pickle.dumps([1]))} B"),
        (np.zeros((0, 3)), "float64 (0, 3)"),
        (np.arange(100, dtype=np.int16), "int16 (100,), 0 to 99"),
        (np.array(["a"] * 9), "<U1 (9,): np.str_('a') …"),
        (np.float32(0.5), "0.5 (float32)"),
        (None, "None"),
        ("x" * 100, "'" + "x" * 58 + "…"),
    ],
)
def test_values_are_shown_readably(value, shown):
    assert list(lines({"key": value})) == [("key", shown)]
