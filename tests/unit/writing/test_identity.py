"""What identifies a job of writing: another function, option or source starts over, the same one continues."""

import functools
import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from PIL import Image

import grain
from grain import ArrayRecordDataSource, JsonLinesDataSource, JsonLinesIterDataset, MapDataset
from grain.sources import write
from grain.writing.identity import identity

SUFFIX = b"!"


class Source:
    """Eighty records, of which one may not be readable."""

    def __init__(self, failing=None):
        self.failing = failing

    def __len__(self):
        return 80

    def __getitem__(self, index):
        if index == self.failing:
            raise ValueError("no such luck")
        return b"%d" % index


def appending(suffix):
    return lambda record: record + suffix


def with_default(suffix):
    def encode(record, suffix=suffix, *, again=suffix):
        return record + suffix + again

    return encode


def with_global(suffix):
    scope = {}
    exec(f"suffix = {suffix!r}\ndef encode(record): return (lambda: record + suffix)()", scope)
    return scope["encode"]


def with_helper(suffix):
    scope = {}
    exec(f"def helper(record): return record + {suffix!r}\ndef encode(record): return helper(record)", scope)
    return scope["encode"]


def with_table(suffix):
    table = {"suffix": [suffix]}
    return lambda record: record + table["suffix"][0]


class Encoder:
    def __init__(self, suffix):
        self.suffix = suffix

    def __call__(self, record):
        return record + self.suffix

    def encode(self, record):
        return record + self.suffix


def class_with_code(suffix):
    scope = {"__name__": "__main__"}
    code = f"""
        class Encoder:
            @staticmethod
            def suffix(): return {suffix!r}
            def __call__(self, record): return record + self.suffix()
    """
    exec(textwrap.dedent(code), scope)
    return scope["Encoder"]()


ENCODERS = {
    "closure": appending,
    "default": with_default,
    "global": with_global,
    "function that it calls": with_helper,
    "table": with_table,
    "array": lambda suffix: (lambda array: lambda record: record + array.tobytes())(np.frombuffer(suffix, np.uint8)),
    "object": Encoder,
    "method": lambda suffix: Encoder(suffix).encode,
    "code of a class": class_with_code,
    "partial": lambda suffix: functools.partial(lambda suffix, record: record + suffix, suffix),
    "cached": lambda suffix: functools.lru_cache(appending(suffix)),
}


@pytest.mark.parametrize("kind", ENCODERS)
def test_another_encode_starts_over_and_the_same_continues(kind, tmp_path):
    make, target = ENCODERS[kind], tmp_path / "a-*.arrayrecord"
    with pytest.raises(ValueError, match="no such luck"):
        write(Source(failing=55), target, shards=4, encode=make(b"?"))
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("a-*")}
    assert len(before) == 2
    with pytest.raises(ValueError, match=r"were begun by another job, which differs in: encode.*resume"):
        write(Source(), target, shards=4, encode=make(b"!"), resume=True)
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("a-*")} == before
    with pytest.raises(ValueError, match="no such luck"):
        write(Source(failing=70), target, shards=4, encode=make(b"?"), resume=True)
    assert {name: tmp_path.joinpath(name).stat().st_mtime_ns for name in before} == before
    paths = write(Source(), target, shards=4, encode=make(b"!"))
    assert list(ArrayRecordDataSource(paths)) == [make(b"!")(b"%d" % number) for number in range(80)]


def test_what_cannot_be_told_starts_over(tmp_path):
    lines = (line for line in "?!")
    for failing in (55, None):
        source = Source(failing)
        encode = lambda record: record + (b"?" if source.failing else b"!") + bytes(lines is None)  # noqa: E731, B023
        if failing:
            with pytest.raises(ValueError, match="no such luck"):
                write(source, tmp_path / "a.arrayrecord", shards=4, encode=encode)
    paths = write(source, tmp_path / "a.arrayrecord", shards=4, encode=encode)
    assert list(ArrayRecordDataSource(paths)) == [b"%d!" % number for number in range(80)]


@pytest.mark.parametrize("seed", [0, 1])
def test_it_is_the_same_in_another_process(seed, tmp_path):
    script = """
        from grain.writing.identity import identity
        WORDS = {"one", "two", "three"}
        def helper(word): return word in WORDS or word in {"four", "five", "six"} or helper(word[1:])
        class Transform:
            words = {"a": WORDS}
            def __init__(self): self.words = ["x"]
            def map(self, element): return helper(element), Transform
        import grain
        dataset = grain.MapDataset.range(9).shuffle(seed=3).map(lambda x: helper(x)).batch(2)
        print(identity(helper), identity(Transform()), identity(dataset), identity(dataset.to_iter_dataset()))
    """
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(script))
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    found = [
        subprocess.run([sys.executable, path], env=env, capture_output=True, text=True, check=True).stdout
        for env in (environment, {**os.environ, "PYTHONHASHSEED": "7"})
    ]
    assert found[0] == found[1]
    assert "None" not in found[0]


def changed(values):
    return [*values[:50], -1, *values[51:]]


def lines_at(folder, values):
    path = folder / "in.jsonl"
    path.write_text("".join(f"{value}\n" for value in values))
    return path


