"""Written to Parquet, a value is read back as it was, or is refused with the record and the column that it is in."""

import datetime
import itertools
import re
import uuid
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from grain import MapDataset, ParquetDataSource
from grain.sources import write
from grain.writing.parquet_tables import schema_of_records, table_of

UTC = datetime.UTC
MOMENT = datetime.datetime(2020, 1, 2, 3, 4, 5, 6)
VALUES = {
    "none": None,
    "int": 3,
    "large int": 2**53 + 1,
    "unsigned": 2**63 + 5,
    "too large": 2**70,
    "negative": -4,
    "float": 2.75,
    "whole float": 3.0,
    "bool": True,
    "str": "a",
    "bytes": b"a",
    "date": datetime.date(2020, 1, 2),
    "datetime": MOMENT,
    "aware": MOMENT.replace(tzinfo=UTC),
    "elsewhere": MOMENT.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
    "time": datetime.time(1, 2, 3, 4),
    "time with a zone": datetime.time(1, 2, tzinfo=UTC),
    "timedelta": datetime.timedelta(1, 2, 3),
    "decimal": Decimal("1.25"),
    "finer decimal": Decimal("1.125"),
    "UUID": uuid.UUID(int=5),
    "int8": np.int8(5),
    "int64": np.int64(2**40),
    "uint64": np.uint64(2**63 + 1),
    "float16": np.float16(0.5),
    "float32": np.float32(0.1),
    "bool_": np.bool_(True),
    "seconds": np.datetime64("2020-01-02T03:04:05"),
    "nanoseconds": np.datetime64("2020-01-02T03:04:05.000000001"),
    "ints": [1, 2],
    "floats": [1, 2.5],
    "strs": ["a"],
    "str and bytes": ["a", b"a"],
    "date and datetime": [datetime.date(2020, 1, 2), MOMENT],
    "no items": [],
    "a key": {"a": 1},
    "a float": {"a": 2.5},
    "two keys": {"a": 1, "b": [2]},
    "bytes as key": {b"a": 1},
    "int8s": np.array([1, 2], np.int8),
    "int64s": np.array([2**40]),
    "float32s": np.array([0.1], np.float32),
    "bools": np.array([True]),
    "masked": np.ma.array([1, 2], mask=[False, True]),
    "matrix": np.array([[1, 2], [3, 4]]),
    "matrix of times": np.array([["2020-01-02T03:04:05.000000001"]], "M8[ns]"),
}
WITHIN = {"plain": lambda value: value, "dict": lambda value: {"k": value}, "deep": lambda value: [{"q": [value]}]}


def is_same(value, read):
    """Whether a value was read back as it was: floats may stand for integers, lists for arrays and no key for None."""
    if isinstance(value, np.ndarray):
        value = value.tolist() if isinstance(value, np.ma.MaskedArray) else list(value)
    if isinstance(value, np.datetime64):
        return np.datetime64(getattr(read, "asm8", read)) == value and getattr(read, "tzinfo", None) is None
    if value is None or read is None:
        return value is read
    if isinstance(value, list):
        return isinstance(read, list) and len(value) == len(read) and all(map(is_same, value, read))
    if isinstance(value, dict):
        return value.keys() <= read.keys() and all(is_same(value.get(key), read[key]) for key in read)
    if isinstance(value, bool | np.bool_) or isinstance(read, bool):
        return isinstance(value, bool | np.bool_) and value == read
    if isinstance(value, int | float | np.number):
        return isinstance(read, int | float) and value == read
    if isinstance(value, datetime.datetime):
        return value == read and (value.tzinfo is None) == (read.tzinfo is None)
    return type(value) is type(read) and value == read


@pytest.mark.parametrize("within", WITHIN)
@pytest.mark.parametrize("count", [1, 2], ids=["the first tells the type", "both tell the type"])
def test_values_are_kept_as_they_are_or_refused(within, count):
    kept, refused = 0, []
    for first, second in itertools.product(VALUES, VALUES):
        values = [WITHIN[within](VALUES[name]) for name in (first, second)]
        rows = [{"x": value} for value in values]
        try:
            table = table_of(rows, schema_of_records(rows[:count]), 0, may_round=False)
        except ValueError as error:
            refused.append(str(error))
            continue
        kept += 1
        assert all(map(is_same, values, table.column("x").to_pylist())), (first, second, table)
    assert kept >= len(VALUES)
    assert [error for error in refused if not re.match("Element [01] cannot be written: column 'x", error)] == []


