"""Files that records are written to: a format is asked for a writer, which writes records and is closed.

A format is settled once for all shards (`fitted`), so that they are alike whatever each one holds.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, TypeAlias

from grain.fields import Frozen
from grain.writing.parquet_tables import schema_of_records, table_of


class Writer(Protocol):
    """A file being written."""

    def write(self, record: Any) -> None: ...

    def close(self) -> None:
        """Finish the file. One that is not closed is not a whole file."""


class ArrayRecordFormat(Frozen):
    """Records that are bytes, `group_size` of them packed together.

    Without a size it is chosen by that of the records. Packing small ones together makes files smaller, and reading
    them in order four times as fast, while a random read still unpacks no more than a few kilobytes.
    """

    extensions: ClassVar = (".arrayrecord", ".array_record", ".ar")
    records_to_see: ClassVar = 16
    _LARGEST_GROUP: ClassVar = 16
    _BYTES_IN_A_GROUP: ClassVar = 16 * 1024

    group_size: int | None = None

    def fitted(self, first: Sequence[Any]) -> ArrayRecordFormat:
        """With a group size that suits records like the `first`."""
        if self.group_size is not None:
            if self.group_size < 1:
                raise ValueError(f"group_size must be at least 1, got {self.group_size}.")
            return self
        average = sum(map(len, first)) // max(len(first), 1)
        return self.replaced(group_size=min(self._LARGEST_GROUP, max(1, self._BYTES_IN_A_GROUP // max(average, 1))))

    def check(self, record: Any) -> None:
        """Raise an error if `record` is of the wrong type."""
        if not isinstance(record, bytes):
            raise TypeError(
                f"ArrayRecord files hold bytes, got {_shown(record)}. Pass encode=, a function that makes bytes of an "
                "element, such as pickle.dumps."
            )

    def open(self, path: str, start: int = 0) -> Writer:
        """A writer of a new file, for records from number `start` on."""
        return _ArrayRecordWriter(path, self)


class _ArrayRecordWriter:
    def __init__(self, path: str, format: ArrayRecordFormat) -> None:
        from array_record.python.array_record_module import ArrayRecordWriter

        self._output = ArrayRecordWriter(path, f"group_size:{format.group_size}")

    def write(self, record: Any) -> None:
        try:
            self._output.write(record)
        except RuntimeError as error:  # a full disk, say
            raise OSError(str(error)) from None

    def close(self) -> None:
        try:
            self._output.close()
        except RuntimeError as error:
            raise OSError(str(error)) from None


class ParquetFormat(Frozen):
    """Records that are dicts, a column for each key, `rows_per_group` of them packed together.

    A random read unpacks a whole group. Without a `schema` columns and types are those that hold the first group.
    Whatever they do not hold exactly is refused; but a schema may ask for smaller floats.
    """

    extensions: ClassVar = (".parquet", ".pq")

    rows_per_group: int = 1000
    schema: Any = None
    _is_found: bool = False
    """Whether nobody asked for the schema."""

    @property
    def records_to_see(self) -> int:
        return self.rows_per_group

    def fitted(self, first: Sequence[Any]) -> ParquetFormat:
        """With the types of the `first` records."""
        if self.rows_per_group < 1:
            raise ValueError(f"rows_per_group must be at least 1, got {self.rows_per_group}.")
        if self.schema is not None:
            return self
        if not first:
            raise ValueError("There are no elements, which would tell the columns. Pass schema=, a pyarrow.Schema.")
        return self.replaced(schema=schema_of_records(first), _is_found=True)

    def check(self, record: Any) -> None:
        """Raise an error if `record` is of the wrong type."""
        if not isinstance(record, dict):
            raise TypeError(
                f"Parquet files hold dicts, a column for each key, got {_shown(record)}. Pass encode=, a function that "
                "makes a dict of an element."
            )

    def open(self, path: str, start: int = 0) -> Writer:
        """A writer of a new file, for records from number `start` on."""
        return _ParquetWriter(path, self, start)


class _ParquetWriter:
    def __init__(self, path: str, format: ParquetFormat, start: int) -> None:
        import pyarrow.parquet

        self._format, self._start = format, start
        self._rows: list[Any] = []
        self._output = pyarrow.parquet.ParquetWriter(path, format.schema)

    def write(self, record: Any) -> None:
        self._rows.append(record)
        if len(self._rows) == self._format.rows_per_group:
            self._write_group()

    def _write_group(self) -> None:
        rows, self._rows = self._rows, []
        table = table_of(rows, self._format.schema, self._start, may_round=not self._format._is_found)
        self._output.write_table(table, row_group_size=len(rows))
        self._start += len(rows)

    def close(self) -> None:
        if self._rows:
            self._write_group()
        self._output.close()


Format: TypeAlias = ArrayRecordFormat | ParquetFormat

FORMATS: dict[str, type[Format]] = {"arrayrecord": ArrayRecordFormat, "parquet": ParquetFormat}


def format_of(path: str, name: str | None, options: dict[str, Any]) -> Format:
    """The format called `name`, or the one whose files end as `path` does.

    >>> format_of("train.parquet", None, {"rows_per_group": 10})
    ParquetFormat(rows_per_group=10, schema=None, _is_found=False)
    """
    if name is None:
        extension = os.path.splitext(path)[1].lower()
        fitting = [format for format in FORMATS.values() if extension in format.extensions]
        if not fitting:
            raise ValueError(f"The format of {path!r} is not known by its name. Pass format=, one of {list(FORMATS)}.")
        chosen = fitting[0]
    elif name in FORMATS:
        chosen = FORMATS[name]
    else:
        raise ValueError(f"Cannot write {name!r}: format must be one of {list(FORMATS)}.")
    known = [name for name in chosen.field_names if name[0] != "_"]
    wrong = set(options) - set(known)
    if wrong:
        raise TypeError(f"{chosen.__name__} has the options {known}, got {sorted(wrong)}.")
    return chosen(**options)


def _shown(record: Any) -> str:
    text = repr(record)
    return f"{text if len(text) <= 80 else text[:77] + '...'} ({type(record).__name__})"
