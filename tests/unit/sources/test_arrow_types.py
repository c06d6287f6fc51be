"""Values of Arrow's types: what a source gives is what pyarrow gives, however a file was written and is read."""

import datetime
import re
import uuid

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from grain import ArrowDataSource, ParquetDataSource, ParquetIterDataset
from support.arrow_arrays import ARRAYS, Numbered, write_arrow

IN_PARQUET = [name for name in ARRAYS if not re.search("union|runs|interval|dictionary|struct of string view", name)]
"""Types that pyarrow writes to Parquet files."""
EPOCH = datetime.datetime(1970, 1, 1)


@pytest.fixture(autouse=True)
def registered():
    pa.register_extension_type(Numbered())
    yield
    pa.unregister_extension_type("grain.tests.numbered")


def as_python(value):
    """A value of a source or of pyarrow in the form that both have in common."""
    if isinstance(value, np.ndarray | list):
        return [as_python(item) for item in value]
    if isinstance(value, dict):
        return {name: as_python(item) for name, item in value.items()}
    if type(value) is tuple:
        return tuple(map(as_python, value))
    if isinstance(value, np.datetime64 | np.timedelta64):
        return None if np.isnat(value) else as_python(value.astype(f"{value.dtype.kind}8[us]").item())
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None) - (value.utcoffset() or datetime.timedelta()) - EPOCH
    if isinstance(value, datetime.date):
        return datetime.datetime(value.year, value.month, value.day) - EPOCH
    value = value.item() if isinstance(value, np.generic) else value
    return None if value != value else value


def ways(source):
    """What a source gives for its rows, one by one and together, in order and not."""
    keys = list(range(len(source)))
    together = source.__getitems__(keys[::-1])[::-1]
    return [[as_python(row["x"]) for row in rows] for rows in ([source[key] for key in keys], together)]


@pytest.mark.parametrize("nulls", [0, 1], ids=["whole", "nulls"])
@pytest.mark.parametrize("name", ARRAYS)
def test_values_are_those_of_pyarrow(name, nulls, tmp_path):
    array = ARRAYS[name][nulls]
    for number, (part, compression, rows) in enumerate(
        [(part, how, rows) for part in (array, array[2:7]) for how in (None, "lz4") for rows in (4, 100)]
    ):
        path = tmp_path / f"{number}.arrow"
        write_arrow(path, {"x": part}, compression=compression, rows=rows)
        expected = as_python(part.to_pylist())
        for found in ways(ArrowDataSource(path)):
            assert found == expected, (compression, rows, len(part))


@pytest.mark.parametrize("nulls", [0, 1], ids=["whole", "nulls"])
@pytest.mark.parametrize("name", IN_PARQUET)
def test_values_of_parquet_files_are_those_of_pyarrow(name, nulls, tmp_path):
    array, path = ARRAYS[name][nulls], tmp_path / "a.parquet"
    pa.parquet.write_table(pa.table({"x": array}), path, row_group_size=4)
    expected = as_python(pa.parquet.read_table(path).column("x").to_pylist())
    stream = [as_python(row["x"]) for row in ParquetIterDataset(path)]
    assert [*ways(ParquetDataSource(path)), stream] == [expected] * 3


def test_types_are_those_of_numpy_where_it_has_them(tmp_path):
    names = ["date32", "date64", "half float", "timestamp with a zone", "duration ms", "bool", "UUID"]
    write_arrow(tmp_path / "a.arrow", {name: ARRAYS[name][0] for name in names})
    row = ArrowDataSource(tmp_path / "a.arrow")[3]
    dtypes = ["datetime64[D]", "datetime64[ms]", "float16", "datetime64[us]", "timedelta64[ms]", "bool"]
    assert [str(row[name].dtype) for name in names[:-1]] == dtypes
    assert row["UUID"] == uuid.UUID(bytes=bytes([3] * 16))


def test_batches_of_days(tmp_path):
    write_arrow(tmp_path / "a.arrow", {"x": ARRAYS["date32"][0]})
    batch = ArrowDataSource(tmp_path / "a.arrow").batch(np.array([8, 0]))["x"]
    assert (batch.dtype, batch.astype(str).tolist()) == ("M8[D]", ["2020-01-09", "2020-01-01"])


def dictionaries(*values):
    """Record batches of a column whose dictionaries are `values`, one after the other."""
    return [
        pa.record_batch({"x": pa.DictionaryArray.from_arrays(pa.array([len(some) - 1, 0, None], pa.int8()), some)})
        for some in map(pa.array, values)
    ]


@pytest.mark.parametrize(
    ("values", "is_stream", "options"),
    [
        ([["a"], ["a", "b"], ["a", "b", "c"]], True, {"emit_dictionary_deltas": True}),
        ([["a"], ["a", "b"], ["a", "b", "c"]], False, {"emit_dictionary_deltas": True}),
        ([["a"], ["b", "c"], ["d"]], True, {}),
        ([[10], [20, 30], [40]], True, {}),
    ],
    ids=["growing in a stream", "growing in a file", "replaced", "replaced numbers"],
)
def test_dictionaries_that_change_between_record_batches(values, is_stream, options, tmp_path):
    path, batches = tmp_path / "a.arrow", dictionaries(*values)
    made = pa.ipc.new_stream if is_stream else pa.ipc.new_file
    with made(str(path), batches[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for batch in batches:
            writer.write_batch(batch)
    expected = [value for some in values for value in (some[-1], some[0], None)]
    assert ways(ArrowDataSource(path)) == [expected] * 2


@pytest.mark.parametrize("compression", [None, "lz4"])
def test_record_batches_without_rows(compression, tmp_path):
    columns = {"x": pa.array(range(4)), "word": list("abcd"), "list": [[1], [], None, [2, 3]]}
    whole = pa.table(columns).to_batches()[0]
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), whole.schema, options=options) as writer:
        for part in (whole[:0], whole[:1], whole[:0], whole[1:], whole[:0]):
            writer.write_batch(part)
    source = ArrowDataSource(tmp_path / "a.arrow")
    rows = [as_python(row) for row in source.__getitems__(range(4))]
    assert rows == [as_python(source[key]) for key in range(4)] == whole.to_pylist()
