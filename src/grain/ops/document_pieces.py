"""Pieces of documents, in the row that is being filled with them."""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from grain.elements.fitting import fitted
from grain.elements.packed_rows import Feature, Row, as_document


class Piece(NamedTuple):
    """What is left of a document.

    Features that are `whole` are never cut: they are in each row that has a part of the document.
    """

    documents: Sequence[Any]
    starts: Sequence[int]
    """Where each feature goes on."""
    whole: Set[int]
    origin: Any
    """Where the parent was before the document."""


class Buffer:
    """The documents of the row that is being filled, and of full rows that have overtaken it."""

    def __init__(self, node: Any) -> None:
        self._node, self._features = node, node.format.features
        self.columns: list[list[Any]] = [[] for _ in self._features]
        """For each feature, what the row has of the documents."""
        self.rooms = [feature.length for feature in self._features]
        self._passed: list[Sequence[Any]] = []
        self.limited_by: Feature | None = None

    def rows(self) -> list[Row]:
        """The row, and those that have overtaken it."""
        rows = [self._joined(self.columns)] if self.columns[0] else []
        for documents in self._passed:
            rows.append(self._joined([[document] for document in documents]))
        return rows

    def _joined(self, columns: Sequence[Sequence[Any]]) -> Row:
        row: Row = self._node.format.row(columns, [column[0] for column in columns])
        for place in self._node.bos_features:
            lengths = list(map(len, columns[place]))
            starts = [start for start, length in zip(accumulate([0, *lengths]), lengths, strict=False) if length]
            values, name = row.element[self._features[place].name], self._features[place].name
            values[starts] = fitted(np.asarray(self._node.bos_token_id), values.dtype, f"as bos_token_id of {name!r}")
        return row

    def pass_by(self, documents: Sequence[Any]) -> None:
        """A row of its own for a document."""
        self._passed.append(documents)

    def add(self, piece: Piece) -> Piece | None:
        """Put in as much of `piece` as there is room for; what is left of it."""
        parts, ends = [], []
        has_part = has_rest = False
        for place, (document, start, room) in enumerate(zip(piece.documents, piece.starts, self.rooms, strict=True)):
            length = len(document)
            if place in piece.whole:
                start = 0
                if length > room:
                    self.limited_by = self._features[place]
                    return piece
            end = min(length, start + room)
            has_part = has_part or (end > start and place not in self._node.meta_features)
            has_rest = has_rest or end < length
            parts.append(self.like_others(place, document[start:end]))
            ends.append(end)
        if has_rest and not has_part:
            return piece
        for place, part in enumerate(parts):
            self.columns[place].append(part)
            self.rooms[place] -= len(part)
        return Piece(piece.documents, ends, piece.whole, piece.origin) if has_rest else None

    def add_single(self, piece: Piece) -> Piece | None:
        """The same for documents with one feature that is no meta feature: there is little to think of."""
        documents, (start,), whole, origin = piece
        document, room = documents[0], self.rooms[0]
        length = len(document)
        if length - start <= room:
            self.columns[0].append(self.like_others(0, document[start:]))
            self.rooms[0] = room - length + start
            return None
        if room:
            self.columns[0].append(self.like_others(0, document[start : start + room]))
            self.rooms[0] = 0
        return Piece(documents, (start + room,), whole, origin)

    def like_others(self, place: int, part: Any) -> Any:
        """A part of a document, with tokens of the type and shape of those that are there."""
        column = self.columns[place]
        if not column:
            return part
        first = column[0]
        if part.dtype is first.dtype and part.ndim == first.ndim == 1:
            return part
        return as_document(part, self._features[place].name, first)
