"""Packed rows: documents side by side, with the number of its document and the position in it for each token."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from grain.elements.fitting import fitted
from grain.elements.trees import Path, branch_of
from grain.fields import Frozen

_MARK = np.dtype(np.int32)
"""The type of segment ids and positions."""


class Feature(Frozen):
    """One array of a row."""

    path: Path
    length: int
    is_meta: bool
    """Whether segment ids and positions are left out."""
    alignment: int = 1
    """Documents start at multiples of it."""
    padding: Any = None

    @property
    def name(self) -> str:
        return ".".join(map(str, self.path))

    def value_in(self, element: Any) -> Any:
        """What `element` has for this feature."""
        return functools.reduce(operator.getitem, self.path, element)

    def joined(self, documents: Sequence[Any], example: Any, counting: Any) -> tuple[Any, Any, Any, int]:
        """Documents side by side, in arrays for tokens like those of `example`.

        Values, segment ids, positions (these two are nothing for a meta feature), and how many tokens there are.
        """
        length, alignment, has_marks = self.length, self.alignment, not self.is_meta
        values = np.zeros(length if example.ndim == 1 else (length, *example.shape[1:]), example.dtype)
        if self.padding is not None:
            values[...] = self._filler(example.dtype)
        segment_ids: Any = np.zeros(length, _MARK) if has_marks else None
        positions: Any = np.zeros(length, _MARK) if has_marks else None
        start = tokens = number = 0
        for document in documents:
            count = len(document)
            end = start + count
            values[start:end] = document
            if has_marks:
                number += 1
                segment_ids[start:end] = number
                positions[start:end] = counting[:count]
            tokens += count
            start = end if alignment == 1 else end + -end % alignment
        return values, segment_ids, positions, tokens

    def _filler(self, dtype: np.dtype[Any]) -> Any:
        """The padding as an array of `dtype`."""
        if dtype not in self._fillers:
            self._fillers[dtype] = fitted(np.asarray(self.padding), dtype, f"as padding of feature {self.name!r}")
        return self._fillers[dtype]

    @functools.cached_property
    def _fillers(self) -> dict[np.dtype[Any], Any]:
        return {}

    def nbytes(self, example: Any) -> int:
        """The size of its arrays in a row."""
        token: int = example.itemsize * math.prod(example.shape[1:])
        marks = 0 if self.is_meta else 2 * _MARK.itemsize
        return self.length * (token + marks)


class RowFormat:
    """What rows look like.

    `struct` is a dict with the features for leaves; features in `lists` come as lists of what the documents have.
    """

    def __init__(
        self, struct: Mapping[str, Any], features: Sequence[Feature], lists: Sequence[str], *, is_sorted: bool
    ) -> None:
        self.struct, self.features, self.lists = struct, tuple(features), tuple(lists)
        self.names = [feature.name for feature in features]
        self.is_flat = all(len(feature.path) == 1 for feature in features)
        names = [*struct, *lists]
        self._cells: list[tuple[Feature, str, str, str]] = []
        for feature in features:
            marks = f"{feature.name}_segment_ids", f"{feature.name}_positions"
            self._cells.append((feature, feature.path[0], *marks))
            if not feature.is_meta:
                after = names.index(feature.name) + 1
                names[after:after] = marks
        self.counted = [(place, f.path[0], f.length) for place, f in enumerate(features) if not f.is_meta]
        """The features whose tokens are counted: their places, names and lengths."""
        self._blank = dict.fromkeys(sorted(names) if is_sorted else names)
        self._counting = np.arange(max(feature.length for feature in features), dtype=_MARK)

    def row(self, columns: Sequence[Sequence[Any]], examples: Sequence[Any]) -> Row:
        """A row of documents: what each has for the features, and then for the lists.

        Types, and shapes beyond the first axis, are those of `examples`.
        """
        element: dict[str, Any] = self._blank.copy()
        leaves, tokens = [], []
        for place, (feature, name, ids_name, positions_name) in enumerate(self._cells):
            values, segment_ids, positions, count = feature.joined(columns[place], examples[place], self._counting)
            element[name] = values
            if not feature.is_meta:
                element[ids_name], element[positions_name] = segment_ids, positions
            leaves.append(values)
            tokens.append(count)
        for place, name in enumerate(self.lists, len(leaves)):
            element[name] = list(columns[place])
        if not self.is_flat:
            rest = iter(leaves)
            element.update({key: _refilled(child, rest) for key, child in sorted(self.struct.items())})
        return Row(element, len(columns[0]), tokens)


def _refilled(struct: Any, leaves: Iterator[Any]) -> Any:
    """A tree like `struct` with other leaves."""
    branch = branch_of(struct)
    return next(leaves) if branch is None else branch.build([_refilled(child, leaves) for child in branch.children])


class Row(NamedTuple):
    """Documents side by side: the element, how many documents it has, and how many tokens of each feature."""

    element: dict[str, Any]
    sequences: int
    tokens: Sequence[int]


def as_document(value: Any, name: str, example: Any = None) -> Any:
    """`value` as an array of tokens, which are like those of `example`; a number by itself is one token.

    Where it would have to be changed for that, it is an error, see `fitting.py`.
    """
    document = np.atleast_1d(np.asarray(value))
    if example is None:
        return document
    if document.shape[1:] != example.shape[1:]:
        raise ValueError(
            f"The tokens of feature {name!r} have the shape {document.shape[1:]}, but those of a document before had "
            f"{example.shape[1:]}: documents may differ in the first axis only."
        )
    return fitted(document, example.dtype, f"in feature {name!r} of a document")
