"""Packed rows: documents side by side, with the number of its document and the position in it for each token."""

from __future__ import annotations

from _thread import allocate_lock
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from grain.fields import Frozen
from grain.trees import Path, branch_of


class Feature(Frozen):
    """One array of a row."""

    path: Path
    length: int
    is_meta: bool
    """Whether segment ids and positions are left out."""
    padding: Any = None

    @property
    def name(self) -> str:
        return ".".join(map(str, self.path))


class RowFormat:
    """What rows look like.

    `struct` is a dict with the features for leaves; features in `lists` come as lists of what the documents have.
    """

    def __init__(
        self, struct: Mapping[str, Any], features: Sequence[Feature], lists: Sequence[str], *, is_sorted: bool
    ) -> None:
        self.struct, self.features, self.lists = struct, tuple(features), tuple(lists)
        self.is_flat = all(len(feature.path) == 1 for feature in features)
        names = [*struct, *lists]
        self._cells: list[tuple[Feature, str, str, str]] = []
        for feature in features:
            marks = f"{feature.name}_segment_ids", f"{feature.name}_positions"
            self._cells.append((feature, feature.path[0], *marks))
            if not feature.is_meta:
                after = names.index(feature.name) + 1
                names[after:after] = marks
        self._blank = dict.fromkeys(sorted(names) if is_sorted else names)
        self._counting = np.arange(max(feature.length for feature in features), dtype=np.int32)
        self._zeros = np.zeros_like(self._counting)

    def joined(self, documents: Sequence[Sequence[Any]]) -> Row:
        """A row of documents one after the other; types are those of the first."""
        element: dict[str, Any] = self._blank.copy()
        cells: list[Cell] = []
        tokens: list[int] = []
        for (feature, name, ids_name, positions_name), parts in zip(
            self._cells, zip(*documents, strict=True), strict=True
        ):
            counts, example = [len(part) for part in parts], parts[0]
            rest = feature.length - sum(counts)
            padding = () if not rest else (np.zeros((rest, *example.shape[1:]), example.dtype),)
            element[name] = values = np.concatenate((*parts, *padding), dtype=example.dtype, casting="unsafe")
            segment_ids = positions = None
            if not feature.is_meta:
                numbers, runs = np.arange(1, len(counts) + 1, dtype=np.int32), [self._counting[:n] for n in counts]
                zeros = [self._zeros[:rest]] if rest else []
                segment_ids = numbers.repeat(counts)
                element[ids_name] = segment_ids = np.concatenate([segment_ids, *zeros]) if rest else segment_ids
                element[positions_name] = positions = np.concatenate([*runs, *zeros])
            cells.append((values, segment_ids, positions, self._counting))
            tokens.append(feature.length - rest)
        return Row(cells, element, len(documents), tokens)

    def row(self, examples: Sequence[Any]) -> Row:
        """An empty row; types, and shapes beyond the first axis, are those of `examples`."""
        element: dict[str, Any] = self._blank.copy()
        cells: list[Cell] = []
        for (feature, name, ids_name, positions_name), example in zip(self._cells, examples, strict=True):
            length = feature.length
            shape = length if example.ndim == 1 else (length, *example.shape[1:])
            element[name] = values = np.zeros(shape, example.dtype)
            if feature.padding is not None:
                values[...] = feature.padding
            segment_ids = positions = None
            if not feature.is_meta:
                element[ids_name] = segment_ids = np.zeros(length, np.int32)
                element[positions_name] = positions = np.zeros(length, np.int32)
            cells.append((values, segment_ids, positions, self._counting))
        for name in self.lists:
            element[name] = []
        if not self.is_flat:
            leaves = iter([values for values, *_ in cells])
            element.update({key: _refilled(child, leaves) for key, child in sorted(self.struct.items())})
        return Row(cells, element, 0, [0] * len(cells))


def _refilled(struct: Any, leaves: Iterator[Any]) -> Any:
    """A tree like `struct` with other leaves."""
    branch = branch_of(struct)
    return next(leaves) if branch is None else branch.build([_refilled(child, leaves) for child in branch.children])


Cell: TypeAlias = tuple[Any, Any, Any, Any]
"""The arrays of a feature in a row: values, segment ids, positions (None, None for a meta feature); and 0, 1, 2..."""


