"""How transformations are shown in the names of operators."""

from __future__ import annotations

import inspect
from typing import Any

from grain import transforms

_NAMED_BY_CLASS = (
    transforms.Batch,
    transforms.Map,
    transforms.RandomMap,
    transforms.TfRandomMap,
    transforms.MapWithIndex,
    transforms.Filter,
    transforms.FlatMap,
)


def transform_name(transform: Any) -> str:
    """`decode @ .../data/images/decoding.py:12` for a function, the class name for a transformation object.

    >>> transform_name(abs)
    'abs'
    """
    if isinstance(transform, _NAMED_BY_CLASS):
        kind = type(transform)
        if kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__:
            return kind.__name__
        return str(transform)
    return (getattr(transform, "__name__", None) and f"{transform.__name__}{_place(transform)}") or repr(transform)


def transform_place(transform: Any, method: str) -> str:
    """Where the code of a transformation stands: ` @ .../a/b/c.py:12`, or nothing where it is not known."""
    return _place(getattr(transform, method, transform))


def _place(function: Any) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return ""
    parts = code.co_filename.replace("\\", "/").split("/")
    return f" @ .../{'/'.join(parts[-3:])}:{code.co_firstlineno}"
