"""Arrow arrays of every type, without nulls and with some."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.ipc

COUNT = 9


class Numbered(pa.ExtensionType):
    """A type of this program."""

    def __init__(self):
        super().__init__(pa.int64(), "grain.tests.numbered")

    def __arrow_ext_serialize__(self):
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type, serialized):
        return cls()


def _day(number):
    return datetime.date(2020, 1, 1) + datetime.timedelta(number)


def _moment(number):
    return datetime.datetime(2020, 1, 1, 1, 2, 3) + datetime.timedelta(number)


def _utc(number):
    return _moment(number).replace(tzinfo=datetime.UTC)


def _pair(kind, value):
    """An array of `COUNT` values, and one of which some are missing."""
    values = [value(number) for number in range(COUNT)]
    return pa.array(values, kind), pa.array([v if i % 4 != 1 else None for i, v in enumerate(values)], kind)


_INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
_VALUES = {
    **{name: (getattr(pa, name)(), lambda i: i + 3) for name in _INTEGERS},
    "half float": (pa.float16(), lambda i: np.float16(i + 0.5)),
    "float": (pa.float32(), lambda i: i + 0.5),
    "double": (pa.float64(), lambda i: i + 0.1),
    "bool": (pa.bool_(), lambda i: i % 3 == 0),
    "date32": (pa.date32(), _day),
    "date64": (pa.date64(), _day),
    **{f"timestamp {unit}": (pa.timestamp(unit), _moment) for unit in ("s", "ms", "us", "ns")},
    "timestamp with a zone": (pa.timestamp("us", "Europe/Berlin"), _utc),
    **{f"duration {unit}": (pa.duration(unit), lambda i: datetime.timedelta(0, i)) for unit in ("s", "ms", "us", "ns")},
    **{f"time {kind}": (kind, lambda i: datetime.time(1, 2, i)) for kind in (pa.time32("s"), pa.time64("us"))},
    "interval": (pa.month_day_nano_interval(), lambda i: pa.MonthDayNano([1, i, 3])),
    "decimal32": (pa.decimal32(7, 2), lambda i: Decimal(i) + Decimal("0.25")),
    "decimal128": (pa.decimal128(20, 2), lambda i: Decimal(i) + Decimal("0.25")),
    "decimal256": (pa.decimal256(50, 2), lambda i: Decimal(i) + Decimal("0.25")),
    "string": (pa.string(), lambda i: "é" * i * 3),
    "large string": (pa.large_string(), lambda i: "é" * i * 3),
    "string view": (pa.string_view(), lambda i: "é" * i * 3),
    "binary": (pa.binary(), lambda i: b"\xff\0" * i * 3),
    "large binary": (pa.large_binary(), lambda i: b"\xff\0" * i * 3),
    "binary view": (pa.binary_view(), lambda i: b"\xff\0" * i * 3),
    "fixed size binary": (pa.binary(3), lambda i: bytes([i, 0, 255])),
    "UUID": (pa.uuid(), lambda i: bytes([i] * 16)),
}
_ENCODED = ("int64", "bool", "date32", "string", "string view", "timestamp with a zone")
_WITHIN = ("int32", "bool", "date32", "string", "string view", "half float", "timestamp with a zone", "time time64[us]")


def _nested():
    made = {}
    for name in _WITHIN:
        kind, value = _VALUES[name]
        some = {"list": pa.list_, "large list": pa.large_list, "list view": pa.list_view}
        for outer, of in {**some, "large list view": pa.large_list_view}.items():
            made[f"{outer} of {name}"] = _pair(of(kind), lambda i, value=value: [value(j) for j in range(i % 4)])
        made[f"fixed size list of {name}"] = _pair(pa.list_(kind, 2), lambda i, value=value: [value(i), value(i + 1)])
        fields = pa.struct([("x", kind), ("y", pa.int64())])
        made[f"struct of {name}"] = _pair(fields, lambda i, value=value: {"x": value(i), "y": None if i == 3 else i})
        pairs = pa.map_(pa.string(), kind)
        made[f"map to {name}"] = _pair(pairs, lambda i, value=value: [(str(j), value(j)) for j in range(i % 3)])
    deep = pa.list_(pa.struct([("a", pa.list_(pa.string())), ("d", pa.dictionary(pa.int8(), pa.string()))]))
    made["deep"] = _pair(deep, lambda i: [{"a": ["x" * j], "d": "ab"[j % 2]} for j in range(i % 4)])
    made["list of integers and nulls"] = (pa.array([[1, None], [None], [3], None, [], [5], [6], [7, 8], [9]]),) * 2
    return made


def _encoded(arrays):
    made = {}
    codes, offsets = pa.array([0, 1] * 4 + [0], pa.int8()), pa.array([0, 0, 1, 1, 2, 2, 3, 3, 4], pa.int32())
    for name in _ENCODED:
        indices, ends = pa.array([0, 1, 2, 0, 8, 7, 6, 5, 3], pa.int16()), pa.array([2, 3, 4, 5, 6, 7, 8, 9, 12])
        made[f"dictionary of {name}"] = tuple(pa.DictionaryArray.from_arrays(indices, a) for a in arrays[name])
        runs = [pa.RunEndEncodedArray.from_arrays(ends, array) for array in arrays[name]]
        made[f"runs of {name}"] = tuple(array.slice(0, COUNT) for array in runs)
        made[f"dense union of {name}"] = tuple(
            pa.UnionArray.from_dense(codes, offsets, [array, arrays["uint8"][0]]) for array in arrays[name]
        )
        made[f"sparse union of {name}"] = tuple(
            pa.UnionArray.from_sparse(codes, [array, arrays["uint8"][0]]) for array in arrays[name]
        )
        made[f"list of runs of {name}"] = tuple(
            pa.ListArray.from_arrays(pa.array([0, 1, 1, 3, 4, 6, 9, 9, 9, 9], pa.int32()), array) for array in runs
        )
    return made


def _extended(arrays):
    tensor = pa.fixed_shape_tensor(pa.int32(), (2,))
    return {
        "extension": tuple(pa.ExtensionArray.from_storage(Numbered(), array) for array in arrays["int64"]),
        "tensor": tuple(pa.ExtensionArray.from_storage(tensor, array) for array in arrays["fixed size list of int32"]),
        "bool8": tuple(pa.ExtensionArray.from_storage(pa.bool8(), array.cast(pa.int8())) for array in arrays["bool"]),
        "JSON": tuple(pa.ExtensionArray.from_storage(pa.json_(), array) for array in arrays["string"]),
    }


def _all_arrays():
    arrays = {name: _pair(*how) for name, how in _VALUES.items()} | _nested() | {"null": (pa.nulls(COUNT),) * 2}
    return arrays | _encoded(arrays) | _extended(arrays)


ARRAYS = _all_arrays()
"""By the name of their type: an array without nulls, and one with some."""


def write_arrow(path, columns, *, compression=None, rows=4, is_stream=False, **options):
    """Write columns to a file in the file format or the streaming one, in record batches of `rows`."""
    table = pa.table(columns)
    made = pa.ipc.new_stream if is_stream else pa.ipc.new_file
    with made(str(path), table.schema, options=pa.ipc.IpcWriteOptions(compression=compression, **options)) as writer:
        writer.write_table(table, rows)
