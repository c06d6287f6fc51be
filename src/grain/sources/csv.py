"""CSV files, read into columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grain.elements.stacking import Allocate
from grain.files.opened_files import opened
from grain.files.paths import PathLike, described, paths_of
from grain.sources.arrow_columns import csv, has_nulls, pa, plain, told, values_of
from grain.sources.byte_streams import is_gzip
from grain.sources.columns import Table, TableDataSource, taken
from grain.sources.schemas import chosen, schema_of

_START = 8
"""Bytes by which one sees whether a file is compressed."""
_REMEDY = "Convert the file, for instance with `iconv -f latin1 -t utf-8`."


class CsvDataSource(TableDataSource):
    """Rows of CSV files by their numbers, as dicts; of the columns `columns`, or of all.

    All files are read at once, also those that gzip has packed, into memory that worker processes share. The type of a
    column is the same for all of them: numbers where all values are numbers, strings where types differ. What is not
    UTF-8 is an error. `delimiter`, and `column_names` for files that do not begin with them, are as in `pyarrow.csv`.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     _ = file.write("x,name\\n1,a\\n2,b\\n")
    ...     file.flush()
    ...     CsvDataSource(file.name)[1]
    {'x': np.int64(2), 'name': 'b'}
    """

    def __init__(
        self,
        paths: PathLike | Sequence[PathLike],
        columns: Sequence[str] | None = None,
        *,
        delimiter: str = ",",
        column_names: Sequence[str] | None = None,
    ) -> None:
        self._paths = paths_of(paths)
        names = list(column_names) if column_names is not None else None
        wanted = chosen(columns)
        tables = [_read(path, wanted, delimiter, names, {}) for path in self._paths]
        types = _common_types(tables)
        for place, table in enumerate(tables):
            if any(types[field.name] != field.type for field in table.schema if field.name in types):
                tables[place] = _read(self._paths[place], wanted, delimiter, names, types)
        schema = schema_of([(path, table.schema) for path, table in zip(self._paths, tables, strict=True)], wanted)
        whole = pa.concat_tables([table.select(list(schema.names)) for table in tables])
        arrays = {name: plain(whole.column(name)) for name in schema.names}
        self._table: Table = {name: values_of(array, has_nulls(array)) for name, array in arrays.items()}
        self._length: int = whole.num_rows

    @property
    def paths(self) -> list[str]:
        """The files, in order."""
        return list(self._paths)

    def __len__(self) -> int:
        return self._length

    def _record(self, key: int) -> dict[str, Any]:
        return {name: values.row(key) for name, values in self._table.items()}

    def _taken(self, keys: Any, allocate: Allocate | None = None) -> Table:
        return taken(self._table, keys, allocate)

    def __repr__(self) -> str:
        return f"CsvDataSource({described(self._paths)}, columns={list(self._table)})"


def _read(path: str, columns: list[str] | None, delimiter: str, names: list[str] | None, types: dict[str, Any]) -> Any:
    with told(f"{path!r} cannot be read as CSV"), opened(path) as file:
        compression = "gzip" if is_gzip(file.read(_START)) else None
        file.seek(0)
        table = csv.read_csv(
            pa.input_stream(file, compression),
            csv.ReadOptions(column_names=names),
            csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            csv.ConvertOptions(column_types=types, include_columns=columns),
        )
        _check_text(table)
        return table


def _check_text(table: Any) -> None:
    """Raise an error if a name or a value is not UTF-8: Arrow makes bytes of a whole column with such a value."""
    try:
        fields = list(table.schema)
        names = [field.name for field in fields]
    except UnicodeDecodeError as error:
        raise pa.ArrowInvalid(f"the names of its columns are not UTF-8 ({error}). {_REMEDY}") from None
    for name, field, column in zip(names, fields, table.columns, strict=True):
        if pa.types.is_binary(field.type):
            for row, value in enumerate(column.to_pylist()):
                if value is not None and not _is_text(value):
                    raise pa.ArrowInvalid(f"row {row} of column {name!r} is not UTF-8: {value[:80]!r}. {_REMEDY}")


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _common_types(tables: Sequence[Any]) -> dict[str, Any]:
    """For each column the one type in which all files can be read."""
    types: dict[str, Any] = {}
    for table in tables:
        for field in table.schema:
            types[field.name] = _common_type(types.get(field.name, field.type), field.type)
    return types


def _common_type(one: Any, other: Any) -> Any:
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    numbers = {pa.int64(), pa.float64()}
    return pa.float64() if {one, other} == numbers else pa.string()
