"""Sources that keep columns: arrays, Arrow files and CSV files."""

import gzip
import io
import os
import pickle
import subprocess
import sys
import zipfile

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pytest

from grain import ArrowDataSource, CsvDataSource, MapDataset, MultiprocessingOptions, NumpyDataSource
from grain.sources import arrow_columns
from support.comparison import plain

COLUMNS = {
    "number": list(range(10)),
    "word": [str(i) * (i % 3 + 1) for i in range(10)],
    "flag": [i % 2 == 0 for i in range(10)],
    "maybe": [None if i == 7 else i for i in range(10)],
    "tokens": [[i, -i] for i in range(10)],
}
ROWS = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]


def write_feather(path, compression="uncompressed", rows=3, columns=COLUMNS):
    pa.feather.write_feather(pa.table(columns), str(path), compression=compression, chunksize=rows)


def write_stream(path, rows=3, compression=None):
    table = pa.table(COLUMNS)
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(str(path), table.schema, options=options) as writer:
        writer.write_table(table, rows)


def as_python(row):
    row = {name: value.tolist() if hasattr(value, "tolist") else value for name, value in row.items()}
    return {**row, "maybe": None if row["maybe"] != row["maybe"] else row["maybe"]}


def as_text(batch):
    """Something that `==` compares, also where there are NaNs."""
    return repr(plain(batch))


def batches(source, by_row=False):
    dataset = MapDataset.source(source).shuffle(seed=1)
    return [as_text(batch) for batch in (dataset.to_iter_dataset().batch(4) if by_row else dataset.batch(4))]


def in_workers(source):
    stream = MapDataset.source(source).shuffle(seed=1).batch(4).to_iter_dataset()
    return [as_text(batch) for batch in stream.mp_prefetch(MultiprocessingOptions(num_workers=2))]


# ---------------------------------------------------------------- keys


@pytest.fixture(params=["arrays", "mapped", "compressed", "CSV"])
def table(request, tmp_path):
    """Ten rows {"x": number}."""
    if request.param == "arrays":
        return NumpyDataSource({"x": np.arange(10)})
    if request.param == "CSV":
        (tmp_path / "a.csv").write_text("x\n" + "\n".join(map(str, range(10))))
        return CsvDataSource(tmp_path / "a.csv")
    write_feather(
        tmp_path / "a.arrow", "lz4" if request.param == "compressed" else "uncompressed", columns={"x": range(10)}
    )
    return ArrowDataSource(tmp_path / "a.arrow")


def test_keys_count_from_the_end_where_they_are_negative(table):
    assert table.__getitems__([0, -1, -10, np.int64(4)]) == [{"x": 0}, {"x": 9}, {"x": 0}, {"x": 4}]
    assert table.__getitems__([]) == []


@pytest.mark.parametrize("key", [10, -11])
def test_keys_that_are_out_of_range(table, key):
    for read in (table.__getitem__, lambda key: table.__getitems__([3, key])):
        with pytest.raises(IndexError, match=f"Index {key} out of range for 10 records"):
            read(key)


# ---------------------------------------------------------------- arrays


def test_rows_and_batches_of_arrays():
    source = NumpyDataSource({"x": np.arange(20.0).reshape(10, 2), "y": np.arange(10, dtype=np.int8)})
    assert plain(source[-1]) == {"x": ("array", "float64", (2,), [18.0, 19.0]), "y": ("scalar", "int8", 9)}
    assert batches(source) == batches(source, by_row=True) == in_workers(source)
    with pytest.raises(IndexError, match="Index 10 out of range for 10 records"):
        source[10]


@pytest.mark.parametrize("tree", [np.arange(3), (np.arange(3), [np.ones(3)]), {"a": {"b": np.array(list("xyz"))}}])
def test_trees_of_arrays(tree):
    source = NumpyDataSource(tree)
    assert plain(source.batch(np.arange(3))) == plain(tree)
    assert len(source) == len(list(source)) == 3
    assert plain(pickle.loads(pickle.dumps(source))[2]) == plain(source[2])


def test_npy_files_are_mapped_and_not_copied_to_workers(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.arange(200_000).reshape(-1, 2))
    source = NumpyDataSource({"x": path, "same": str(path)})
    assert source.batch(np.array([5, 0]))["x"].tolist() == [[10, 11], [0, 1]]
    assert len(pickle.dumps(source)) < 2000
    assert pickle.loads(pickle.dumps(source))[7]["same"].tolist() == [14, 15]
    assert type(NumpyDataSource(path)[0]) is np.ndarray


