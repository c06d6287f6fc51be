"""Arithmetic on indices that are ints or arrays of them, and never overflows."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from grain.errors import EmptyDatasetError

if TYPE_CHECKING:
    import numpy.typing as npt

IndexArray: TypeAlias = "npt.NDArray[Any]"
"""An array of int64, or of Python ints (dtype object) where int64 would overflow."""

_INT64 = 2**63


def integer(name: str, value: Any) -> int:
    """`value` as an int, whatever kind of integer it is."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r} ({type(value).__name__}).") from None


def is_count(value: Any) -> bool:
    """Whether `value` is an integer, of whatever kind, that is not negative."""
    return isinstance(value, int | np.integer) and int(value) >= 0


def exact(indices: Any, factor: int, offset: int = 0) -> Any:
    """`indices`, as Python ints where multiplying by `factor` and adding `offset` would overflow int64."""
    if type(indices) is int:
        return indices
    if isinstance(indices, np.ndarray) and indices.dtype != object and indices.size:
        largest = max(abs(int(indices.max())), abs(int(indices.min()))) + 1
        if largest * factor + abs(offset) >= _INT64:
            return indices.astype(object)
    return indices


def divided(indices: Any, count: int) -> tuple[Any, Any]:
    """The epoch of each index, and its place there, in epochs of `count`."""
    if type(indices) is int:
        try:
            return divmod(indices, count)
        except ZeroDivisionError:
            raise EmptyDatasetError from None
    if not count:
        raise EmptyDatasetError
    if isinstance(indices, np.ndarray) and indices.dtype == object:  # for which NumPy has no divmod
        return indices // count, indices % count
    quotient, remainder = divmod(indices, count)
    return quotient, remainder


def index_array(values: list[int]) -> IndexArray:
    """An array of `values`."""
    return np.array(values, dtype=np.int64 if not values or max(map(abs, values)) < _INT64 else object)


def even_split(length: int, index: int, count: int) -> tuple[int, int]:
    """The start and stop of part `index` of `count`; where they cannot all be of one size the first are longer by one.

    >>> [even_split(10, index, 3) for index in range(3)]
    [(0, 4), (4, 7), (7, 10)]
    """
    size, longer = divmod(length, count)
    start = index * size + min(index, longer)
    return start, start + size + (index < longer)
