"""Parquet files: rows by their numbers, and as streams."""

import copy
import functools
import json
import os
import pickle
import threading

import fsspec
import numpy as np
import pyarrow as pa
import pytest

from grain import MapDataset, MultiprocessingOptions, ParquetIterDataset
from grain.api.iter_dataset import NodeIterDataset
from grain.ops.worker_parts import sharded
from grain.sources import ParquetDataSource
from grain.sources.parquet import ParquetFiles
from support.comparison import plain
from support.parquet_files import TEN_ROWS, write_parquet


@pytest.fixture
def write(tmp_path):
    """Writes columns to a file and gives its path."""
    return functools.partial(write_parquet, tmp_path)


@pytest.fixture
def ten(write):
    """Ten rows in row groups of 3."""
    return write("ten.parquet", TEN_ROWS)


def values(dataset):
    return [int(row["x"]) for row in dataset]


def parts(path, count):
    dataset = ParquetIterDataset(path)
    return [values(NodeIterDataset(sharded(dataset._node, index, count))) for index in range(count)]


def open_files():
    return len(os.listdir("/proc/self/fd"))


# ---------------------------------------------------------------- rows by their numbers


def test_rows_across_files_and_row_groups(write, ten):
    more = write("more.parquet", {"x": [10, 11], "name": ["row 10", "row 11"]})
    source = ParquetDataSource([ten, more])
    assert len(source) == 12
    assert [source[i] for i in range(12)] == [{"x": i, "name": f"row {i}"} for i in range(12)]
    assert source[-1] == source[11]
    assert source.__getitems__([11, 0, 5, 5]) == [source[i] for i in (11, 0, 5, 5)]
    with pytest.raises(IndexError, match="Index 12 out of range for 12 records"):
        source[12]


@pytest.mark.parametrize("cache_bytes", [0, 1 << 30], ids=["nothing is kept", "all is kept"])
def test_batches_are_those_of_the_rows(write, cache_bytes):
    columns = {
        "number": np.arange(20, dtype=np.int32),
        "word": [str(i) * (i % 3 + 1) for i in range(20)],
        "vector": pa.array([[i, i + 0.5] for i in range(20)], pa.list_(pa.float32(), 2)),
        "tokens": [[i, -i] for i in range(20)],
        "when": np.arange(20).astype("M8[s]"),
        "nested": [{"flag": i % 2 == 0} for i in range(20)],
    }
    source = ParquetDataSource(write("all.parquet", columns), cache_bytes=cache_bytes)
    for _ in range(2):  # while row groups are read, and when all have been
        by_column = list(MapDataset.source(source).shuffle(seed=1).batch(6))
        by_row = list(MapDataset.source(source).shuffle(seed=1).to_iter_dataset().batch(6))
        assert plain(by_column) == plain(by_row)
        assert plain(by_column[0]["vector"])[1:3] == ("float32", (6, 2))


def test_columns_are_chosen_and_keep_their_order(ten):
    assert ParquetDataSource(ten, columns=["name"])[3] == {"name": "row 3"}
    assert list(ParquetDataSource(ten, columns=["name", "x"])[0]) == ["name", "x"]
    with pytest.raises(ValueError, match=r"no column 'nam' in '.*ten.parquet'. It has \['x', 'name'\]"):
        ParquetDataSource(ten, columns=["nam"])
    with pytest.raises(ValueError, match="at least one column"):
        ParquetDataSource(ten, columns=[])
    with pytest.raises(TypeError, match=r"Write \['name'\]"):
        ParquetDataSource(ten, columns="name")


def test_types_do_not_change_where_nulls_begin(write):
    whole = {"i": pa.array([1, 2, 3], pa.int32()), "b": [True, False, True]}
    holes = {"i": pa.array([4, None, 6], pa.int32()), "b": [None, False, True]}
    files = [write("whole.parquet", whole), write("holes.parquet", holes), write("more.parquet", whole)]
    source = ParquetDataSource(files)
    assert {type(source[i]["i"]) for i in range(9)} == {np.float64}
    assert np.isnan(source[4]["i"])
    assert source[3] == {"i": 4.0, "b": None}
    assert source.batch(np.array([0, 1]))["i"].dtype == np.float64
    assert [type(row["i"]) for row in ParquetIterDataset(files)] == [np.float64] * 9
    assert {type(row["i"]) for row in ParquetIterDataset(files[0])} == {np.int32}


def test_nulls_are_counted_where_a_file_does_not_tell(write):
    path = write("silent.parquet", {"i": pa.array([1, None, 3]), "j": [1, 2, 3]}, write_statistics=False)
    assert ParquetDataSource(path)[0] == {"i": 1.0, "j": 1}
    assert {type(value) for value in ParquetDataSource(path)[0].values()} == {np.float64, np.int64}