def test_parts_of_mapped_arrays_are_found_again_in_their_file(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.arange(300_000).reshape(-1, 3))
    mapped = np.load(path, mmap_mode="r")
    late = np.memmap(path, np.int64, "r", offset=80_000 + 128, shape=(90_000,))
    for view in (mapped[50_000:, 1], mapped[::-7], late[3:]):
        source = pickle.loads(pickle.dumps(NumpyDataSource(view)))
        assert len(pickle.dumps(source)) < 2000
        np.testing.assert_array_equal(source.batch(np.arange(len(view))), view)


def test_rows_of_structured_arrays_do_not_change_with_them():
    array = np.zeros(3, [("x", np.int32), ("y", np.float32, 2)])
    row = NumpyDataSource(array)[1]
    array["x"] = 5
    assert row["x"] == 0


def test_npz_files(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(3), y=np.eye(3))
    source = NumpyDataSource(tmp_path / "a.npz")
    assert plain(source[1]) == {"x": ("scalar", "int64", 1), "y": ("array", "float64", (3,), [0.0, 1.0, 0.0])}


def test_arrays_that_make_no_table(tmp_path):
    with pytest.raises(ValueError, match=r"same number of rows, got 3 in \['x'\], 4 in \['y'\]\['z'\]"):
        NumpyDataSource({"x": np.arange(3), "y": {"z": np.arange(4)}})
    with pytest.raises(ValueError, match=r"\['x'\] has no rows"):
        NumpyDataSource({"x": np.array(3)})
    with pytest.raises(ValueError, match="at least one array"):
        NumpyDataSource({})
    with pytest.raises(TypeError, match="Lists are structure"):
        NumpyDataSource({"x": [1, 2]})
    with pytest.raises(TypeError, match="astype"):
        NumpyDataSource({"x": np.array(["a", None])})
    for name in ("empty.npy", "empty.npz"):
        (tmp_path / name).touch()
        with pytest.raises(ValueError, match=rf"{name}' is not a .np. file, or is damaged"):
            NumpyDataSource(tmp_path / name)
    np.savez(tmp_path / "none.npz")
    with pytest.raises(ValueError, match=r"none.npz' is not a .npz file, or is damaged: there is no array in it"):
        NumpyDataSource(tmp_path / "none.npz")
    np.save(tmp_path / "cut.npy", np.arange(100))
    os.truncate(tmp_path / "cut.npy", 500)
    with pytest.raises(ValueError, match=r"cut.npy' is not a .npy file, or is damaged"):
        NumpyDataSource(tmp_path / "cut.npy")


def test_an_archive_whose_directory_hides_an_array(tmp_path):
    path = tmp_path / "hidden.npz"
    np.savez(path, x=np.arange(3), y=np.arange(3))
    content = bytearray(path.read_bytes())
    length_of_comment = content.index(b"PK\1\2") + 32
    content[length_of_comment] = 255  # the entry of the other array is part of it
    path.write_bytes(content)
    with pytest.raises(
        ValueError, match=r"hidden.npz' is not a .npz file, or is damaged: it has 2 members, of which 1"
    ):
        NumpyDataSource(path)


def npy(array):
    output = io.BytesIO()
    np.lib.format.write_array(output, array, version=(2, 0))
    return output.getvalue()


