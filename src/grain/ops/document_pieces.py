"""Pieces of documents, in the row that is being filled with them."""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import accumulate
from typing import Any, NamedTuple

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
        self.has_axes = False
        """Whether a document has tokens that are more than numbers."""
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
            row.element[self._features[place].name][starts] = self._node.bos_token_id
        return row

    def pass_by(self, documents: Sequence[Any]) -> None:
        """A row of its own for a document."""
        self._passed.append(documents)

    def add(self, piece: Piece) -> Piece | None:
        """Put in as much of `piece` as there is room for; what is left of it."""
        parts, ends = [], []
        has_part = has_rest = False
        for place, (document, start, room) in enumerate(zip(piece.documents, piece.starts, self.rooms, strict=True)):
            self.check_shape(place, document)
            length = len(document)
            if place in piece.whole:
                start = 0
                if length > room:
                    self.limited_by = self._features[place]
                    return piece
            end = min(length, start + room)
            has_part = has_part or (end > start and place not in self._node.meta_features)
            has_rest = has_rest or end < length
            parts.append(document[start:end])
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
        if document.ndim > 1 or self.has_axes:
            self.check_shape(0, document)
        length = len(document)
        if length - start <= room:
            self.columns[0].append(document[start:])
            self.rooms[0] = room - length + start
            return None
        if room:
            self.columns[0].append(document[start : start + room])
            self.rooms[0] = 0
        return Piece(documents, (start + room,), whole, origin)

    def check_shape(self, place: int, document: Any) -> None:
        """See that tokens have the shape of those that are there."""
        if document.ndim > 1 or self.has_axes:
            self.has_axes = True
            if self.columns[place]:
                as_document(document, self._features[place].name, self.columns[place][0])
