"""Elements as trees: dicts, lists, tuples and None are structure, everything else is a leaf.

As JAX sees them, without importing it: dict keys are sorted, and classes that users registered as pytrees with JAX
count when JAX is already imported.
"""

from __future__ import annotations

import dataclasses
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterator
from typing import Any, NamedTuple

import numpy as np

Path = tuple[Any, ...]
"""The keys and positions that lead from the root to a leaf."""

LEAF_TYPES = frozenset(
    {np.ndarray, int, float, bool, complex, str, bytes, *(np.dtype(code).type for code in np.typecodes["All"])}
)


class Branch(NamedTuple):
    """One level of a tree: its children, and how to build such a level from other children."""

    kind: Hashable
    keys: list[Any]
    children: list[Any]
    build: Callable[[list[Any]], Any]


def branch_of(tree: Any) -> Branch | None:
    """The top level of `tree`, or None where it is a leaf."""
    kind = type(tree)
    if kind in LEAF_TYPES:
        return None
    if tree is None:
        return Branch(None, [], [], lambda children: None)
    if kind is dict or kind is OrderedDict or kind is defaultdict:
        keys = list(tree) if kind is OrderedDict else _sorted_keys(tree)
        factory = tree.default_factory if kind is defaultdict else None
        return Branch((kind, factory, tuple(keys)), keys, [tree[key] for key in keys], _dict_builder(tree, keys))
    if kind is list or kind is tuple:
        return Branch((kind, len(tree)), list(range(len(tree))), list(tree), kind)
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return Branch((kind, len(tree)), list(tree._fields), list(tree), lambda children: kind(*children))
    jax = sys.modules.get("jax")
    return _registered_branch(jax, tree) if hasattr(jax, "tree_util") else None


def map_structure(function: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """A tree like `tree` with `function` applied to its leaves and to what stands in their places in `rest`.

    >>> map_structure(lambda x, y: x + y, {"b": 1, "a": [2]}, {"a": [20], "b": 10})
    {'a': [22], 'b': 11}
    """
    branch = branch_of(tree)
    if branch is None:
        return function(tree, *rest)
    columns = [branch.children]
    for other in rest:
        other_branch = branch_of(other)
        if other_branch is None or other_branch.kind != branch.kind:
            raise ValueError(f"The trees differ in structure: {spec_like(tree)} and {spec_like(other)}.")
        columns.append(other_branch.children)
    return branch.build([map_structure(function, *children) for children in zip(*columns, strict=True)])


def flatten_with_path(tree: Any) -> list[tuple[Path, Any]]:
    """The leaves of `tree`, each with the way to it.

    >>> flatten_with_path({"b": 1, "a": [2, None]})
    [(('a', 0), 2), (('b',), 1)]
    """
    return list(_walk(tree, ()))


def _walk(tree: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    branch = branch_of(tree)
    if branch is None:
        yield path, tree
    else:
        for key, child in zip(branch.keys, branch.children, strict=True):
            yield from _walk(child, (*path, key))


def flatten(tree: Any) -> list[Any]:
    """The leaves of `tree`."""
    return [leaf for _, leaf in _walk(tree, ())]


def spec_like(tree: Any) -> Any:
    """`tree` with each leaf replaced by its type and shape, for messages.

    >>> spec_like({"a": np.zeros((2, 3), np.float32), "b": [1, 2], "c": "x"})
    {'a': 'float32[2, 3]', 'b': 'list<int>[2]', 'c': 'str[]'}
    """
    if type(tree) in (list, tuple) and all(type(item) is type(tree[0]) for item in tree):
        return f"{type(tree).__name__}<{type(tree[0]).__name__ if tree else ''}>{_shape(tree)}"
    branch = branch_of(tree)
    if branch is not None:
        return branch.build([spec_like(child) for child in branch.children])
    if isinstance(tree, np.ndarray):
        return f"{tree.dtype}{list(tree.shape)}"
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        fields = {field.name: spec_like(getattr(tree, field.name)) for field in dataclasses.fields(tree)}
        return f"{type(tree).__name__}\n{fields}[]"
    return f"{type(tree).__name__}{_shape(tree)}"


def _shape(value: Any) -> str:
    try:
        return str(list(np.shape(value)))
    except ValueError:
        return "[unknown shape]"


def _sorted_keys(tree: dict[Any, Any]) -> list[Any]:
    try:
        return sorted(tree)
    except TypeError as error:
        raise ValueError(f"The keys of a dict must be comparable, got {list(tree)}.") from error


def _dict_builder(tree: Any, keys: list[Any]) -> Callable[[list[Any]], Any]:
    def build(children: list[Any]) -> Any:
        items = zip(keys, children, strict=True)
        if isinstance(tree, defaultdict):
            return defaultdict(tree.default_factory, items)
        return type(tree)(items)

    return build


def _registered_branch(jax: Any, tree: Any) -> Branch | None:
    children, structure = jax.tree_util.tree_flatten(tree, is_leaf=lambda node: node is not tree)
    if len(children) == 1 and children[0] is tree:
        return None
    return Branch((structure,), list(range(len(children))), children, structure.unflatten)