TEN = npy(np.arange(10))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (TEN.replace(b"(10,)", b"(5,) "), "40 bytes more than its header says"),
        (TEN.replace(b"'<i8'", b"'<i4'"), "40 bytes more than its header says"),
        (TEN + TEN, f"{len(TEN)} bytes more than its header says"),
        (TEN[:8] + b"\xff\xff\xff\x7f" + TEN[12:], "its header is said to have 2147483647 bytes"),
        (npy(np.array(3)), r"has no rows: its shape is \(\)"),
    ],
)
def test_headers_of_npy_files_that_do_not_fit_them(content, message, tmp_path):
    (tmp_path / "x.npy").write_bytes(content)
    with pytest.raises(ValueError, match=message) as error:
        NumpyDataSource(tmp_path / "x.npy")
    assert str(tmp_path / "x.npy") in str(error.value)


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (TEN.replace(b"(10,)", b"(5,) "), "more bytes than its header says"),
        (TEN[:-1], "EOF"),
        (npy(np.arange(9)), r"same number of rows, got 10 in \['x'\].*, 9 in \['y'\]"),
        (b"some/other/file.npy", "magic string"),
        (b"", "is damaged"),
    ],
)
def test_members_of_npz_files_that_make_no_table(member, message, tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", TEN)
        archive.writestr("y.npy", member)
    with pytest.raises(ValueError, match=message) as error:
        NumpyDataSource(tmp_path / "a.npz")
    assert str(tmp_path / "a.npz") in str(error.value)


def test_a_damaged_header_of_a_member_is_noticed_by_its_checksum(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(1000))
    content = (tmp_path / "a.npz").read_bytes()
    header = content.index(b"\x93NUMPY")
    for place in range(header, content.index(b"\n", header)):
        (tmp_path / "b.npz").write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(ValueError, match=r"b\.npz' is not a \.npz file, or is damaged"):
            NumpyDataSource(tmp_path / "b.npz")


# ---------------------------------------------------------------- Arrow


@pytest.mark.parametrize(
    "write",
    [write_feather, write_stream, lambda path: write_feather(path, "lz4"), lambda path: write_feather(path, rows=10)],
    ids=["file", "stream", "compressed", "one batch"],
)
def test_rows_and_batches_of_arrow_files(tmp_path, write):
    write(tmp_path / "a.arrow")
    source = ArrowDataSource(tmp_path / "a.arrow")
    assert [as_python(row) for row in source] == ROWS
    assert {type(row["maybe"]) for row in source} == {np.float64}
    assert batches(source) == batches(source, by_row=True)
    assert batches(pickle.loads(pickle.dumps(source))) == batches(source)
    assert list(ArrowDataSource(tmp_path / "a.arrow", columns=["word"])) == [{"word": row["word"]} for row in ROWS]


def test_several_arrow_files(tmp_path):
    write_feather(tmp_path / "0.arrow")
    write_feather(tmp_path / "1.arrow", "lz4")
    nothing = {**COLUMNS, "maybe": pa.nulls(10)}
    write_feather(tmp_path / "3.arrow", columns=nothing)
    source = ArrowDataSource([tmp_path / f"{number}.arrow" for number in (0, 1, 3)])
    assert [as_python(row) for row in source] == [*ROWS, *ROWS, *({**row, "maybe": None} for row in ROWS)]
    assert batches(source) == batches(source, by_row=True) == in_workers(source)
    assert len(pickle.dumps(source)) < 3000


def test_values_of_all_types_in_arrow_files(tmp_path):
    columns = {
        "byte": np.arange(6, dtype=np.int8),
        "half": np.arange(6, dtype=np.float16),
        "when": np.arange(6).astype("M8[us]"),
        "hole": [1.5, None, 2.5, 3.5, 4.5, 5.5],
        "blob": [b"", b"\0", b"ab", b"", b"c", b""],
        "large": pa.array(["", "", "é", "a", "", "bc"], pa.large_string()),
        "vector": pa.array([[i, i] for i in range(6)], pa.list_(pa.float32(), 2)),
        "category": pa.array(["a", "b", "a", None, "b", "a"]).dictionary_encode(),
        "kind": pa.array(["x", "y", "y", "x", "y", "y"]).dictionary_encode(),
        "nested": [{"x": i} for i in range(6)],
        "day": pa.array(np.arange(6).astype("M8[D]")).cast(pa.date64()),
        "view": pa.array(["", None, "a string that is not short", "b", "c", "d"], pa.string_view()),
        "runs": pa.RunEndEncodedArray.from_arrays([4, 6], [1, 2]),
    }
    for compression in ("uncompressed", "zstd"):
        write_feather(tmp_path / compression, compression, 2, columns)
    mapped, decoded = (ArrowDataSource(tmp_path / name) for name in ("uncompressed", "zstd"))
    assert [as_text(row) for row in mapped] == [as_text(row) for row in decoded]
    assert (mapped[2]["large"], mapped[1]["blob"], mapped[3]["category"]) == ("é", b"\0", None)
    assert {name: type(value) for name, value in mapped[1].items()}["when"] is np.datetime64
    assert mapped[3]["day"] == np.datetime64("1970-01-04")
    assert (mapped[2]["view"], mapped[3]["runs"], mapped[5]["runs"]) == ("a string that is not short", 1, 2)
    assert [as_text(row) for row in mapped.__getitems__(range(6))] == [as_text(row) for row in mapped]
    assert as_text(mapped.batch(np.array([5, 0, 4]))["vector"]) == as_text(
        np.array([[5, 5], [0, 0], [4, 4]], np.float32)
    )


def test_strings_with_offsets_of_two_sizes(tmp_path):
    for number, kind in enumerate([pa.string(), pa.large_string()]):
        write_feather(tmp_path / f"{number}.arrow", columns={"word": pa.array(["a", "bb", f"file {number}"], kind)})
    rows = [row["word"] for row in ArrowDataSource(tmp_path / "*.arrow")]
    assert rows == ["a", "bb", "file 0", "a", "bb", "file 1"]


def test_a_sliced_table_is_found_where_it_begins(tmp_path):
    table = pa.table({"x": range(20), "word": [str(i) for i in range(20)]}).slice(7, 5)
    pa.feather.write_feather(table, str(tmp_path / "a.arrow"), compression="uncompressed")
    assert list(ArrowDataSource(tmp_path / "a.arrow")) == [{"x": i, "word": str(i)} for i in range(7, 12)]


def test_files_that_are_not_arrow(tmp_path):
    path = tmp_path / "a.arrow"
    write_feather(path)
    content = path.read_bytes()
    for bad in (b"", content[:-50], b"hello, world" * 20, b"\xff\xff\xff\xff" + bytes(20)):
        path.write_bytes(bad)
        with pytest.raises(ValueError, match=r"a.arrow' is not an Arrow file, or is damaged"):
            ArrowDataSource(path)
    write_stream(path, compression="lz4")
    with pytest.raises(ValueError, match="Write it in the file format"):
        ArrowDataSource(path)


SHRINKING = """
import os, sys
import numpy as np
from grain import {kind}
source = {kind}(sys.argv[1])
source[0]
os.truncate(sys.argv[1], 4096)
try:
    source[len(source) - 1]
except ValueError as error:
    print(error)
"""


@pytest.mark.parametrize("kind", ["ArrowDataSource", "NumpyDataSource"])
def test_a_mapped_file_that_shrinks_is_an_error_and_not_the_end_of_the_process(tmp_path, kind):
    path = tmp_path / "file.npy"
    if kind == "ArrowDataSource":
        write_feather(path, columns={"x": np.arange(100_000)})
    else:
        np.save(path, np.arange(100_000))
    script = SHRINKING.format(kind=kind)
    done = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=True)
    assert "file.npy' " in done.stdout
    assert "changed" in done.stdout


