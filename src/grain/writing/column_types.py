"""The types of columns that hold Python's values exactly: pyarrow by itself makes 2 of 2.75, and b"a" of "a".

Values have a common type where none is changed by it: integers beside floats are floats, if these can hold them, and
dicts have the keys of all. Whatever else differs is an error: text and bytes, bools and numbers, days and times, times
with a zone and without.
"""

from __future__ import annotations

import datetime
import decimal
import functools
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from grain.sources.arrow_columns import compute, pa

_NONE = type(None)
_LISTS = (list, tuple, set, frozenset, np.ndarray)
_WHOLLY_TYPED = (datetime.datetime, datetime.time, decimal.Decimal, np.datetime64, np.timedelta64)
"""One value of these does not tell the type of others."""


class MisfitError(ValueError):
    """Values that no column holds as they are; `path` has the keys of dicts under which they are."""

    def __init__(self, message: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.path = path


def type_of(values: Sequence[Any]) -> Any:
    """The Arrow type that holds all values exactly."""
    found, kinds = pa.null(), set(map(type, values))
    for kind in sorted(kinds - {_NONE}, key=str):
        alike = values if len(kinds) == 1 else [value for value in values if type(value) is kind]
        found = _common(found, _type_of_alike(kind, alike))
    if len(kinds) > 1 and pa.types.is_floating(found):
        _check_conversion([value for value in values if isinstance(value, int | np.integer)], found)
    return found


def check(values: Sequence[Any], kind: Any, *, may_round: bool) -> None:
    """Raise an error if a column of type `kind` does not hold all values exactly; floats `may_round` if asked to."""
    is_a, kinds = pa.types, set(map(type, values))
    if kinds <= {_NONE, _exact_types().get(kind)}:
        return  # what pyarrow takes as it is, or refuses
    if isinstance(kind, pa.BaseExtensionType):
        if type_of(values) == kind:
            return
        kind = kind.storage_type
    if is_a.is_dictionary(kind):
        kind = kind.value_type
    if _NONE in kinds:
        values = [value for value in values if value is not None]
        kinds.discard(_NONE)
    if is_a.is_struct(kind) and all(issubclass(each, dict) for each in kinds):
        _check_fields(values, kind, may_round)
    elif is_a.is_map(kind):
        _check_pairs(values, kind, may_round)
    elif is_list(kind) and all(issubclass(each, _LISTS) for each in kinds):
        check(_items(values), kind.value_type, may_round=may_round)
        for found, arrays in _arrays_by_type(values):
            if found != kind.value_type:
                _check_leaf(np.concatenate(arrays), found, kind.value_type, may_round)
    else:
        _check_leaf(values, type_of(values), kind, may_round)


def is_list(kind: Any) -> bool:
    """Whether values of that type are lists."""
    is_a = pa.types
    return bool(is_a.is_list(kind) or is_a.is_large_list(kind) or is_a.is_fixed_size_list(kind))


def _check_fields(values: Sequence[Any], kind: Any, may_round: bool) -> None:
    types = {field.name: field.type for field in kind}
    if unknown := set(chain.from_iterable(values)) - set(types):
        names = f"columns {sorted(unknown, key=repr)} beside those of the first ones or of the schema, {list(types)}"
        raise MisfitError(f"there are {names}")
    for name, part in types.items():
        with _At(name):
            check([value.get(name) for value in values], part, may_round=may_round)


def _check_pairs(values: Sequence[Any], kind: Any, may_round: bool) -> None:
    try:
        pairs = [(key, item) for value in values for key, item in (value.items() if isinstance(value, dict) else value)]
    except (TypeError, ValueError) as error:
        raise MisfitError(f"a dict or a list of pairs was expected: {error}") from error
    check([key for key, _ in pairs], kind.key_type, may_round=may_round)
    check([item for _, item in pairs], kind.item_type, may_round=may_round)


def _check_leaf(values: Any, found: Any, kind: Any, may_round: bool) -> None:
    if found == kind or pa.types.is_null(found):
        return
    if not _may_become(found, kind, may_round):
        raise MisfitError(f"{found} does not fit into {kind}")
    _check_conversion(values, kind, found)


def _check_conversion(values: Any, kind: Any, found: Any = None) -> None:
    try:
        array = pa.array(values, found)
        made = array.cast(kind)
        if pa.types.is_floating(array.type):
            is_exact = compute.is_finite(made).equals(compute.is_finite(array))
        else:
            is_exact = not pa.types.is_integer(array.type) or made.cast(array.type).equals(array)
    except (pa.ArrowException, OverflowError) as error:
        raise MisfitError(f"{kind} does not hold it: {error}") from error
    if not is_exact:
        raise MisfitError(f"{kind} does not hold it")


def _type_of_alike(kind: type, values: Sequence[Any]) -> Any:
    """The type of values that are all of the same type of Python."""
    if issubclass(kind, dict):
        return _type_of_dicts(values)
    if issubclass(kind, _LISTS):
        found = type_of(_items(values))
        for other, _ in _arrays_by_type(values):
            found = _common(found, other)
        return pa.list_(found)
    if issubclass(kind, int) and not issubclass(kind, bool):
        lowest, highest = min(values), max(values)
        if lowest < -(2**63) or highest >= (2**64 if lowest >= 0 else 2**63):
            raise MisfitError(f"{lowest if lowest < -(2**63) else highest} has more than 64 bits")
        return pa.int64() if highest < 2**63 else pa.uint64()
    if issubclass(kind, datetime.datetime | datetime.time) and len({value.tzinfo is None for value in values}) > 1:
        raise MisfitError("some have a zone, others have none")
    if issubclass(kind, datetime.time) and values[0].tzinfo is not None:
        raise MisfitError("times of day with a zone lose it")
    try:
        return pa.array(values if issubclass(kind, _WHOLLY_TYPED) else values[:1]).type
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise MisfitError(str(error)) from error


def _type_of_dicts(values: Sequence[dict[Any, Any]]) -> Any:
    fields = {}
    for name in dict.fromkeys(chain.from_iterable(values)):
        if not isinstance(name, str):
            raise MisfitError(f"the key {name!r} is not a str")
        with _At(name):
            fields[name] = type_of([value.get(name) for value in values])
    return pa.struct(fields)


def _items(lists: Sequence[Any]) -> list[Any]:
    """The items of all lists but those that are arrays which say of which type they are."""
    if any(issubclass(kind, np.ndarray) for kind in set(map(type, lists))):
        lists = [some for some in lists if not isinstance(some, np.ndarray) or some.dtype.hasobject]
    return list(chain.from_iterable(lists))


def _arrays_by_type(lists: Sequence[Any]) -> list[tuple[Any, list[Any]]]:
    """Arrays that say of which type they are, by their types."""
    arrays: dict[Any, list[Any]] = {}
    if any(issubclass(kind, np.ndarray) for kind in set(map(type, lists))):
        for some in lists:
            if isinstance(some, np.ndarray) and not some.dtype.hasobject:
                arrays.setdefault(some.dtype, []).append(some)
    try:
        return [(pa.array(alike[0][:0]).type, alike) for alike in arrays.values()]
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise MisfitError(str(error)) from error


def _common(one: Any, other: Any) -> Any:
    """The type that holds what either does."""
    is_a = pa.types
    if one == other or is_a.is_null(other):
        return one
    if is_a.is_null(one):
        return other
    if is_list(one) and is_list(other):
        return pa.list_(_common(one.value_type, other.value_type))
    if is_a.is_struct(one) and is_a.is_struct(other):
        types = {field.name: field.type for field in one}
        for field in other:
            with _At(field.name):
                types[field.name] = _common(types.get(field.name, pa.null()), field.type)
        return pa.struct(types)
    if _is_number(one) and _is_number(other):
        if is_a.is_floating(one) != is_a.is_floating(other):
            return pa.float64()
        dtype = np.result_type(one.to_pandas_dtype(), other.to_pandas_dtype())
        if dtype.kind == "f" and is_a.is_integer(one):
            raise MisfitError(f"{one} and {other} have no type in common")
        return pa.from_numpy_dtype(dtype)
    raise MisfitError(f"{one} and {other} have no type in common")


def _may_become(found: Any, kind: Any, may_round: bool) -> bool:
    """Whether values of one type are still the same, if the other holds them at all."""
    is_a = pa.types
    if _is_number(found) and _is_number(kind):
        if is_a.is_floating(kind):
            return not is_a.is_floating(found) or may_round or found.bit_width <= kind.bit_width
        return not is_a.is_floating(found)
    if is_a.is_timestamp(found) and is_a.is_timestamp(kind):
        return (found.tz is None) == (kind.tz is None)
    families = (_is_text, _is_bytes, is_a.is_duration, is_a.is_time, is_a.is_date, is_a.is_decimal)
    return any(is_one(found) and is_one(kind) for is_one in families)


def _is_number(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_bytes(kind: Any) -> bool:
    is_a = pa.types
    is_fixed = is_a.is_fixed_size_binary(kind) and not is_a.is_decimal(kind)
    return bool(is_fixed or is_a.is_binary(kind) or is_a.is_large_binary(kind) or is_a.is_binary_view(kind))


@functools.cache
def _exact_types() -> dict[Any, type]:
    return {pa.int64(): int, pa.float64(): float, pa.string(): str, pa.binary(): bytes, pa.bool_(): bool}


class _At:
    """Has errors in its block say that they are under the key `name`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if isinstance(error, MisfitError):
            error.path = (self._name, *error.path)
