"""Parquet files that are damaged, do not fit together, or are none."""

import contextlib
import json
import os
import re
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from grain import MultiprocessingOptions, ParquetIterDataset
from grain.api.iter_dataset import NodeIterDataset
from grain.ops.worker_parts import sharded
from grain.sources import ParquetDataSource
from grain.sources import parquet as parquet_module
from support.parquet_files import TEN_ROWS, write_parquet


@pytest.fixture
def write(tmp_path):
    """Writes columns to a file and gives its path."""
    return partial(write_parquet, tmp_path)


@pytest.fixture
def ten(write):
    """Ten rows in row groups of 3."""
    return write("ten.parquet", TEN_ROWS)


def results(iterator):
    """Elements and messages of errors."""
    found = []
    while len(found) < 1000:  # or the same error comes again and again
        try:
            found.append(int(next(iterator)["x"]))
        except StopIteration:
            return found
        except ValueError as error:
            found.append(str(error))
    raise AssertionError(found[-1])


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


def with_another_count(path, group, *, rows):
    """Have the footer of a file with row groups of 3 say that one of them has another number of rows."""
    content = bytearray(Path(path).read_bytes())
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    for place in [place for place in range(footer, len(content) - 8) if content[place] == 3 * 2]:
        changed = content.copy()
        changed[place] = rows * 2  # numbers are written twice as large: the last bit is the sign
        Path(path).write_bytes(changed)
        with contextlib.suppress(OSError):  # that was something else
            if pq.ParquetFile(path).metadata.row_group(group).num_rows == rows:
                return
    raise AssertionError("There is no such number in the footer.")


def with_a_shorter_page(path, group):
    """Have a page of a row group with 3 rows say that there are 2."""
    column = pq.ParquetFile(path).metadata.row_group(group).column(0)
    content = bytearray(Path(path).read_bytes())
    place = content.index(b"\x15\x06", column.data_page_offset)
    content[place + 1] = 4
    Path(path).write_bytes(content)


@pytest.mark.parametrize(
    ("change", "keys"),
    [
        (lambda path: with_another_count(path, 1, rows=2), {0: 0, 2: 2, 5: 6, 7: 8}),
        (lambda path: with_another_count(path, 1, rows=5), {0: 0, 2: 2, 8: 6, 10: 8}),
        (lambda path: with_a_shorter_page(path, 1), {0: 0, 2: 2, 6: 6, 8: 8}),
    ],
    ids=["fewer in the footer", "more in the footer", "fewer in a page"],
)
@pytest.mark.parametrize("cache_bytes", [0, 1 << 30])
def test_a_row_group_of_another_length_than_its_footer_says(write, change, keys, cache_bytes):
    path = write("a.parquet", {"x": list(range(9))}, use_dictionary=False)
    change(path)
    source = ParquetDataSource(path, cache_bytes=cache_bytes)
    for _ in range(2):  # also after one pass
        for key in range(len(source)):
            if key not in range(3) and key < min(key for key in keys if key > 2):
                with pytest.raises(ValueError, match=r"Row group 1 of '.*a.parquet' cannot be read: "):
                    source[key]
        assert {key: source[key]["x"] for key in keys} == keys
        assert [row["x"] for row in source.__getitems__(list(keys))] == list(keys.values())
    with pytest.raises(ValueError, match=r"Row group 1 of '.*a.parquet' cannot be read: "):
        source.batch(np.arange(len(source)))
    first, error, others = np.split(np.array(results(iter(ParquetIterDataset(path))), object), [3, 4])
    assert (first.tolist(), others.tolist()) == ([0, 1, 2], [6, 7, 8])
    assert f"Row group 1 of {path!r} cannot be read" in error[0]


def test_a_state_saved_after_a_file_that_cannot_be_opened(ten, tmp_path):
    bad = tmp_path / "bad.parquet"
    bad.write_bytes(b"PAR1")
    for paths, rest in (([bad], []), ([bad, ten], list(range(10))), ([bad, bad, ten], ["error", *range(10)])):
        dataset = ParquetIterDataset(paths)
        for stream in (dataset, dataset.map(dict), dataset.mp_prefetch(MultiprocessingOptions(num_workers=1))):
            iterator = iter(stream)
            with pytest.raises(ValueError, match=r"bad.parquet' is not a Parquet file"):
                next(iterator)
            resumed = iter(stream)
            resumed.set_state(json.loads(json.dumps(iterator.get_state())))
            found = results(resumed)
            assert ["error" if isinstance(result, str) else result for result in found] == rest
            assert results(iterator) == found
            for each in (iterator, resumed):
                each.close()


