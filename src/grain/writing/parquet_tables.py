"""Records as tables of Arrow, of which every value is the one that was given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from grain.sources.arrow_columns import pa
from grain.writing.column_types import MisfitError, check, type_of

_PLAIN = {int, float, str, bytes, bool, type(None)}
_REMEDY = (
    "Elements differ in the types of their values, or from what a column was found to hold by the first ones. Pass "
    "schema=, a pyarrow.Schema that fits all, or encode=, a function that makes them alike."
)


def schema_of_records(records: Sequence[dict[Any, Any]]) -> Any:
    """The columns that hold all of `records`, which are the first ones to be written."""

    def schema_of(rows: Sequence[Any]) -> Any:
        return pa.schema(list(type_of(rows)))

    return _made(schema_of, [plain_value(record) for record in records], 0)


def table_of(records: Sequence[dict[Any, Any]], schema: Any, start: int, *, may_round: bool) -> Any:
    """A table of `records`, the first of which is element number `start`; whether floats `may_round` was asked for."""

    def table(rows: Sequence[Any]) -> Any:
        check(rows, pa.struct(list(schema)), may_round=may_round)
        columns = [_column([row.get(field.name) for row in rows], field) for field in schema]
        return pa.Table.from_arrays(columns, schema=schema)

    return _made(table, [plain_value(record) for record in records], start)


def plain_value(value: Any) -> Any:
    """What pyarrow takes: neither arrays of no or several dimensions, nor those of others, nor days of NumPy."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, dict):
        is_plain = _PLAIN.issuperset(map(type, value.values()))
        return value if is_plain else {key: plain_value(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return value if _PLAIN.issuperset(map(type, value)) else [plain_value(part) for part in value]
    if not hasattr(value, "__array__"):
        return value
    if isinstance(value, np.generic):
        return value.item() if value.dtype == "M8[D]" else value
    if isinstance(value, np.ma.MaskedArray):
        return value.tolist()  # what is masked is None
    array = np.asarray(value)
    if array.ndim == 0:
        return plain_value(array[()])
    if array.ndim == 1:
        return array
    return [plain_value(row) for row in array] if array.dtype.kind in "mM" else array.tolist()


def _column(values: Sequence[Any], field: Any) -> Any:
    try:
        return pa.array(values, field.type)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise MisfitError(str(error), (field.name,)) from error


def _made(make: Callable[[Sequence[Any]], Any], rows: Sequence[Any], start: int) -> Any:
    """What `make` gives for all rows; its error says which is the first that does not go with those before it."""
    try:
        return make(rows)
    except MisfitError as error:
        misfit = error
        right, wrong = 0, len(rows)  # so many of them can be written, and so many cannot
        while wrong - right > 1:
            middle = (right + wrong) // 2
            try:
                make(rows[:middle])
                right = middle
            except MisfitError as earlier:
                wrong, misfit = middle, earlier
        raise _named(misfit, rows[wrong - 1], start + wrong - 1) from misfit


def _named(misfit: MisfitError, row: Any, number: int) -> Exception:
    value = row
    for key in misfit.path:
        value = value.get(key) if isinstance(value, dict) else value
    text = repr(value)
    shown = text if len(text) <= 80 else f"{text[:77]}..."
    where = f" column {'.'.join(misfit.path)!r} is" if misfit.path else ""
    error: Exception = pa.ArrowInvalid(
        f"Element {number} cannot be written:{where} {shown} ({type(value).__name__}), but {misfit}."
    )
    error.add_note(_REMEDY)
    return error
