"""Columns of a table in memory, and the rows and batches that are taken from them."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from grain.elements.stacking import Allocate, stacked
from grain.sources.random_access import ColumnarDataSource

if TYPE_CHECKING:
    import numpy.typing as npt


class Column(abc.ABC):
    """The values of one name, one for each row, wherever they are."""

    nbytes: int
    """How much memory of this process they take."""

    @abc.abstractmethod
    def take(self, keys: Any, allocate: Allocate | None = None) -> Values:
        """A copy of the values at an array of keys."""

    def row(self, key: int) -> Any:
        """One value."""
        return self.take(np.array([key])).rows()[0]


class Values(Column):
    """A column in memory."""

    @abc.abstractmethod
    def __len__(self) -> int: ...

    @abc.abstractmethod
    def part(self, start: int, stop: int) -> Values:
        """A copy of the values from `start` to `stop`."""

    @abc.abstractmethod
    def rows(self) -> list[Any]:
        """The values one by one."""

    @abc.abstractmethod
    def stacked(self, allocate: Allocate | None = None) -> Any:
        """All values as one batch."""

    @classmethod
    @abc.abstractmethod
    def joined(cls, columns: Sequence[Any]) -> Values:
        """One column of several of this kind."""


class Flat(Values):
    """Values that are rows of one array."""

    def __init__(self, values: Any) -> None:
        self.values = values

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        return int(self.values.nbytes)

    def __len__(self) -> int:
        return len(self.values)

    def take(self, keys: Any, allocate: Allocate | None = None) -> Flat:
        return Flat(gathered(self.values, keys, allocate))

    def row(self, key: int) -> Any:
        return row_of(self.values, key)

    def part(self, start: int, stop: int) -> Flat:
        return Flat(self.values[start:stop].copy())

    def rows(self) -> list[Any]:
        return list(self.values)

    def stacked(self, allocate: Allocate | None = None) -> Any:
        return self.values

    @classmethod
    def joined(cls, columns: Sequence[Flat]) -> Flat:
        return cls(np.concatenate([column.values for column in columns]))


Columns: TypeAlias = Mapping[str, Column]
Table: TypeAlias = dict[str, Values]


def gathered(values: Any, keys: Any, allocate: Allocate | None) -> Any:
    """The rows of an array at an array of keys, which must be in range."""
    axis = None if values.ndim == 1 else 0
    if allocate is None or values.dtype.hasobject or not values.dtype.isnative:
        return values.take(keys, axis)
    return values.take(keys, axis, allocate((len(keys), *values.shape[1:]), values.dtype), "clip")


def row_of(values: Any, key: int) -> Any:
    """One row of an array, which does not change with it."""
    is_value = values.ndim == 1 and values.dtype.names is None  # a row with names of its own is part of the array
    return values[key] if is_value else values[key].copy()


def taken(table: Columns, keys: Any, allocate: Allocate | None = None) -> Table:
    """The rows of `table` at an array of keys."""
    return {name: column.take(keys, allocate) for name, column in table.items()}


def rows_of(table: Table) -> list[dict[str, Any]]:
    """The rows of `table`, each a dict."""
    names = list(table)
    return [
        dict(zip(names, row, strict=True)) for row in zip(*(column.rows() for column in table.values()), strict=True)
    ]


def raise_unreadable(table: Columns, key: int, row: str) -> None:
    """Raise an error that says which column of a row, called `row`, cannot be read, if there is one."""
    for name, column in table.items():
        try:
            column.row(key)
        except Exception as error:
            raise ValueError(f"Column {name!r} of {row} cannot be read: {error}") from error


class TableDataSource(ColumnarDataSource[dict[str, Any]]):
    """Rows of a table as dicts."""

    @abc.abstractmethod
    def _taken(self, keys: Any, allocate: Allocate | None = None) -> Table:
        """The rows at an array of keys."""

    @abc.abstractmethod
    def _record(self, key: int) -> dict[str, Any]: ...

    def __getitems__(self, record_keys: Sequence[int]) -> list[dict[str, Any]]:
        keys = self._keys(record_keys)
        try:
            return rows_of(self._taken(keys)) if len(keys) else []
        except Exception:
            for key in keys.tolist():
                self._record(key)  # its error says which record it is
            raise

    def batch(self, record_keys: npt.NDArray[np.int64], allocate: Allocate | None = None) -> Any:
        try:
            table = self._taken(record_keys, allocate)
            return {name: table[name].stacked(allocate) for name in sorted(table)}
        except Exception:
            rows = self.__getitems__(record_keys.tolist())  # its error says which record it is
            return stacked(rows, allocate)  # and this one which records differ, and where