def pictures_at(folder, values):
    (folder / "pictures" / "x").mkdir(parents=True, exist_ok=True)
    for number, value in enumerate(values):
        Image.new("L", (1, 1), value % 256).save(folder / "pictures" / "x" / f"{number:03}.png")
    return folder / "pictures"


SOURCES = {
    "list": lambda folder, values: values,
    "array": lambda folder, values: np.array(values),
    "mapped list": lambda folder, values: MapDataset.source(values).map(lambda value: value),
    "lines": lambda folder, values: JsonLinesDataSource(lines_at(folder, values)),
    "mapped lines": lambda folder, values: MapDataset.source(JsonLinesDataSource(lines_at(folder, values))),
    "stream of lines": lambda folder, values: JsonLinesIterDataset(lines_at(folder, values)),
    "arrays in a file": lambda folder, values: (
        np.save(folder / "a.npy", values) or grain.NumpyDataSource(folder / "a.npy")
    ),
    "records": lambda folder, values: ArrayRecordDataSource(
        write([b"%d" % value for value in values], folder / "in.arrayrecord")
    ),
    "pictures": lambda folder, values: grain.ImageFolderDataSource(pictures_at(folder, values)),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_other_elements_start_over_also_where_the_first_are_the_same(kind, tmp_path):
    make, values = SOURCES[kind], list(range(80))
    target = tmp_path / "out" / "a-*.arrayrecord"
    is_blocked = tmp_path / "blocked"
    is_blocked.touch()

    def encode(element):
        if os.path.exists(is_blocked) and "70" in repr(element):
            raise ValueError("no such luck")
        return repr(element).encode()

    def attempt(elements):
        with pytest.raises(ValueError, match="no such luck"):
            write(elements, target, shards=4, length=80, encode=encode)

    attempt(make(tmp_path, values))
    first = tmp_path / "out" / "a-00000-of-00004.arrayrecord"
    written = first.stat().st_mtime_ns
    is_blocked.unlink()
    elements = make(tmp_path, changed(values))
    expected = [encode(element) for element in elements]
    paths = write(elements, target, shards=4, length=80, encode=encode)
    assert list(ArrayRecordDataSource(paths)) == expected
    assert first.stat().st_mtime_ns != written


def test_a_pipeline_whose_function_changes_starts_over(tmp_path):
    def pipeline(suffix, failing=None):
        return MapDataset.source(Source(failing)).map(appending(suffix)).seed(1)

    with pytest.raises(ValueError, match="no such luck"):
        write(pipeline(b"?", 55), tmp_path / "a.arrayrecord", shards=4)
    with pytest.raises(ValueError, match="no such luck"):
        write(pipeline(b"?", 70), tmp_path / "a.arrayrecord", shards=4, resume=True)
    with pytest.raises(ValueError, match="differs in: elements"):
        write(pipeline(b"!"), tmp_path / "a.arrayrecord", shards=4, resume=True)
    paths = write(pipeline(b"!"), tmp_path / "a.arrayrecord", shards=4)
    assert list(ArrayRecordDataSource(paths)) == [b"%d!" % number for number in range(80)]


def test_files_of_another_number_of_shards_are_not_left(tmp_path):
    with pytest.raises(ValueError, match="no such luck"):
        write(Source(failing=55), tmp_path / "a.arrayrecord", shards=4)
    untouched = tmp_path / "a-00002-of-00004.arrayrecord"
    untouched.write_text("a file of somebody else")
    paths = write(Source(), tmp_path / "a.arrayrecord", shards=2)
    assert sorted(tmp_path.iterdir()) == sorted([*map(type(tmp_path), paths), untouched])


def test_a_journal_removes_no_files_but_shards(tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("precious")
    with pytest.raises(ValueError, match="no such luck"):
        write(Source(failing=55), tmp_path / "a.arrayrecord", shards=4)
    [path] = tmp_path.glob(".*.json")
    journal = json.loads(path.read_text())
    journal["finished"] |= {str(precious): grain.files.paths.File(precious).version.stamp}
    path.write_text(json.dumps(journal))
    write(Source(), tmp_path / "a.arrayrecord", shards=2)
    assert precious.exists()


def test_files_that_are_there_are_kept_where_that_is_asked_for(tmp_path):
    target = tmp_path / "a.arrayrecord"
    (tmp_path / "a-00003-of-00004.arrayrecord").write_text("somebody's")
    with pytest.raises(FileExistsError, match=r"a-00003-of-00004\.arrayrecord' is there already. Pass `overwrite`"):
        write(Source(), target, shards=4, overwrite=False)
    assert [path.name for path in tmp_path.iterdir()] == ["a-00003-of-00004.arrayrecord"]
    (tmp_path / "a-00003-of-00004.arrayrecord").unlink()
    with pytest.raises(ValueError, match="no such luck"):
        write(Source(failing=55), target, shards=4, overwrite=False)
    write(Source(), target, shards=4, overwrite=False)
    with pytest.raises(FileExistsError, match="is there already"):
        write(Source(), target, shards=4, overwrite=False)
    (tmp_path / "folder.arrayrecord").mkdir()
    with pytest.raises(IsADirectoryError, match=r"folder\.arrayrecord' is a folder"):
        write(Source(), tmp_path / "folder.arrayrecord")


def test_what_is_not_known_has_no_identity():
    assert identity(iter([1])) == identity(iter([1]))
    assert identity(line for line in "") is None
    assert identity(lambda: (yield)) is not None