def test_nulls_that_the_statistics_deny_are_an_error(write, monkeypatch):
    monkeypatch.setattr("grain.sources.parquet._has_nulls", lambda *args: False)
    source = ParquetDataSource(write("lies.parquet", {"i": [1, None]}))
    with pytest.raises(
        ValueError, match=r"Column 'i' of row group 0 of '.*lies.parquet' cannot be read: There are nulls"
    ):
        source[0]


def test_a_batch_with_nulls_says_where(write):
    source = ParquetDataSource(write("a.parquet", {"x": [1, 2], "name": [None, "a"]}))
    with pytest.raises(ValueError, match=r"They differ at \['name'\]: None in element 0, str\[\] in element 1"):
        next(iter(MapDataset.source(source).batch(2)))


def test_values_of_all_types(write):
    columns = {
        "list": pa.array([[1, 2], None, [], [4, None]], pa.list_(pa.int16())),
        "words": [["a"], [], ["b", "c"], ["d"]],
        "deep": pa.array([[[1], [2, 3]], [], [[]], [[4]]]),
        "struct": [{"x": 1, "y": [1.5]}, None, {"x": None, "y": []}, {"x": 2, "y": None}],
        "map": pa.array([[("k", 1)], [], None, [("a", 2), ("b", 3)]], pa.map_(pa.string(), pa.int64())),
        "bytes": [b"a\0", b"", None, b"b"],
        "category": pa.array(["a", None, "b", "a"]).dictionary_encode(),
        "nothing": pa.nulls(4),
    }
    rows = list(ParquetIterDataset(write("types.parquet", columns, rows=2)))

    def column(name):
        return [plain(row[name]) for row in rows]

    def array(dtype, *items):
        return ("array", dtype, (len(items),), list(items))

    assert column("list")[:3] == [array("int16", 1, 2), None, array("int16")]
    assert rows[3]["list"].dtype == np.float64
    np.testing.assert_array_equal(rows[3]["list"], [4, np.nan])
    assert column("words") == [array("object", *words) for words in (["a"], [], ["b", "c"], ["d"])]
    assert [[part.tolist() for part in row["deep"]] for row in rows] == [[[1], [2, 3]], [], [[]], [[4]]]
    assert column("struct") == [
        {"x": 1, "y": array("float64", 1.5)},
        None,
        {"x": None, "y": array("float64")},
        {"x": 2, "y": None},
    ]
    assert column("map") == [[("k", 1)], [], None, [("a", 2), ("b", 3)]]
    assert column("bytes") == [b"a\0", b"", None, b"b"]
    assert column("category") == ["a", None, "b", "a"]
    assert column("nothing") == [None] * 4


def test_row_groups_are_decoded_once_and_dropped_beyond_the_limit(ten, monkeypatch, caplog):
    reads = []
    read = ParquetFiles.read
    monkeypatch.setattr(ParquetFiles, "read", lambda *args: reads.append(args[-1]) or read(*args))
    source = ParquetDataSource(ten)
    for _ in range(3):
        assert values(source) == list(range(10))
    assert reads == [0, 1, 2, 3]
    reads.clear()
    source = ParquetDataSource(ten, cache_bytes=1)
    assert [source[i]["x"] for i in (0, 1, 5, 4, 0)] == [0, 1, 5, 4, 0]
    assert reads == [0, 1, 0]
    assert not caplog.messages
    for i in (0, 9) * 8:
        source[i]
    (message,) = caplog.messages
    assert "Each of 4 chunks" in message
    assert "`cache_bytes`" in message