def test_values_are_read_back_as_they_were(tmp_path):
    for name, value in VALUES.items():
        if name not in ("too large", "time with a zone", "str and bytes", "date and datetime", "bytes as key"):
            [path] = write([{"x": value}], tmp_path / "a.parquet")
            assert is_same(value, pq.read_table(path).column("x")[0].as_py()), name


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (1, 2.75, r"column 'x' is 2.75 \(float\), but double does not fit into int64"),
        (1, True, r"column 'x' is True \(bool\), but bool does not fit into int64"),
        (0.5, 2**53 + 1, r"column 'x' is 9007199254740993 \(int\), but double does not hold it"),
        (1, 2**63, r"column 'x' is 9223372036854775808 \(int\), but "),
        (1, 2**64, r"column 'x' is 18446744073709551616 \(int\), but "),
        ("a", b"a", r"column 'x' is b'a' \(bytes\), but binary does not fit into string"),
        (MOMENT.date(), MOMENT, r"column 'x' is datetime.datetime.* timestamp\[us\] does not fit into date32"),
        (MOMENT, MOMENT.replace(tzinfo=UTC), r"timestamp\[us, tz=UTC\] does not fit into timestamp\[us\]"),
        (None, 1, r"column 'x' is 1 \(int\), but int64 does not fit into null"),
        ({"a": {"b": 1}}, {"a": {"b": 0.5}}, r"column 'x.a.b' is 0.5 \(float\), but double does not fit into int64"),
        ({"a": 1}, {"a": 1, "b": 2}, r"column 'x' is .* there are columns \['b'\] beside those of the first ones"),
        ([1], [2, 0.5], r"column 'x' is \[2, 0.5\] \(list\), but double does not fit into int64"),
        (np.float32(0.5), 0.1, r"column 'x' is 0.1 \(float\), but double does not fit into float"),
    ],
)
def test_a_value_that_does_not_fit_is_named(first, second, message, tmp_path):
    rows = [{"n": 0, "x": first}] * 7 + [{"n": 0, "x": second}]
    with pytest.raises(pa.ArrowInvalid, match=f"Element 7 cannot be written: .*{message}") as caught:
        write(rows, tmp_path / "a.parquet", rows_per_group=3, shards=2)
    assert "Pass schema=" in caught.value.__notes__[0]


def test_a_worker_names_the_value_too(tmp_path):
    rows = MapDataset.source([{"x": 1}] * 7 + [{"x": 2.75}])
    with pytest.raises(pa.ArrowInvalid, match=r"Element 7 cannot be written: column 'x' is 2.75") as caught:
        write(rows, tmp_path / "a.parquet", rows_per_group=3, shards=2, workers=1)
    assert "Pass schema=" in "".join(caught.value.__notes__)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2.75, None], pa.float64()),
        ([None, 1], pa.int64()),
        ([np.int8(1), np.int16(2)], pa.int16()),
        ([np.float16(1), np.float32(2)], pa.float32()),
        ([1, 2**63], pa.uint64()),
        ([[1], [], np.array([0.5], np.float32)], pa.list_(pa.float64())),
        ([{"a": 1}, {"a": 0.5, "b": "c"}], pa.struct({"a": pa.float64(), "b": pa.string()})),
        ([[{"a": 1}], [{"b": 2}]], pa.list_(pa.struct({"a": pa.int64(), "b": pa.int64()}))),
    ],
)
def test_types_are_widened_by_all_records_of_the_first_group(values, kind, tmp_path):
    [path] = write([{"x": value} for value in values], tmp_path / "a.parquet")
    assert pq.read_schema(path).field("x").type.equals(kind)


def test_the_first_of_several_records_that_differ_is_named(tmp_path):
    rows = [{"x": "a"}] * 400 + [{"x": b"a"}] * 100
    with pytest.raises(ValueError, match=r"Element 400 cannot be written: column 'x' is b'a' \(bytes\)"):
        write(rows, tmp_path / "a.parquet")


@pytest.mark.parametrize(
    ("kind", "fits", "does_not"),
    [
        (pa.int8(), [1, np.int64(3), None], 300),
        (pa.int64(), [1], 1.0),
        (pa.float32(), [0.1, 1, np.float64(0.1)], 2**40 + 1),
        (pa.float16(), [0.1], 2**40),
        (pa.large_string(), ["a"], b"a"),
        (pa.binary(2), [b"ab"], b"abc"),
        (pa.dictionary(pa.int8(), pa.string()), ["a", "b"], b"a"),
        (pa.timestamp("ms"), [MOMENT.replace(microsecond=1000)], MOMENT),
        (pa.timestamp("us", "Europe/Berlin"), [MOMENT.replace(tzinfo=UTC)], MOMENT),
        (pa.date32(), [MOMENT.date()], MOMENT),
        (pa.decimal128(5, 2), [Decimal("1.25"), Decimal("1.5")], Decimal("1.125")),
        (pa.map_(pa.string(), pa.int64()), [{"a": 1}, [("b", 2)]], {"a": 0.5}),
        (pa.map_(pa.string(), pa.int64()), [{"a": 1}], 5),
        (pa.list_(pa.int8(), 2), [[1, 2], np.array([3, 4])], [1, 2, 3]),
        (pa.uuid(), [uuid.UUID(int=5)], "a"),
    ],
    ids=str,
)
def test_a_schema_that_was_asked_for(kind, fits, does_not, tmp_path):
    schema = pa.schema({"x": kind})
    [path] = write([{"x": value} for value in fits], tmp_path / "a.parquet", schema=schema)
    assert pq.read_table(path).column("x").type.equals(kind)
    assert len(ParquetDataSource(path)) == len(fits)
    with pytest.raises(ValueError, match="Element 1 cannot be written: column 'x"):
        write([{"x": fits[0]}, {"x": does_not}], tmp_path / "b.parquet", schema=schema)
