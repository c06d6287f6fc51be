"""Formats by names and by content."""

import pytest

import grain
from grain.sources.detection import FORMATS, format_of
from support.record_files import tar, tfrecord, written


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAIN_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("path", "format"),
    [
        ("a.arrayrecord", "ArrayRecord"),
        ("/x/train.array_record-00001-of-00010", "ArrayRecord"),
        ("s3://bucket/train-00001-of-00010.parquet", "Parquet"),
        ("A.FEATHER", "Arrow"),
        ("b.npz", "NumPy"),
        ("b.csv", "CSV"),
        ("b.jsonl.gz", "JSON lines"),
        ("fashion.tfrecord-00000-of-00001", "TFRecord"),
        ("shard-{0}.tar", "WebDataset"),
    ],
)
def test_by_name(path, format):
    assert format_of(path) == format


@pytest.mark.parametrize(
    ("content", "format"),
    [
        (tar([("a.txt", b"")]), "WebDataset"),
        (b' {"a": 1}\n', "JSON lines"),
        (b"PAR1...", "Parquet"),
        (b"\x93NUMPY", "NumPy"),
    ],
)
def test_by_content(tmp_path, content, format):
    assert format_of(str(written(tmp_path / "data", content))) == format


def test_opening(tmp_path):
    written(tmp_path / "a.tfrecord", tfrecord([b"a", b"b"]))
    written(tmp_path / "b.tfrecord", tfrecord([b"c"]))
    source = grain.sources.open_source(tmp_path / "*.tfrecord")
    assert (type(source), source.__getitems__([0, 2])) == (grain.TFRecordDataSource, [b"a", b"c"])
    assert grain.sources.open_source(str(written(tmp_path / "c.jsonl", b"1\n2\n")))[1] == 2


def test_files_of_different_formats(tmp_path):
    written(tmp_path / "a.tfrecord", b"")
    written(tmp_path / "a.jsonl", b"")
    with pytest.raises(ValueError, match=r"files of one format, got several: .*TFRecord.*a\.tfrecord"):
        grain.sources.open_source(tmp_path / "a.*")


def test_an_unknown_format_tells_all_that_are_known(tmp_path):
    path = written(tmp_path / "a.xyz", b"what is this?")
    with pytest.raises(ValueError, match=r"format of '.*a\.xyz' is not known") as caught:
        grain.sources.open_source(path)
    assert all(format in str(caught.value) for format in FORMATS)