# ---------------------------------------------------------------- CSV


@pytest.fixture
def csv(tmp_path):
    def write(name, text):
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return write


def test_rows_and_batches_of_csv_files(csv):
    source = CsvDataSource([csv("a.csv", "x,word\n1,a\n2,bb\n3,c\n"), csv("b.csv", "x,word\n4,d\n5,e\n")])
    assert list(source) == [{"x": i + 1, "word": word} for i, word in enumerate(["a", "bb", "c", "d", "e"])]
    assert batches(source) == batches(source, by_row=True) == in_workers(source)


def test_types_are_the_same_for_all_csv_files(csv):
    paths = [csv("a.csv", "x,y,z,n\n1,007,,\n"), csv("b.csv", "x,y,z,n\n1.5,abc,5,\n")]
    first, second = CsvDataSource(paths)
    assert plain(second) == {"x": ("scalar", "float64", 1.5), "y": "abc", "z": ("scalar", "float64", 5.0), "n": None}
    assert (first["x"], first["y"], str(first["z"])) == (1.0, "007", "nan")


def test_more_text_than_an_array_of_arrow_with_small_offsets_holds(csv, monkeypatch):
    monkeypatch.setattr(arrow_columns, "MOST_BYTES", 20)
    source = CsvDataSource([csv("a.csv", "word\nfirst\nsecond\n"), csv("b.csv", "word\nthird\n")])
    assert source._table["word"].array.type == pa.large_string()
    assert [row["word"] for row in source] == ["first", "second", "third"]


def test_csv_files_of_other_kinds(csv):
    path = csv("a.csv", "1;a\n2;b\n")
    assert CsvDataSource(path, delimiter=";", column_names=["x", "y"])[0] == {"x": 1, "y": "a"}
    assert list(CsvDataSource(path, ["y", "y"], delimiter=";", column_names=["x", "y"])) == [{"y": "a"}, {"y": "b"}]
    with pytest.raises(TypeError, match=r"Write \['xy'\] for one column"):
        CsvDataSource(path, "xy")


