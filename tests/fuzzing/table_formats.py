"""Tables: Arrow and Parquet files. The independent reader is pyarrow with full validation."""

from __future__ import annotations

import datetime
import decimal
import io
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fuzzing.formats import Damaged, Format, Made, Unreadable, same_as
from fuzzing.outcomes import first_difference, given, is_subsequence
from grain import sources
from grain.experimental import ParquetIterDataset

_TEMPORAL = (pa.types.is_timestamp, pa.types.is_date, pa.types.is_duration)


class Missing:
    """In the place of null and of NaN, which Grain does not tell apart in columns of numbers."""

    def __repr__(self) -> str:
        return "missing"


MISSING = Missing()


def loose(value: Any) -> Any:
    """A value as pyarrow and Grain both have it: numbers of Python, moments as numbers, lists of them."""
    if isinstance(value, dict):
        return {key: loose(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [loose(item) for item in value]
    if isinstance(value, np.datetime64 | np.timedelta64):
        return MISSING if np.isnat(value) else float(value.astype(np.int64))
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or value != value:
        return MISSING
    if isinstance(value, bool | np.bool_):
        return bool(value)
    # A column of integers with nulls is one of floats.
    return float(value) if isinstance(value, int) else value


def columns(rng: Random, rows: int) -> dict[str, Any]:
    """A few columns of different types, some with nulls."""
    has_nulls = rng.random() < 0.4

    def filled(kind: Any, value: Callable[[], Any]) -> Any:
        return pa.array([None if has_nulls and rng.random() < 0.2 else value() for _ in range(rows)], kind)

    def text() -> str:
        return "".join(rng.choice("abcä€😀 ") for _ in range(rng.randint(0, 12)))

    makers: dict[str, Callable[[], Any]] = {
        "i": lambda: filled(pa.int64(), lambda: rng.randint(-(2**50), 2**50)),
        "small": lambda: filled(rng.choice((pa.int8(), pa.uint16(), pa.int32())), lambda: rng.randint(0, 100)),
        "f": lambda: filled(rng.choice((pa.float32(), pa.float64())), lambda: rng.randint(-99, 99) / 4),
        "b": lambda: filled(pa.bool_(), lambda: rng.random() < 0.5),
        "s": lambda: filled(rng.choice((pa.string(), pa.large_string())), text),
        "raw": lambda: filled(rng.choice((pa.binary(), pa.binary(4))), lambda: rng.randbytes(4)),
        "day": lambda: filled(pa.date32(), lambda: datetime.date(2020, 1, 1) + datetime.timedelta(rng.randint(0, 999))),
        "at": lambda: filled(pa.timestamp("us"), lambda: datetime.datetime(2020, 1, 1, second=rng.randint(0, 59))),
        "price": lambda: filled(pa.decimal128(9, 2), lambda: decimal.Decimal(rng.randint(0, 999)) / 4),
        "list": lambda: filled(pa.list_(pa.int32()), lambda: [rng.randint(0, 9) for _ in range(rng.randint(0, 4))]),
        "words": lambda: filled(pa.list_(pa.string()), lambda: [text() for _ in range(rng.randint(0, 3))]),
        "pair": lambda: filled(pa.list_(pa.float32(), 2), lambda: [rng.randint(0, 9), 0.5]),
        "struct": lambda: filled(pa.struct([("x", pa.int64()), ("y", pa.string())]), lambda: {"x": 1, "y": text()}),
        "map": lambda: filled(pa.map_(pa.string(), pa.int32()), lambda: [(text(), 3)]),
        "kind": lambda: filled(pa.string(), lambda: rng.choice(("cat", "dog", "owl"))).dictionary_encode(),
    }
    return {name: makers[name]() for name in rng.sample(list(makers), rng.randint(1, 5))}


def rows_of(table: Any) -> list[dict[str, Any]]:
    """The rows of a table or a record batch that is sound."""
    return [row_of(table, number) for number in range(table.num_rows)]


def row_of(table: Any, number: int) -> Any:
    """A row by pyarrow, or `Unreadable` where it does not validate."""
    row = {}
    try:
        for place, name in enumerate(table.schema.names):
            array = table.column(place).slice(number, 1)
            _validate(array)
            row[name] = loose(_value(array))
    except (pa.ArrowException, ValueError, OverflowError, IndexError):
        return Unreadable
    return row


def _validate(array: Any) -> None:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        if "Invalid UTF8" not in str(error):  # which may be in another row of a list: `as_py` will tell
            raise


def _value(array: Any) -> Any:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode() if isinstance(array, pa.Array) else array.combine_chunks().dictionary_decode()
    if any(is_kind(array.type) for is_kind in _TEMPORAL):
        whole = pa.int32() if array.type.bit_width == 32 else pa.int64()
        array = array.view(whole) if isinstance(array, pa.Array) else array.combine_chunks().view(whole)
    return array[0].as_py()


class Arrow(Format):
    """No checksums: of a row what pyarrow gives and validates."""

    value = staticmethod(loose)

    def __init__(self, name: str, codecs: tuple[str | None, ...], is_stream: bool = False) -> None:
        self.name, self.suffix, self._codecs, self._is_stream = name, ".arrow", codecs, is_stream

    def made(self, rng: Random) -> Made:
        rows, output = rng.randint(1, 20), io.BytesIO()
        table = pa.table(columns(rng, rows))
        options = pa.ipc.IpcWriteOptions(compression=rng.choice(self._codecs), unify_dictionaries=True)
        new = pa.ipc.new_stream if self._is_stream else pa.ipc.new_file
        with new(output, table.schema, options=options) as writer:
            writer.write_table(table, rng.choice((rows, 4, 7)))
        return Made(output.getvalue(), rows_of(table))

    def source(self, path: str) -> Any:
        return sources.ArrowDataSource(path)

    def problems(self, damaged: Damaged, outcomes: Mapping[int, Any], is_stream: bool) -> Iterator[str]:
        try:
            reader = (pa.ipc.open_stream if damaged.content[:4] == b"\xff" * 4 else pa.ipc.open_file)(damaged.content)
            batches = (
                list(reader)
                if not hasattr(reader, "get_batch")
                else list(map(reader.get_batch, range(reader.num_record_batches)))
            )
        except (pa.ArrowException, ValueError, OSError):
            batches = []
        ends = np.cumsum([batch.num_rows for batch in batches])

        def row(key: int) -> Any:
            number = int(np.searchsorted(ends, key, "right"))
            return row_of(batches[number], key - int(ends[number - 1] if number else 0))

        yield from same_as(row, int(ends[-1]) if batches else 0, damaged, outcomes)


class Parquet(Format):
    """Of a row what pyarrow gives and validates, if its row group has as many rows as the footer says."""

    name, suffix, value = "parquet", ".parquet", staticmethod(loose)

    def made(self, rng: Random) -> Made:
        rows, output = rng.randint(1, 20), io.BytesIO()
        table = pa.table(columns(rng, rows))
        pq.write_table(
            table,
            output,
            row_group_size=rng.choice((rows, 4, 7)),
            compression=rng.choice(("none", "snappy", "gzip", "zstd", "lz4", "brotli")),
            use_dictionary=rng.random() < 0.5,
            write_statistics=rng.random() < 0.7,
            data_page_version=rng.choice(("1.0", "2.0")),
            data_page_size=rng.choice((16, 2**20)),
            write_page_checksum=rng.random() < 0.3,
        )
        return Made(output.getvalue(), rows_of(table))

    def source(self, path: str) -> Any:
        return sources.ParquetDataSource(path)

    def stream(self, path: str) -> Any:
        return ParquetIterDataset(path)

    def problems(self, damaged: Damaged, outcomes: Mapping[int, Any], is_stream: bool) -> Iterator[str]:
        rows = self._rows(damaged.content)
        if not is_stream:
            yield from same_as(lambda key: rows[key], len(rows), damaged, outcomes)
            return
        found, readable = given(outcomes.values()), [row for row in rows if row is not Unreadable]
        if not rows:
            readable = [*damaged.made.records, *damaged.other.records]
        if not is_subsequence(found, readable):
            yield first_difference(found, readable)

    @staticmethod
    def _rows(content: bytes) -> list[Any]:
        rows: list[Any] = []
        try:
            with pq.ParquetFile(io.BytesIO(content)) as file:
                for group in range(file.metadata.num_row_groups):
                    count = file.metadata.row_group(group).num_rows
                    try:
                        table = file.read_row_group(group)
                        table.validate()
                        found = rows_of(table) if len(table) == count else []
                    except (pa.ArrowException, ValueError, OSError, OverflowError):
                        found = []
                    rows += found or [Unreadable] * min(count, 10_000)
        except (pa.ArrowException, ValueError, OSError):
            return []
        return rows
