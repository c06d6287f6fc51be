"""The columns that several files have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grain.fields import Frozen
from grain.sources.arrow_columns import are_alike, pa, plain, plain_type


class Schema(Frozen):
    """Columns, and the types they are read as."""

    types: dict[str, Any]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.types)

    def cast(self, table: Any, name: str) -> Any:
        """A column of `table`; one without any values gets the type that it has in other files."""
        column, kind = plain(table.column(name)), self.types[name]
        return column if are_alike(column.type, kind) else column.cast(kind)

    def without_type_in(self, schema: Any) -> list[str]:
        """Columns that have no values at all in a file with `schema`, which cannot tell their type."""
        return [name for name in self.types if pa.types.is_null(schema.field(name).type)]


def chosen(columns: Sequence[str] | None) -> list[str] | None:
    """The names of the columns that were asked for, once each; None for all that there are."""
    if isinstance(columns, str | bytes):
        raise TypeError(f"columns must be a sequence of names, got {columns!r}. Write [{columns!r}] for one column.")
    return None if columns is None else list(dict.fromkeys(columns))


def schema_of(files: Sequence[tuple[str, Any]], columns: Sequence[str] | None) -> Schema:
    """What the Arrow schemas of `files` have in common, which must be all of `columns`, or all."""
    path, first = files[0]
    names = chosen(columns)
    if names is None:
        names = first.names
    if not names:
        raise ValueError(f"Expected at least one column of {path!r}, which has {first.names}.")
    types: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for name in names:
        if name not in first.names:
            raise ValueError(f"There is no column {name!r} in {path!r}. It has {first.names}.")
    for other, schema in files:
        different = set(schema.names) ^ set(first.names) if columns is None else set(names) - set(schema.names)
        if different:
            raise ValueError(
                f"{path!r} and {other!r} do not have the same columns: {sorted(different)} are in one of them only. "
                "Choose columns that all files have (`columns`), or make a source of each kind of file."
            )
        for name in names:
            if schema.get_field_index(name) < 0:
                raise ValueError(f"{other!r} has several columns {name!r}: choose those with other names (`columns`).")
            kind = plain_type(schema.field(name).type)
            if name not in types or pa.types.is_null(types[name]):
                types[name], origins[name] = kind, other
            elif not are_alike(kind, types[name]) and not pa.types.is_null(kind):
                raise ValueError(
                    f"Column {name!r} is {types[name]} in {origins[name]!r} and {kind} in {other!r}. Write the files "
                    "with one type, leave the column out (`columns`), or make a source of each kind of file."
                )
    return Schema(types)
