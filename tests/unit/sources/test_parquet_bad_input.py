"""Parquet files that are damaged, do not fit together, or are none."""

import functools
import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from grain import ParquetIterDataset
from grain.api.iter_dataset import NodeIterDataset
from grain.ops.worker_parts import sharded
from grain.sources import ParquetDataSource
from grain.sources import parquet as parquet_module
from support.parquet_files import TEN_ROWS, write_parquet


@pytest.fixture
def write(tmp_path):
    """Writes columns to a file and gives its path."""
    return functools.partial(write_parquet, tmp_path)


@pytest.fixture
def ten(write):
    """Ten rows in row groups of 3."""
    return write("ten.parquet", TEN_ROWS)


def results(iterator):
    """Elements and messages of errors."""
    found = []
    while True:
        try:
            found.append(int(next(iterator)["x"]))
        except StopIteration:
            return found
        except ValueError as error:
            found.append(str(error))


def damage(path, group):
    """Overwrite the pages of a row group."""
    column = pq.ParquetFile(path).metadata.row_group(group).column(0)
    with open(path, "r+b") as file:
        file.seek(column.data_page_offset)
        file.write(b"\xff" * 20)


def test_a_damaged_row_group_is_an_error_and_the_others_are_read(write):
    path = write("bad.parquet", {"x": list(range(8))}, use_dictionary=False)
    damage(path, 1)
    first, error, *others = np.split(np.array(results(iter(ParquetIterDataset(path))), object), [3, 4])
    assert (first.tolist(), others[0].tolist()) == ([0, 1, 2], [6, 7])
    assert f"Row group 1 of {path!r} cannot be read" in error[0]
    source = ParquetDataSource(path)
    assert [source[i]["x"] for i in (0, 2, 6, 7)] == [0, 2, 6, 7]
    with pytest.raises(ValueError, match=r"Row group 1 of '.*bad.parquet' cannot be read"):
        source[4]


def test_a_stream_passes_over_a_file_that_cannot_be_opened(write, ten, tmp_path):
    bad = tmp_path / "bad.parquet"
    bad.write_bytes(b"PAR1")
    iterator = iter(ParquetIterDataset([bad, ten]))
    error, *found = results(iterator)
    assert "bad.parquet' is not a Parquet file, or is damaged" in error
    assert found == list(range(10))
    resumed = iter(ParquetIterDataset([bad, ten]))
    resumed.set_state(iterator.get_state())
    assert results(resumed) == []
    shared = [NodeIterDataset(sharded(ParquetIterDataset([bad, ten])._node, index, 4)) for index in range(4)]
    assert [len(results(iter(part))) for part in shared] == [1, 6, 0, 4]
    with pytest.raises(ValueError, match=r"bad.parquet' is not a Parquet file"):
        ParquetDataSource([ten, bad])


@pytest.mark.parametrize("make", [ParquetDataSource, lambda path: next(iter(ParquetIterDataset(path)))])
def test_files_that_are_none(ten, tmp_path, make):
    content = Path(ten).read_bytes()
    for name, bad in {"empty": b"", "cut": content[:-20], "text": b"hello, world" * 10}.items():
        path = tmp_path / name
        path.write_bytes(bad)
        with pytest.raises(ValueError, match=rf"{name}' is not a Parquet file, or is damaged"):
            make(path)
    with pytest.raises(FileNotFoundError, match="missing"):
        make(tmp_path / "missing")


def test_a_file_that_changes_after_it_was_opened(ten):
    source = ParquetDataSource(ten, cache_bytes=1)
    assert source[0]["x"] == 0
    os.truncate(ten, 500)
    with pytest.raises(ValueError, match=r"ten.parquet' was changed after it was opened"):
        source[9]


@pytest.mark.parametrize("make", [ParquetDataSource, lambda paths: next(iter(ParquetIterDataset(paths)))])
def test_files_with_other_columns(write, ten, make):
    other = write("other.parquet", {"x": ["1"], "name": ["a"]})
    with pytest.raises(ValueError, match=r"'x' is int64 in '.*ten.parquet' and string in '.*other.parquet'"):
        make([ten, other])
    fewer = write("fewer.parquet", {"x": [1]})
    with pytest.raises(
        ValueError, match=r"ten.parquet' and '.*fewer.parquet' do not have the same columns: \['name'\]"
    ):
        make([ten, fewer])
    assert len(ParquetDataSource([ten, other], columns=["name"])) == 11


def test_columns_of_the_same_name(tmp_path):
    table = pa.table([pa.array([1]), pa.array([2]), pa.array([3])], names=["x", "y", "x"])
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"a.parquet' has several columns 'x'"):
        ParquetDataSource(tmp_path / "a.parquet")
    assert list(ParquetIterDataset(tmp_path / "a.parquet", columns=["y"])) == [{"y": 2}]


def test_a_path_that_pyarrow_cannot_take_is_named(ten, tmp_path):
    path = os.fsencode(tmp_path) + b"/\xff.parquet"
    shutil.copy(ten, path)
    with pytest.raises(ValueError, match=r"\\udcff.parquet' is not a Parquet file.*surrogates"):
        ParquetDataSource(path)


def test_a_column_without_values_has_the_type_of_the_other_files(write, ten):
    nothing = write("nothing.parquet", {"x": pa.nulls(2), "name": ["a", "b"]})
    source = ParquetDataSource([nothing, ten])
    assert [type(source[i]["x"]) for i in (0, 2)] == [np.float64] * 2
    assert source[2] == {"x": 0.0, "name": "row 0"}


def test_without_pyarrow_the_error_says_what_to_install(ten, monkeypatch):
    monkeypatch.setattr("grain.sources.parquet.parquet", type(parquet_module.parquet)("pyarrow.no_such_module"))
    with pytest.raises(ImportError, match=r"pip install 'grain\[arrow\]'"):
        ParquetDataSource(ten)
