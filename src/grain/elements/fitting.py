"""Values of one type in arrays of another: only where they fit.

1. Numbers keep their values. What would be cut off, wrapped around or become infinite does not fit.
2. Floats, and complex numbers, may lose digits in narrower ones of their kind.
3. Text, bytes and times fit arrays of their own kind that have room for all of them; text that is a number, just as it
   would be written, and that number fit each other's. Anything fits an array of objects.
"""

from __future__ import annotations

from itertools import starmap
from typing import Any

import numpy as np

from grain.fields import brief


def fitted(values: Any, dtype: np.dtype[Any], of: str) -> Any:
    """The array `values` as one of `dtype`; where they do not fit, an error says which one, `of` what."""
    if values.dtype == dtype:
        return values
    try:
        cast = _cast(values, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise _misfit(values, dtype, of, f" ({error})") from error
    if cast is None:
        raise _misfit(values, dtype, of, "")
    return cast


def _misfit(values: Any, dtype: np.dtype[Any], of: str, reason: str) -> ValueError:
    """The error that tells of the first of `values` that does not fit."""
    first = next((value for value in values.ravel().tolist() if not _fits(value, values.dtype, dtype)), values)
    return ValueError(
        f"{brief(first)} {of} does not fit an array of {dtype}{reason}: convert it from {values.dtype} before, or all "
        "to a type that holds them."
    )


def _fits(value: Any, before: np.dtype[Any], after: np.dtype[Any]) -> bool:
    single = np.empty(1, before)
    single[0] = value
    try:
        return _cast(single, after) is not None
    except (TypeError, ValueError, OverflowError):
        return False


def _cast(values: Any, dtype: np.dtype[Any]) -> Any:
    """`values` as an array of `dtype`; None where they do not fit."""
    before, after = values.dtype.kind, dtype.kind
    if after == "O" or not values.size:
        return values.astype(dtype)
    if before in "iu" and after in "iu":
        limits = np.iinfo(dtype)
        fits = limits.min <= int(values.min()) and int(values.max()) <= limits.max
        return values.astype(dtype) if fits else None
    if before == "c" and after in "biuf":
        return None if values.imag.any() else _cast(values.real, dtype)
    with np.errstate(all="ignore"):
        cast = values.astype(dtype)
    if before in "fc" and after in "fc":
        return cast if (np.isfinite(cast) == np.isfinite(values)).all() else None
    if before == after and before in "mM":
        return cast if ((cast == values) | (np.isnat(cast) & np.isnat(values))).all() else None
    if before != after and before != "O" and (before in "US" or after in "US"):
        return cast if (cast.astype(values.dtype) == values).all() else None
    # As Python's own values, which compare exactly, ints with floats too.
    pairs = zip(cast.ravel().tolist(), values.ravel().tolist(), strict=True)
    return cast if all(starmap(_are_same, pairs)) else None


def _are_same(one: Any, other: Any) -> bool:
    return bool(one == other or (one != one and other != other))  # not a number is not equal to itself