def test_compressed_csv_files(tmp_path):
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"x,word\n1,a\n2,b\n"))
    assert list(CsvDataSource(tmp_path / "a.csv.gz")) == [{"x": 1, "word": "a"}, {"x": 2, "word": "b"}]


def test_csv_files_that_are_bad(csv):
    with pytest.raises(ValueError, match=r"a.csv' cannot be read as CSV.*Expected 2 columns, got 3"):
        CsvDataSource(csv("a.csv", "x,y\n1,2\n1,2,3\n"))
    with pytest.raises(ValueError, match=r"empty.csv' cannot be read as CSV"):
        CsvDataSource(csv("empty.csv", ""))
    with pytest.raises(ValueError, match=r"b.csv' cannot be read as CSV: Column 'z'"):
        CsvDataSource(csv("b.csv", "x,y\n1,2\n"), columns=["z"])
    with pytest.raises(ValueError, match=r"d.csv' do not have the same columns: \['y', 'z'\]"):
        CsvDataSource([csv("c.csv", "x,y\n1,2\n"), csv("d.csv", "x,z\n1,2\n")])
    with pytest.raises(ValueError, match=r"e.csv' has several columns 'x'"):
        CsvDataSource(csv("e.csv", "x,y,x\n1,2,3\n"))
    assert len(CsvDataSource(csv("none.csv", "x,y\n"))) == 0


def test_a_csv_header_that_is_not_utf8(tmp_path):
    path = tmp_path / "a.csv"
    for content in (b"x,caf\xe9\n1,2\n", b"x,caf\xe9\n"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"a\.csv' cannot be read as CSV: .*not UTF-8.*iconv") as caught:
            CsvDataSource(path)
        assert type(caught.value) is ValueError


@pytest.mark.parametrize("rows", [1, 5, 200_000])
@pytest.mark.parametrize("is_compressed", [False, True])
def test_a_cell_of_a_csv_file_that_is_not_utf8(tmp_path, rows, is_compressed):
    content = b"x,word\n" + b"1,good\n" * (rows - 1) + b"2,caf\xe9\n3,good\n"
    (tmp_path / "good.csv").write_text("x,word\n1,a\n")
    path = tmp_path / "bad.csv"
    path.write_bytes(gzip.compress(content) if is_compressed else content)
    message = rf"bad\.csv' cannot be read as CSV: row {rows - 1} of column 'word' is not UTF-8: b'caf\\xe9'"
    for paths in (path, [tmp_path / "good.csv", path], [path, tmp_path / "good.csv"]):
        with pytest.raises(ValueError, match=message):
            CsvDataSource(paths)
    assert len(CsvDataSource(path, ["x"])) == rows + 1


def test_quoted_cells_and_names_of_columns_that_are_not_utf8(csv, tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b'1,"two\nlines, caf\xe9"\n')
    with pytest.raises(ValueError, match=r"row 0 of column 'b' is not UTF-8: b'two\\nlines, caf\\xe9'"):
        CsvDataSource(path, column_names=["a", "b"])
    assert CsvDataSource(csv("b.csv", "\ufeffä,b\n1,ü\n"))[0] == {"ä": 1, "b": "ü"}


# ---------------------------------------------------------------- far away


def test_tables_far_away(tmp_path, csv, monkeypatch):
    monkeypatch.setenv("GRAIN_CACHE", str(tmp_path / "cache"))
    np.save(tmp_path / "a.npy", np.arange(3))
    np.savez(tmp_path / "a.npz", x=np.arange(3))
    write_feather(tmp_path / "a.arrow")
    csv("a.csv", "x\n0\n1\n")
    system = fsspec.filesystem("memory")
    for name in ("a.npy", "a.npz", "a.arrow", "a.csv"):
        system.put_file(str(tmp_path / name), f"/tables/{name}")
    try:
        assert NumpyDataSource("memory://tables/a.npy")[1] == 1
        assert NumpyDataSource("memory://tables/a.npz")[1] == {"x": 1}
        assert ArrowDataSource("memory://tables/*.arrow")[1]["number"] == 1
        assert CsvDataSource("memory://tables/a.csv")[1] == {"x": 1}
    finally:
        system.rm("/tables", recursive=True)
