"""By what one sees whether something is still the same in another run: functions by their code, files by their stamps.

A function is its code, its defaults, the values that it closes over and the globals that it names; a class is its
methods; of both, those that were installed are their names. A source of a user's own is its class, its length and its
`repr`, where it has one: what else it holds may be a counter or a connection. All else is what pickle makes of it.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import marshal
import os
import pickle
import sys
import types
from collections.abc import Iterator
from typing import Any

from grain.files.paths import File
from grain.graph.listing import listed
from grain.graph.node import Node
from grain.ops.file_streams import Streamed
from grain.ops.sourcing import Source
from grain.sources.numpy_arrays import NumpyDataSource

_PLAIN = (type(None), bool, int, float, complex, str, bytes, tuple, list, dict, set, frozenset)
_AT_ONCE = 4096
_WITHOUT_REFERENCES = 2
"""The version of marshal's format in which equal values are written alike, whoever else refers to them."""
_METHODS = (types.FunctionType, staticmethod, classmethod, property)


def identity(value: Any) -> str | None:
    """A digest that is the same for the same value in another run; None where that cannot be told.

    >>> identity([1, 2]) == identity([1, 2]), identity([1, 2]) == identity([1, 3]), identity(line for line in [])
    (True, False, None)
    """
    digest = _Digest()
    try:
        _Identity(digest, protocol=4).dump(value)
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError):
        return None
    return digest.sum.hexdigest()


class _Digest:
    def __init__(self) -> None:
        self.sum = hashlib.sha256()

    def write(self, data: Any) -> None:
        self.sum.update(data)


class _Parts:
    """What an object is made of, in its place."""


class _Identity(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        parts = _parts_of(value)
        # As a state they come after the object is known, which they may refer to.
        return NotImplemented if parts is None else (_Parts, (), parts)


def _parts_of(value: Any) -> Any:
    if isinstance(value, types.FunctionType):
        name = value.__module__, value.__qualname__
        return name if _is_installed(value.__module__) else _parts_of_function(value)
    if isinstance(value, types.CodeType):
        return _parts_of_code(value)
    if isinstance(value, types.ModuleType):
        return value.__name__, None if _is_installed(value.__name__) else _content(value)
    if isinstance(value, type):
        return None if _is_installed(value.__module__) else _parts_of_class(value)
    if isinstance(value, staticmethod | classmethod) or hasattr(value, "cache_info"):
        return type(value).__name__, value.__wrapped__
    if isinstance(value, property):
        return "property", value.fget
    if isinstance(value, Node):
        return [(kind, _parts_of_fields(kind, fields)) for kind, fields in listed(value, Node)]
    return None


def _parts_of_fields(kind: type, fields: dict[str, Any]) -> Any:
    """Those of an operator."""
    source: Any = fields.get("source")
    if issubclass(kind, Streamed) and hasattr(source, "file"):
        return fields["title"], source.file.path, File(source.file.path).version.stamp
    return _parts_of_source(source) if issubclass(kind, Source) else fields


def _parts_of_function(function: types.FunctionType) -> Any:
    named = set(_names_of_globals(function.__code__))
    used = {name: function.__globals__[name] for name in sorted(named & function.__globals__.keys())}
    cells = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
    return function.__code__, function.__defaults__, function.__kwdefaults__, _ordered(cells), _ordered(used)


def _parts_of_code(code: types.CodeType) -> Any:
    constants = [_ordered(constant) for constant in code.co_consts]
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
    return code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, counts


def _parts_of_class(kind: type) -> Any:
    members = {name: value for name, value in vars(kind).items() if isinstance(value, (*_METHODS, *_PLAIN))}
    members.pop("__module__", None)
    members.pop("__firstlineno__", None)
    return kind.__qualname__, kind.__bases__, _ordered(members)


def _parts_of_source(source: Any) -> Any:
    kind = type(source)
    if not _is_installed(kind.__module__) and not isinstance(source, _PLAIN):
        has_own_repr = kind.__repr__ is not object.__repr__  # type: ignore[comparison-overlap]
        return kind, len(source), repr(source) if has_own_repr else None
    if kind in (list, tuple):
        return kind, [_digest_of(source[start : start + _AT_ONCE]) for start in range(0, len(source), _AT_ONCE)]
    paths = getattr(source, "paths", ())
    is_in_files = paths and not isinstance(source, NumpyDataSource)  # which may have arrays in memory beside them
    return kind, repr(source) if is_in_files else source, [File(path).version.stamp for path in paths]


def _digest_of(elements: Any) -> str:
    """Of some elements of many: marshal is three times as fast as pickle, for what it can write."""
    try:
        return hashlib.sha256(marshal.dumps(elements, _WITHOUT_REFERENCES)).hexdigest()
    except ValueError:
        pass
    found = identity(elements)
    if found is None:
        raise TypeError("There are elements that cannot be pickled.")
    return found


def _names_of_globals(code: types.CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_of_globals(constant)


def _ordered(value: Any) -> Any:
    """Sets, also those in what holds others, as lists: the order of a set is another one in each run."""
    if isinstance(value, set | frozenset):
        return type(value).__name__, sorted(map(repr, value))
    if type(value) is dict:
        return {key: _ordered(entry) for key, entry in value.items()}
    return type(value)(map(_ordered, value)) if type(value) in (list, tuple) else value


def _is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _content(module: types.ModuleType) -> str | None:
    path = getattr(module, "__file__", None)
    if path is None:
        return None
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


@functools.cache
def _is_installed(name: str | None) -> bool:
    """Whether a module belongs to Python, to this package or to another that was installed."""
    root = (name or "__main__").partition(".")[0]
    if root in sys.builtin_module_names or root in sys.stdlib_module_names or root == "grain":
        return True
    path = getattr(sys.modules.get(name or "__main__"), "__file__", None) or ""
    return bool({"site-packages", "dist-packages"} & {*path.split(os.sep)})