WORDS = [f"word {number}" for number in range(700)]


@pytest.fixture
def latin(tmp_path):
    """Rows in groups of 600, of which some have a word that is not UTF-8; and their numbers."""
    bad = [0, 1, 300, 599, 699]
    words = [word.encode() if number not in bad else b"caf\xe9" for number, word in enumerate(WORDS)]
    offsets = np.cumsum([0, *map(len, words)], dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(words))]
    word = pa.Array.from_buffers(pa.string(), len(words), buffers)
    path = write_parquet(tmp_path, "latin.parquet", {"x": range(700), "word": word}, rows=600)
    return path, bad


def test_a_stream_continues_after_text_that_is_not_utf8(latin):
    path, bad = latin
    found = results(iter(ParquetIterDataset(path)))
    for number in bad:
        where = f"row {number % 600} of row group {number // 600} of {path!r}"
        assert found[number].startswith(f"Column 'word' of {where} cannot be read: 'utf-8'")
    assert [result for result in found if isinstance(result, int)] == [n for n in range(700) if n not in bad]


def test_a_state_saved_after_text_that_is_not_utf8(latin):
    path, bad = latin
    iterator = iter(ParquetIterDataset(path))
    for number in range(302):
        with contextlib.ExitStack() as stack:
            if number in bad:
                stack.enter_context(pytest.raises(ValueError, match="Column 'word'"))
            next(iterator)
        state = iterator.get_state()
        assert state == {"row_group": 0, "index_within_row_group": number + 1}
        if number in (0, 1, 2, 299, 300, 301):
            resumed = iter(ParquetIterDataset(path))
            resumed.set_state(state)
            assert len(results(resumed)) == 699 - number


def test_workers_share_a_file_with_text_that_is_not_utf8(latin):
    path, bad = latin
    parts = [results(iter(NodeIterDataset(sharded(ParquetIterDataset(path)._node, index, 3)))) for index in range(3)]
    assert sorted(result for part in parts for result in part if isinstance(result, int)) == [
        number for number in range(700) if number not in bad
    ]
    assert sum(isinstance(result, str) for part in parts for result in part) == len(bad)


@pytest.mark.parametrize("cache_bytes", [0, 1 << 30])
def test_rows_by_index_with_text_that_is_not_utf8(latin, cache_bytes):
    path, bad = latin
    source = ParquetDataSource(path, cache_bytes=cache_bytes)
    for _ in range(2):  # also after all row groups were read
        for number in bad:
            where = re.escape(f"row {number % 600} of row group {number // 600} of {path!r}")
            for read in (source.__getitem__, lambda key: source.__getitems__([2, key]), partial(batch_of, source)):
                with pytest.raises(ValueError, match=f"Column 'word' of {where} cannot be read: 'utf-8'"):
                    read(number)
        assert source[650] == {"x": 650, "word": "word 650"}
        assert [row["word"] for row in source.__getitems__([2, 698])] == ["word 2", "word 698"]
    assert len(ParquetDataSource(path, columns=["x"]).__getitems__(range(700))) == 700


def batch_of(source, key):
    return source.batch(np.array([2, key]))


@pytest.mark.parametrize("make", [ParquetDataSource, lambda path: next(iter(ParquetIterDataset(path)))])
def test_a_footer_that_says_two_types_of_a_column(write, make):
    """pyarrow ends the process when it is asked for the statistics of such a column."""
    path = Path(write("two.parquet", {"small": pa.array([1, 2, 3], pa.int32())}))
    content = path.read_bytes()
    of_chunk = b"\x15\x02\x19"  # INT32, before the list of encodings
    place = content.rindex(of_chunk)
    path.write_bytes(content[:place] + b"\x15\x00\x19" + content[place + 3 :])
    with pytest.raises(
        ValueError, match=r"two.parquet' cannot be read: Column 'small' is INT32 .* BOOLEAN in row group 0"
    ):
        make(path)