def test_threads_do_not_decode_the_same_row_group_twice_nor_wait_for_another(ten, monkeypatch):
    reads, may_go_on, is_reading = [], threading.Event(), threading.Event()
    read = ParquetFiles.read

    def slow(*args):
        reads.append(args[-1])
        if args[-1] == 0:
            is_reading.set()
            assert may_go_on.wait(20)
        return read(*args)

    monkeypatch.setattr(ParquetFiles, "read", slow)
    source, found = ParquetDataSource(ten), []
    threads = [threading.Thread(target=lambda: found.append(source[0]["x"])) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert is_reading.wait(20)
    assert source[9]["x"] == 9  # no lock is held meanwhile
    may_go_on.set()
    for thread in threads:
        thread.join()
    assert (found, reads) == ([0, 0, 0], [0, 3])


def test_a_pickled_source_is_small_and_the_same(ten):
    source = ParquetDataSource(ten)
    list(source)
    pickled = pickle.dumps(source)
    assert len(pickled) < 3000
    assert pickle.loads(pickled)[7] == source[7]
    assert repr(pickle.loads(pickled)) == repr(source) == f"ParquetDataSource({ten!r}, columns=['x', 'name'])"


def test_workers_read_rows_by_themselves(ten):
    dataset = MapDataset.source(ParquetDataSource(ten)).shuffle(seed=3).batch(2)
    inline = plain(list(dataset.to_iter_dataset()))
    assert plain(list(dataset.to_iter_dataset().mp_prefetch(MultiprocessingOptions(num_workers=2)))) == inline


def test_files_far_away(ten):
    system = fsspec.filesystem("memory")
    for number in range(2):
        system.put_file(ten, f"/parquet/{number}.parquet")
    try:
        source = ParquetDataSource("memory://parquet/*.parquet")
        assert [source[i]["x"] for i in (0, 15, 9)] == [0, 5, 9]
        assert values(ParquetIterDataset("memory://parquet/1.parquet")) == list(range(10))
    finally:
        system.rm("/parquet", recursive=True)


# ---------------------------------------------------------------- streams

# Recorded from Grain 0.2.18: row groups of 3 and 2 rows, then the same with a second file of two rows.
STATES_OF_ONE = [(0, 0), (0, 1), (0, 2), (0, 3), (1, 1), (1, 2)]
STATE_OF_TWO = {
    "next_index_in_cycle": 1,
    "next_index_in_datasets": 2,
    "iterators_in_use_indices": [0, 1],
    "iterators_in_use_states": [
        {"row_group": 0, "index_within_row_group": 3},
        {"row_group": 0, "index_within_row_group": 2},
    ],
    "exhausted": [0, 0],
    "future_states": {},
}


def test_states_are_those_of_grain_and_resume_exactly(write):
    dataset = ParquetIterDataset(write("five.parquet", {"x": list(range(5))}))
    iterator = iter(dataset)
    for position, (group, index) in enumerate(STATES_OF_ONE):
        state = {"row_group": group, "index_within_row_group": index}
        assert iterator.get_state() == state
        resumed = iter(dataset)
        resumed.set_state(json.loads(json.dumps(state)))
        assert values(resumed) == list(range(position, 5))
        assert next(iterator, None) == (None if position == 5 else {"x": position})


def test_the_state_of_several_files_is_that_of_grain(write):
    paths = [write("five.parquet", {"x": list(range(5))}), write("two.parquet", {"x": [10, 11]})]
    iterator = iter(ParquetIterDataset(paths))
    assert [int(next(iterator)["x"]) for _ in range(5)] == [0, 10, 1, 11, 2]
    assert iterator.get_state() == STATE_OF_TWO
    resumed = iter(ParquetIterDataset(paths))
    resumed.set_state(copy.deepcopy(STATE_OF_TWO))
    assert values(resumed) == [3, 4]


@pytest.mark.parametrize("kind", [str, os.fsencode, "path", "glob", "list"])
def test_paths_of_any_kind(ten, tmp_path, kind):
    path = {"path": tmp_path / "ten.parquet", "glob": tmp_path / "*.parquet", "list": [ten]}.get(kind) or kind(ten)
    assert values(ParquetIterDataset(path)) == list(range(10))
    assert values(ParquetDataSource(path)) == list(range(10))


def test_some_columns_and_options_of_pyarrow(ten):
    rows = list(ParquetIterDataset(ten, columns=["x"], memory_map=True))
    assert rows == [{"x": i} for i in range(10)]
    with pytest.raises(TypeError, match="nonsense"):
        next(iter(ParquetIterDataset(ten, nonsense=1)))


def test_workers_share_files_row_groups_or_rows(write, ten):
    assert parts(ten, 2) == [[0, 1, 2, 6, 7, 8], [3, 4, 5, 9]]
    assert parts(ten, 4) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
    assert parts(ten, 5) == [[0, 5], [1, 6], [2, 7], [3, 8], [4, 9]]
    two = write("two.parquet", {"x": [10, 11], "name": ["a", "b"]})
    assert parts([ten, two], 3) == [[0, 1, 2, 6, 7, 8], [10, 11], [3, 4, 5, 9]]
    stream = ParquetIterDataset([ten, two]).mp_prefetch(MultiprocessingOptions(num_workers=3))
    assert sorted(values(stream)) == list(range(12))


def test_files_without_rows(write, ten):
    empty = write("empty.parquet", {"x": pa.array([], pa.int64()), "name": pa.array([], pa.string())})
    assert list(ParquetIterDataset(empty)) == []
    assert len(ParquetDataSource(empty)) == 0
    assert len(ParquetDataSource([empty, ten, empty])) == 10
    assert values(ParquetIterDataset([empty, ten])) == list(range(10))
    assert ParquetDataSource([empty, ten])[9]["x"] == 9


def test_no_file_stays_open(ten):
    before = open_files()
    list(ParquetIterDataset(ten))
    list(ParquetDataSource(ten, cache_bytes=1))
    iterator = iter(ParquetIterDataset(ten))
    next(iterator)
    iterator.close()
    del iterator
    assert open_files() == before
