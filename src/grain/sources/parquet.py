"""Parquet files: what their footers say, row groups as columns, and rows by their numbers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from grain.elements.stacking import Allocate
from grain.fields import Frozen
from grain.files.opened_files import opened as opened_file
from grain.files.paths import File, PathLike, described, for_each, paths_of
from grain.files.systems import is_remote
from grain.files.versions import Version
from grain.forks import cached_property
from grain.sources.arrow_columns import has_nulls, nulls_change_type, pa, parquet, told, values_of
from grain.sources.columns import Table, TableDataSource
from grain.sources.schemas import Schema, schema_of
from grain.sources.table_chunks import CACHE_BYTES, Chunks


class Footer(Frozen):
    """What is known of a file without reading its rows."""

    file: File
    lengths: tuple[int, ...]
    """Of its row groups."""
    schema: Any
    with_nulls: frozenset[str]
    """Columns that have nulls, among those of types for which it makes a difference."""


class ParquetFiles:
    """Files with the same columns."""

    def __init__(self, paths: tuple[str, ...], columns: Sequence[str] | None, options: Mapping[str, Any]) -> None:
        self.paths, self.options = paths, options
        self._columns = columns

    @cached_property
    def _footers(self) -> list[Footer | Exception]:
        """One for each file; they are read when they are needed first, several at once."""
        return for_each(self._footer_or_error, self.paths)

    @property
    def footers(self) -> list[Footer]:
        """Those of all files."""
        for footer in self._footers:
            if isinstance(footer, Exception):
                raise footer
        return self._good_footers

    @property
    def _good_footers(self) -> list[Footer]:
        return [footer for footer in self._footers if isinstance(footer, Footer)]

    @cached_property
    def schema(self) -> Schema:
        """The columns that are read. Files that are damaged have no say in it."""
        footers = self._good_footers or self.footers
        return schema_of([(footer.file.path, footer.schema) for footer in footers], self._columns)

    @cached_property
    def _with_nulls(self) -> frozenset[str]:
        footers = self._good_footers
        untyped = (name for footer in footers for name in self.schema.without_type_in(footer.schema))
        return frozenset(untyped).union(*(footer.with_nulls for footer in footers))

    @contextlib.contextmanager
    def opened(self, path: str, version: Version, metadata: Any = None) -> Iterator[Any]:
        """That version of the file at `path`; its footer is not read again where `metadata` is given.

        Files of this machine are read by Arrow itself: whoever reads them has to look at the version afterwards.
        """
        with contextlib.ExitStack() as stack:
            with told(f"{path!r} is not a Parquet file, or is damaged"):
                place = stack.enter_context(opened_file(path, version)) if is_remote(path) else path
                file = stack.enter_context(parquet.ParquetFile(place, **{"metadata": metadata, **self.options}))
            yield file

    def read(self, file: Any, path: str, group: int) -> Table:
        """The columns of a row group of a file that is open."""
        with told(f"Row group {group} of {path!r} cannot be read"):
            found = file.read_row_group(group, columns=list(self.schema.names))
            _check_length(file.metadata, group, found)
        table: Table = {}
        for name in self.schema.names:
            with told(f"Column {name!r} of row group {group} of {path!r} cannot be read"):
                table[name] = values_of(self.schema.cast(found, name), name in self._with_nulls)
        return table

    def _footer_or_error(self, path: str) -> Footer | Exception:
        try:
            return self._footer(path)
        except (ValueError, OSError) as error:
            return error

    def _footer(self, path: str) -> Footer:
        file = File(path)
        with self.opened(path, file.version) as opened, told(f"{path!r} cannot be read"):
            metadata, schema = opened.metadata, opened.schema_arrow
            lengths = tuple(metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))
            wanted = [name for name in schema.names if self._columns is None or name in self._columns]
            with_nulls = {name for name in wanted if _has_nulls(opened, schema, name)}
        file.check()
        return Footer(file, lengths, schema, frozenset(with_nulls))


def _has_nulls(file: Any, schema: Any, name: str) -> bool:
    """Whether a column has nulls, by the statistics of its row groups; where there are none, by its values."""
    if schema.get_field_index(name) < 0 or not nulls_change_type(schema.field(name).type):
        return False
    metadata = file.metadata
    leaves = [leaf for leaf in range(metadata.num_columns) if _is_part(metadata.schema.column(leaf), name)]
    for group in range(metadata.num_row_groups):
        for leaf in leaves:
            statistics = _statistics(metadata, group, leaf)
            if statistics is not None and statistics.has_null_count:
                if statistics.null_count:
                    return True
            elif has_nulls(file.read_row_group(group, columns=[name]).column(name)):
                return True
    return False


def _statistics(metadata: Any, group: int, leaf: int) -> Any:
    """Those of a column in a row group. Where the footer contradicts itself, pyarrow would end the process."""
    column, expected = metadata.row_group(group).column(leaf), metadata.schema.column(leaf)
    if column.physical_type != expected.physical_type:
        raise pa.ArrowInvalid(
            f"Column {expected.path!r} is {expected.physical_type} in the schema, and {column.physical_type} in row "
            f"group {group}."
        )
    return column.statistics


def _check_length(metadata: Any, group: int, found: Any) -> None:
    """See that a row group that was read has as many rows as the footer says, and that it is not cut to that."""
    length = metadata.row_group(group).num_rows
    if found.num_rows != length:
        raise pa.ArrowInvalid(f"It has {found.num_rows} rows, where the footer of the file says {length}.")
    for number in range(metadata.num_columns):
        leaf = metadata.schema.column(number)
        if leaf.max_repetition_level == 0 and leaf.path.partition(".")[0] in found.column_names:
            count = metadata.row_group(group).column(number).num_values
            if count > length:
                raise pa.ArrowInvalid(f"There are {count} values of {leaf.path!r} in {length} rows.")


def _is_part(leaf: Any, name: str) -> bool:
    return leaf.max_definition_level > 0 and bool(leaf.path == name or leaf.path.startswith(f"{name}."))


class ParquetDataSource(TableDataSource):
    """Rows of Parquet files by their numbers, as dicts; of the columns `columns`, or of all.

    A row group is decoded as a whole, so up to `cache_bytes` of decoded row groups are kept in each process. Where all
    of them fit, rows cost what they cost in memory. Where they do not, read in order, shuffle within windows, or
    convert the files: a random row would cost a row group. How values are represented stands in
    `grain.sources.arrow_columns`; it does not change from row to row.

    >>> import pyarrow, pyarrow.parquet, tempfile
    >>> with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
    ...     pyarrow.parquet.write_table(pyarrow.table({"x": [1, 2, 3], "name": ["a", "b", "c"]}), file.name)
    ...     source = ParquetDataSource(file.name)
    ...     len(source), source[1]
    (3, {'x': np.int64(2), 'name': 'b'})
    """

    def __init__(
        self,
        paths: PathLike | Sequence[PathLike],
        columns: Sequence[str] | None = None,
        *,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        self._files = ParquetFiles(paths_of(paths), columns, {})
        groups = RowGroups(self._files)
        self._names = self._files.schema.names
        self._chunks = Chunks(groups.lengths, groups, cache_bytes)

    @property
    def paths(self) -> list[str]:
        """The files, in order."""
        return list(self._files.paths)

    def __len__(self) -> int:
        return len(self._chunks)

    def _record(self, key: int) -> dict[str, Any]:
        return self._chunks.row(key)

    def _taken(self, keys: Any, allocate: Allocate | None = None) -> Table:
        return self._chunks.taken(keys, allocate)

    def __repr__(self) -> str:
        return f"ParquetDataSource({described(self._files.paths)}, columns={list(self._names)})"


class RowGroups:
    """The row groups of several files, numbered through."""

    def __init__(self, files: ParquetFiles) -> None:
        self._files = files
        self._places = [(footer.file, group) for footer in files.footers for group in range(len(footer.lengths))]
        self.lengths = [length for footer in files.footers for length in footer.lengths]
        self._metadata: dict[str, Any] = {}

    def __reduce__(self) -> Any:
        return RowGroups, (self._files,)

    def where(self, number: int) -> str:
        """What a row group is called in errors."""
        file, group = self._places[number]
        return f"row group {group} of {file.path!r}"

    def __call__(self, number: int) -> Table:
        file, group = self._places[number]
        file.check()
        with self._files.opened(file.path, file.version, self._metadata.get(file.path)) as opened:
            table = self._files.read(opened, file.path, group)
            file.check()  # only now: it may have been changed meanwhile
            self._metadata[file.path] = opened.metadata
            return table
