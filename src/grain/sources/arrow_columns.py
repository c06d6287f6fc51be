"""Arrow's columns as NumPy's values: rows and batches of them are the same for Parquet, Arrow and CSV files.

| Arrow | a value | null |
|---|---|---|
| integers | the same type of NumPy | NaN, and then all values of the column are float64 |
| floats | the same type of NumPy | NaN |
| timestamps, dates, durations | datetime64 (in UTC, where there is a zone) or timedelta64 of the same unit | NaT |
| booleans | bool of NumPy | None, and then all values of the column are bools of Python |
| strings, binaries, decimals, times, UUIDs | str, bytes, Decimal, time, UUID | None |
| lists | an array | None |
| structs, maps | a dict of Python's values, a list of pairs | None |
| dictionaries, runs, other extension types | what their values, or their storage, would be | |
| others | what `to_pylist` gives | None |

Whether a column has nulls is asked once for all files of a source, not of the rows at hand: so its type is the same for
every row, and for every batch. In a list integers stay integers, unless that very list has a null.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from grain.elements.stacking import Allocate, stacked
from grain.escaping import printable_message
from grain.sources.columns import Flat, Values

MOST_BYTES = 1 << 31
"""What one array of Arrow can hold, unless its offsets have 64 bits."""


class _Later:
    """A module of pyarrow, imported when something of it is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        try:
            module = importlib.import_module(self._name)
        except ImportError as error:
            raise ImportError("Parquet, Arrow and CSV files take pyarrow: pip install 'grain[arrow]'.") from error
        found = self.__dict__[name] = getattr(module, name)
        return found


pa: Any = _Later("pyarrow")
compute: Any = _Later("pyarrow.compute")
csv: Any = _Later("pyarrow.csv")
ipc: Any = _Later("pyarrow.ipc")
parquet: Any = _Later("pyarrow.parquet")


@contextlib.contextmanager
def told(what: str) -> Iterator[None]:
    """Have errors of Arrow begin with `what`, which names the file: they do not."""
    try:
        yield
    except (FileNotFoundError, PermissionError):
        raise
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise ValueError(f"{what}: {printable_message(error)}") from error


class Arrows(Values):
    """Values that Arrow keeps: of different lengths, or missing."""

    def __init__(self, array: Any) -> None:
        self.array = array

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        return int(self.array.nbytes)

    def __len__(self) -> int:
        return len(self.array)

    def take(self, keys: Any, allocate: Allocate | None = None) -> Arrows:
        try:
            return Arrows(self.array.take(pa.array(keys)))
        except pa.ArrowNotImplementedError:  # of views and runs within others
            return Arrows(pa.concat_arrays([self.array.slice(key, 1) for key in keys.tolist()]))

    def row(self, key: int) -> Any:
        return objects_of(self.array.slice(key, 1))[0]

    def part(self, start: int, stop: int) -> Arrows:
        return Arrows(self.array.slice(start, stop - start))

    def rows(self) -> list[Any]:
        return objects_of(self.array)

    def stacked(self, allocate: Allocate | None = None) -> Any:
        return stacked(self.rows(), allocate)

    @classmethod
    def joined(cls, columns: Sequence[Arrows]) -> Arrows:
        return cls(_joined([column.array for column in columns]))


def values_of(array: Any, may_be_null: bool) -> Values:
    """The values of an Arrow array; `may_be_null`: whether there are nulls in the whole column, here or elsewhere."""
    array = plain(array)
    kind = array.type
    if not may_be_null and nulls_change_type(kind) and has_nulls(array):
        raise pa.ArrowInvalid("There are nulls where the statistics of the file say that there are none.")
    if pa.types.is_fixed_size_list(kind) and is_number(kind.value_type) and not may_be_null:
        return Flat(array.flatten().to_numpy(zero_copy_only=False).reshape(len(array), kind.list_size))
    if not is_number(kind) or (may_be_null and pa.types.is_boolean(kind)):
        return Arrows(array)
    values = array.to_numpy(zero_copy_only=False)
    return Flat(values.astype(np.float64, copy=False) if may_be_null and pa.types.is_integer(kind) else values)


def plain(array: Any) -> Any:
    """An Arrow array of one piece, and of its `plain_type`."""
    if isinstance(array, pa.ChunkedArray):
        array = _joined(array.chunks) if array.num_chunks else pa.array([], array.type)
    kind = array.type
    if plain_type(kind) == kind:
        return array
    if isinstance(array, pa.ExtensionArray):
        return plain(array.storage)
    if pa.types.is_dictionary(kind):
        return plain(array.dictionary).take(array.indices)  # `dictionary_decode` is wrong where values are encoded too
    if pa.types.is_run_end_encoded(kind):
        rows = np.arange(array.offset, array.offset + len(array))
        runs = np.searchsorted(array.run_ends.to_numpy(), rows, side="right")
        return plain(array.values).take(pa.array(runs))
    return array.cast(plain_type(kind))


