"""How transformations are shown in the names of operators."""

from __future__ import annotations

import inspect
import re
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


def call_of(shown: str) -> str:
    """A call in a chain of them, made of how a dataset is shown.

    >>> call_of("MapMapDataset(transform=abs)"), call_of("SliceMapDataset[1:3:1]"), call_of("WindowShuffleIterDataset")
    ('map(abs)', '[1:3:1]', 'window_shuffle()')
    """
    found = re.fullmatch(r"(\w+?)(?:Map|Iter)Dataset(.*)", shown, re.DOTALL)
    if found is None:
        return shown
    name, arguments = found.groups()
    if arguments.startswith("["):
        return arguments
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    return f"{name}{arguments.replace('(transform=', '(', 1) or '()'}"


def counted(count: int, noun: str) -> str:
    """`1 element`, `2 elements`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def transform_place(transform: Any, method: str) -> str:
    """Where the code of a transformation stands: ` @ .../a/b/c.py:12`, or nothing where it is not known."""
    return _place(getattr(transform, method, transform))


def _place(function: Any) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return ""
    parts = code.co_filename.replace("\\", "/").split("/")
    return f" @ .../{'/'.join(parts[-3:])}:{code.co_firstlineno}"