class Row:
    """Documents side by side."""

    __slots__ = ("cells", "element", "sequences", "tokens")

    def __init__(self, cells: list[Cell], element: dict[str, Any], sequences: int, tokens: list[int]) -> None:
        self.cells, self.element, self.sequences, self.tokens = cells, element, sequences, tokens

    def add(self, documents: Sequence[Any], starts: Sequence[int]) -> None:
        """Write a document's features, each from its own start on."""
        self.sequences = number = self.sequences + 1
        for place, (values, segment_ids, positions, counting) in enumerate(self.cells):
            document, start = documents[place], starts[place]
            count = len(document)
            end = start + count
            values[start:end] = document
            self.tokens[place] += count
            if positions is not None:
                segment_ids[start:end] = number
                positions[start:end] = counting[:count]

    @property
    def nbytes(self) -> int:
        """The size of its arrays."""
        return sum(array.nbytes for *arrays, _ in self.cells for array in arrays if array is not None)


def as_document(value: Any, name: str, example: Any = None) -> Any:
    """`value` as an array of tokens, which have the shape and type of those of `example`; a number is one token."""
    document = np.atleast_1d(np.asarray(value))
    if example is None:
        return document
    if document.shape[1:] != example.shape[1:]:
        raise ValueError(
            f"The tokens of feature {name!r} have the shape {document.shape[1:]}, but those of a document before had "
            f"{example.shape[1:]}: documents may differ in the first axis only."
        )
    return document.astype(example.dtype, copy=False)


Counts: TypeAlias = tuple[int, int, dict[str, int], dict[str, int]]
"""Rows, sequences, and for each feature tokens and capacity."""


class PackingStatistics:
    """How full packed rows are: what all packing operators of one iterator have handed out since it was made.

    It is no part of the saved state, and goes on counting after `set_state`. Rows that worker processes have packed
    count when the element that they are in has arrived.

    >>> import grain
    >>> documents = grain.MapDataset.source([{"tokens": list(range(n))} for n in (3, 4, 2)])
    >>> packed = documents.to_iter_dataset().pack_first_fit(length_struct={"tokens": 8}, num_packing_bins=2)
    >>> iterator = iter(packed.batch(2))
    >>> _ = next(iterator)
    >>> iterator.packing_statistics
    PackingStatistics(rows=2, sequences=3, tokens={'tokens': 9}, capacity={'tokens': 16}, efficiency={'tokens': 0.562})
    >>> iterator.packing_statistics.efficiency["tokens"]
    0.5625
    """

    def __init__(self) -> None:
        self._clear()
        self._lock = allocate_lock()  # operators of one pipeline may run in several threads

    @property
    def efficiency(self) -> dict[str, float]:
        """For each feature, what part of the rows are tokens of documents."""
        return {name: self.tokens[name] / capacity for name, capacity in self.capacity.items() if capacity}

    def count(self, row: Row, features: Sequence[Feature]) -> None:
        """Take note of a row that is handed out."""
        with self._lock:
            self.rows += 1
            self.sequences += row.sequences
            for feature, tokens in zip(features, row.tokens, strict=True):
                if not feature.is_meta:
                    self.tokens[feature.path[0]] += tokens
                    self.capacity[feature.path[0]] += feature.length

    def _clear(self) -> None:
        self.rows = self.sequences = 0
        self.tokens: Counter[str] = Counter()
        self.capacity: Counter[str] = Counter()

    def moved(self) -> Counts | None:
        """What has been counted, to be added in another process; here it begins anew. None where there is nothing."""
        if not self.rows:
            return None
        with self._lock:
            counts = self.rows, self.sequences, dict(self.tokens), dict(self.capacity)
            self._clear()
        return counts

    def add(self, counts: Counts | None) -> None:
        """Take note of what was moved here."""
        if counts is not None:
            rows, sequences, tokens, capacity = counts
            with self._lock:
                self.rows += rows
                self.sequences += sequences
                self.tokens.update(tokens)
                self.capacity.update(capacity)

    def __repr__(self) -> str:
        efficiency = {name: round(part, 3) for name, part in self.efficiency.items()}
        return (
            f"PackingStatistics(rows={self.rows}, sequences={self.sequences}, tokens={dict(self.tokens)}, "
            f"capacity={dict(self.capacity)}, efficiency={efficiency})"
        )
