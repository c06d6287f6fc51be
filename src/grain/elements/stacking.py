"""Batches: elements joined leaf by leaf along a new first axis."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np

from grain.elements.trees import LEAF_TYPES, Branch, Path, branch_of, flatten_with_path, map_structure, spec_like
from grain.options import warn

Allocate: TypeAlias = Callable[[tuple[int, ...], np.dtype[Any]], Any]
"""Makes an array of a shape and a dtype, to be filled."""

Place: TypeAlias = Callable[[], Allocate | None]
"""Called for each batch: a place for its arrays; None for anywhere."""

_SHORT = 64
_NUMBERS: dict[type, Any] = {int: np.int64, float: np.float64, bool: np.bool_, complex: np.complex128}
_NUMBERS.update({np.dtype(code).type: np.dtype(code).type for code in "?" + np.typecodes["AllInteger"] + "efdFD"})


def stacked(values: Sequence[Any], allocate: Allocate | None = None, keep_bytes: bool = False) -> Any:
    """One tree of arrays from a sequence of like trees; large ones are made by `allocate`, where it is given.

    NumPy's arrays of bytes, or of text, drop zeros at the ends; with `keep_bytes` these become arrays of objects.

    >>> stacked([{"x": 1, "y": [0.5, 1.5]}, {"x": 2, "y": [2.5, 3.5]}])
    {'x': array([1, 2]), 'y': [array([0.5, 2.5]), array([1.5, 3.5])]}
    """
    if not values:
        raise ValueError("Cannot batch 0 values.")
    if len(values) == 1:
        return map_structure(lambda leaf: _alone(leaf, keep_bytes), values[0])
    try:
        return _stacked(values, allocate, keep_bytes)
    except ValueError as error:
        raise ValueError(_difference(values)) from error


def unstacked(batch: Any) -> list[Any]:
    """The trees of which `batch` was stacked.

    >>> unstacked({"x": np.array([1, 2]), "y": [np.array([[0.5], [2.5]])]})
    [{'x': np.int64(1), 'y': [array([0.5])]}, {'x': np.int64(2), 'y': [array([2.5])]}]
    """
    lengths = {len(leaf) if np.ndim(leaf) else None for _, leaf in flatten_with_path(batch)}
    if len(lengths) != 1 or None in lengths:
        raise ValueError(
            f"Not a batch, of which all leaves are arrays with the same number of rows: {spec_like(batch)}. "
            "Drop what is not one for each row before `unbatch`."
        )
    return _unstacked(batch, lengths.pop())


def _unstacked(batch: Any, count: Any) -> list[Any]:
    branch = branch_of(batch)
    if branch is None:
        return list(batch)
    if not branch.children:
        return [branch.build([]) for _ in range(count)]
    return [
        branch.build(list(row)) for row in zip(*(_unstacked(child, count) for child in branch.children), strict=True)
    ]


def _alone(leaf: Any, keep_bytes: bool) -> Any:
    return _stacked_text([leaf], keep_bytes) if isinstance(leaf, str | bytes) else np.expand_dims(leaf, 0)


def _stacked(values: Sequence[Any], allocate: Allocate | None, keep_bytes: bool) -> Any:
    level = columns(values)
    if level is None:
        return _stacked_leaves(values, type(values[0]), allocate, keep_bytes)
    return level.build([_stacked(column, allocate, keep_bytes) for column in level.children])


def columns(values: Sequence[Any]) -> Branch | None:
    """The top level of like trees, each child being what all trees have there; None where they are leaves.

    >>> level = columns([{"b": 1, "a": 2}, {"a": 3, "b": 4}])
    >>> level.keys, level.children, level.build([5, 6])
    (['a', 'b'], [[2, 3], [1, 4]], {'a': 5, 'b': 6})
    """
    first = values[0]
    kind: Any = type(first)
    if kind in LEAF_TYPES:
        return None
    # What is most common does not need a Branch for each tree.
    if kind in (dict, list, tuple) and set(map(type, values)) == {kind} and set(map(len, values)) == {len(first)}:
        if kind is not dict:
            return Branch(kind, list(range(len(first))), list(zip(*values, strict=True)), kind)
        with contextlib.suppress(KeyError, TypeError):  # another key in some element; keys that cannot be sorted
            keys = sorted(first)
            children = [list(map(itemgetter(key), values)) for key in keys]
            return Branch(kind, keys, children, lambda parts: dict(zip(keys, parts, strict=True)))
    branches = [branch_of(value) for value in values]
    whole = branches[0]
    if whole is None:
        return None
    for branch, value in zip(branches, values, strict=True):
        if branch is None or branch.kind != whole.kind:
            raise ValueError(
                f"Elements differ in structure: {spec_like(first)} and {spec_like(value)}. Lists are structure too: "
                "make arrays of those that are data."
            )
    return whole._replace(children=list(zip(*(branch.children for branch in branches if branch), strict=True)))


def _stacked_leaves(values: Sequence[Any], kind: type, allocate: Allocate | None, keep_bytes: bool) -> Any:
    """`np.stack(values)`, without turning each value into an array first where all are of one kind."""
    kinds = set(map(type, values))
    if len(kinds) == 1:
        if kind is np.ndarray:
            return _stacked_arrays(values, allocate)
        if kind in _NUMBERS:
            try:
                return np.fromiter(values, _NUMBERS[kind], len(values))
            except OverflowError:  # larger ints: NumPy decides one by one
                return np.stack(values)
    if issubclass(kind, str | bytes) and (
        all(issubclass(each, str) for each in kinds) or all(issubclass(each, bytes) for each in kinds)
    ):
        return _stacked_text(values, keep_bytes)
    return np.stack(values)


def _stacked_text(values: Sequence[Any], keep_bytes: bool) -> Any:
    """An array of bytes, or of text."""
    zero: Any = "\0" if isinstance(values[0], str) else b"\0"
    nothing = zero[:0]
    if keep_bytes:
        batch = np.empty(len(values), object)
        batch[:] = [nothing.join((value,)) for value in values]  # NumPy's own scalars lose zeros when they are pickled
        return batch
    # Of short ones, to look at all of them together is faster.
    if (len(values[0]) > _SHORT or zero in nothing.join(values)) and any(value.endswith(zero) for value in values):
        _warn_of_lost_zeros()
    return np.array(values)


_has_warned = False


def _warn_of_lost_zeros() -> None:
    """Say, once, that a batch is not all that its elements were."""
    global _has_warned
    if not _has_warned:
        _has_warned = True
        warn(
            "Bytes or strings that end in zeros are batched without these: NumPy's arrays of them drop zeros at the "
            "end. Batch them with `batch(..., keep_bytes=True)`, which gives an array of objects."
        )


def _stacked_arrays(values: Sequence[Any], allocate: Allocate | None) -> Any:
    shape, dtype = values[0].shape, values[0].dtype
    if not shape:
        return np.stack(values)
    for value in values:
        if value.shape != shape:
            raise ValueError("shapes differ")
        if value.dtype != dtype:
            return np.stack(values)
    if allocate is None or not dtype.isnative:
        return np.concatenate(values).reshape(len(values), *shape)
    batch = allocate((len(values), *shape), dtype)
    np.concatenate(values, out=batch.reshape(len(values) * shape[0], *shape[1:]))
    return batch


def _difference(values: Sequence[Any]) -> str:
    """What is not alike in `values`: the first element that differs from element 0, and where."""
    lines = ["Expected all input elements to have the same structure but got:"]
    for position, value in enumerate(values[1:], 1):
        found = _first_difference(values[0], value, ())
        if found is not None:
            path, here, there = found
            place = "".join(f"[{key!r}]" for key in path) or "the element itself"
            lines += [
                f"  element 0: {_spec(values[0])}",
                f"  element {position}: {_spec(value)}",
                f"They differ at {place}: {here} in element 0, {there} in element {position}.",
            ]
            break
    else:
        lines.append(f"  {[_spec(value) for value in values[:4]]}{' …' if len(values) > 4 else ''}")
    lines.append("Make all elements alike before batching (pad, crop, drop keys), or pass a batch_fn that joins them.")
    return "\n".join(lines)


def _first_difference(first: Any, other: Any, path: Path) -> tuple[Path, Any, Any] | None:
    """Where two trees differ in structure or in the shape of a leaf, and what stands there in both."""
    try:
        branch, other_branch = branch_of(first), branch_of(other)
    except ValueError as error:
        return path, str(error), _spec(other)
    if branch is None:
        return None if _shape(first) == _shape(other) else (path, _spec(first), _spec(other))
    if other_branch is None or branch.kind != other_branch.kind:
        return _missing_key(branch, other_branch, path) or (path, _spec(first), _spec(other))
    for key, child, other_child in zip(branch.keys, branch.children, other_branch.children, strict=True):
        found = _first_difference(child, other_child, (*path, key))
        if found is not None:
            return found
    return None


def _missing_key(branch: Branch, other: Branch | None, path: Path) -> tuple[Path, Any, Any] | None:
    if other is None or not isinstance(branch.kind, tuple) or not isinstance(other.kind, tuple):
        return None
    if branch.kind[0] is not other.kind[0]:
        return None
    for key in [*branch.keys, *other.keys]:
        if key not in other.keys:
            return (*path, key), _spec(branch.children[branch.keys.index(key)]), "nothing"
        if key not in branch.keys:
            return (*path, key), "nothing", _spec(other.children[other.keys.index(key)])
    return None


def _shape(value: Any) -> Any:
    try:
        return np.shape(value)
    except ValueError:  # ragged
        return None


def _spec(value: Any) -> Any:
    try:
        return spec_like(value)
    except ValueError:  # keys that cannot be sorted
        return repr(value)