def _joined(arrays: Sequence[Any]) -> Any:
    """One Arrow array of several; strings that are long together, or of which some were, get offsets of 64 bits."""
    if len(arrays) == 1:
        return arrays[0]
    if sum(array.nbytes for array in arrays) >= MOST_BYTES or len({array.type for array in arrays}) > 1:
        large = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
        arrays = [array.cast(large.get(array.type, array.type)) for array in arrays]
    return pa.concat_arrays(arrays)


def are_alike(one: Any, other: Any) -> bool:
    """Whether arrays of both types can be joined."""
    return one == other or {one, other} in ({pa.string(), pa.large_string()}, {pa.binary(), pa.large_binary()})


def plain_type(kind: Any) -> Any:
    """The type that a column of type `kind` is read as: one of Arrow's own, not encoded, and known to all functions."""
    is_a = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return kind if isinstance(kind, pa.UuidType) else plain_type(kind.storage_type)
    if is_a.is_dictionary(kind) or is_a.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if is_a.is_string_view(kind) or is_a.is_binary_view(kind):
        return pa.large_string() if is_a.is_string_view(kind) else pa.large_binary()
    return kind


def nulls_change_type(kind: Any) -> bool:
    """Whether one has to know if there are nulls to say how values of that type are represented."""
    kind = plain_type(kind)
    return bool(pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_fixed_size_list(kind))


def has_nulls(array: Any) -> bool:
    """Whether there are nulls in an Arrow array, or in its lists of one size."""
    array = plain(array)
    return bool(array.null_count or (pa.types.is_fixed_size_list(array.type) and array.flatten().null_count))


def is_number(kind: Any) -> bool:
    """Whether NumPy has that type."""
    is_a = pa.types
    return bool(
        is_a.is_integer(kind)
        or is_a.is_floating(kind)
        or is_a.is_boolean(kind)
        or is_a.is_timestamp(kind)
        or is_a.is_date(kind)
        or is_a.is_duration(kind)
    )


def objects_of(array: Any) -> list[Any]:
    """The values of an Arrow array one by one."""
    array = plain(array)
    kind, is_a = array.type, pa.types
    if is_a.is_map(kind):
        return _pairs(array)
    if is_a.is_struct(kind):
        return _dicts(array)
    if _is_list(kind):
        return _lists(array)
    if is_a.is_timestamp(kind) or is_a.is_date(kind) or is_a.is_duration(kind):
        return list(array.to_numpy(zero_copy_only=False))
    if is_a.is_decimal(kind) or is_a.is_time(kind):
        array.validate(full=True)  # too many digits, or a time beyond the day: Python would make something of them
    return array.to_pylist()  # type: ignore[no-any-return]


def _is_list(kind: Any) -> bool:
    is_a = pa.types
    is_view = is_a.is_list_view(kind) or is_a.is_large_list_view(kind)
    return bool(is_view or is_a.is_list(kind) or is_a.is_large_list(kind) or is_a.is_fixed_size_list(kind))


def _dicts(array: Any) -> list[Any]:
    names = [field.name for field in array.type]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise pa.ArrowInvalid(f"It has several fields {twice!r}.")
    rows = zip(*(objects_of(array.field(number)) for number in range(len(names))), strict=True)
    found = [dict(zip(names, row, strict=True)) for row in rows] if names else [{} for _ in range(len(array))]
    return _without_nulls(array, found)


def _pairs(array: Any) -> list[Any]:
    offsets = array.offsets.to_pylist()
    first, count = offsets[0], offsets[-1] - offsets[0]
    keys, items = array.keys.slice(first, count), array.items.slice(first, count)
    pairs = list(zip(objects_of(keys), objects_of(items), strict=True))
    found = [pairs[start - first : end - first] for start, end in itertools.pairwise(offsets)]
    return _without_nulls(array, found)


def _lists(array: Any) -> list[Any]:
    starts, ends = _extents(array)
    items, kind = plain(array.flatten()), plain_type(array.type.value_type)
    holes = None
    if items.null_count and (pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        holes = items.is_null().to_numpy(zero_copy_only=False)
        items = items.fill_null(0 if pa.types.is_integer(kind) else False)
    values = _array_of(items)
    found = [values[start:end].copy() for start, end in zip(starts, ends, strict=True)]
    if holes is not None:
        for place, (start, end) in enumerate(zip(starts, ends, strict=True)):
            if holes[start:end].any():
                found[place] = found[place].astype(np.float64 if pa.types.is_integer(kind) else object)
                found[place][holes[start:end]] = np.nan if pa.types.is_integer(kind) else None
    return _without_nulls(array, found)


def _array_of(items: Any) -> Any:
    if is_number(items.type):
        return items.to_numpy(zero_copy_only=False)
    values = np.empty(len(items), object)
    for place, value in enumerate(objects_of(items)):  # an assignment of all at once would look into arrays
        values[place] = value
    return values


def _extents(array: Any) -> tuple[list[int], list[int]]:
    """Where each list of an array starts and ends in its items, which are those of lists that are not null."""
    lengths = compute.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    ends = np.cumsum(lengths, dtype=np.int64)
    return (ends - lengths).tolist(), ends.tolist()


def _without_nulls(array: Any, values: list[Any]) -> list[Any]:
    if not array.null_count:
        return values
    return [value if valid else None for value, valid in zip(values, array.is_valid().to_pylist(), strict=True)]
