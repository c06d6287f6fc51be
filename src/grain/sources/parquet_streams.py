"""Rows of a Parquet file, one after the other."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from grain.fields import Fields, Frozen
from grain.files.streamed_files import StreamedFile
from grain.files.versions import Version, check
from grain.sources.columns import Table, raise_unreadable, rows_of
from grain.sources.parquet import ParquetFiles

_ROWS_AT_ONCE = 256
_PASSED_OVER = (1 << 31) - 1
"""In place of a row group, of which no file has so many: it could not be opened."""


class ParquetRows(Frozen):
    """A stream source: the rows of one of `files`, or of every `stride`-th row group of it from number `first` on."""

    files: ParquetFiles
    file: StreamedFile
    first: int = 0
    stride: int = 1

    class State(Fields):
        row_group: int = 0
        """Among those that are read."""
        index_within_row_group: int = 0
        _table: Table | None = None
        """The row group, where a row of it could not be read: it need not be decoded again for the next one."""

    def read(self, state: Any) -> Iterator[dict[str, Any]]:
        if state.row_group == _PASSED_OVER:
            return
        with contextlib.ExitStack() as stack:
            try:
                is_start = state.row_group == state.index_within_row_group == 0
                version = self.file.version(is_start)
                file = stack.enter_context(self.files.opened(self.file.path, version))
            except Exception:  # it is passed over, as a record would be: other files may be read
                state.row_group, state.index_within_row_group = _PASSED_OVER, 0
                raise
            groups = range(self.first, file.num_row_groups, self.stride)
            while state.row_group < len(groups):
                table, state._table = state._table or self._table(state, file, version, groups), None
                yield from self._rows(state, table, groups[state.row_group])
                if state.row_group + 1 == len(groups):
                    return
                state.row_group, state.index_within_row_group = state.row_group + 1, 0

    def _table(self, state: Any, file: Any, version: Version, groups: range) -> Table:
        try:
            table = self.files.read(file, self.file.path, groups[state.row_group])
            check(self.file.path, version)
            return table
        except Exception:
            state.row_group, state.index_within_row_group = state.row_group + 1, 0  # the others may be read
            raise

    def _rows(self, state: Any, table: Table, group: int) -> Iterator[dict[str, Any]]:
        length = len(next(iter(table.values())))
        while state.index_within_row_group < length:
            start = state.index_within_row_group
            some = {name: column.part(start, start + _ROWS_AT_ONCE) for name, column in table.items()}
            try:
                rows = rows_of(some)
            except Exception:
                yield from self._rows_one_by_one(state, table, group)
                continue
            for row in rows:
                state.index_within_row_group += 1
                yield row

    def _rows_one_by_one(self, state: Any, table: Table, group: int) -> Iterator[dict[str, Any]]:
        """The next rows up to one that cannot be read, which is passed over: those after it may be read."""
        while True:
            key = state.index_within_row_group
            state.index_within_row_group += 1
            try:
                row = {name: column.row(key) for name, column in table.items()}
            except Exception:
                state._table = table
                raise_unreadable(table, key, f"row {key} of row group {group} of {self.file.path!r}")
                raise
            yield row

    def part(self, index: int, count: int) -> ParquetRows | None:
        """Every `count`-th row group, where there is at least one for each part."""
        try:
            with self.files.opened(self.file.path, self.file.version(is_start=True)) as file:
                groups = len(range(self.first, file.num_row_groups, self.stride))
        except (ValueError, OSError):  # who reads it will say so
            return None
        if groups < count:
            return None
        return self.replaced(first=self.first + index * self.stride, stride=self.stride * count)

    def __str__(self) -> str:
        return self.file.path
