"""Concatenate-then-split: documents one after the other, cut where a row is full, so that no row has padding."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, NotRequired, Required, TypedDict, Unpack

import numpy as np

from grain.elements.packed_rows import Feature, Row, RowFormat, as_document
from grain.elements.trees import spec_like
from grain.errors import StateMismatchError, add_place
from grain.fields import Fields
from grain.graph.node import IterNode, Parent, check, copied
from grain.indices.arithmetic import integer, is_count
from grain.observe.packing_statistics import count_row
from grain.ops.document_pieces import Buffer, Piece

_END = object()
_NONE: Set[int] = frozenset()
_UNCUT = [-1, -1]
"""The slice of a feature of which nothing has been handed out."""


class BOSHandling(enum.Enum):
    """What happens to the first token of each piece of a document."""

    DO_NOTHING = enum.auto()
    REPLACE_FIRST_TOKEN_WITH_BOS = enum.auto()


class SplitState(Fields):
    parent_state: Any
    """Where the parent was when the row was begun, or before the document that it begins with a part of."""
    remainder_slices: dict[str, list[int]]
    """What is left of that document."""
    elements_from_buffer_after_checkpoint: int = 0
    _ready: deque[Row] | None = None
    """Rows to be handed out; None: it has been resumed."""
    _buffer: Buffer | None = None
    """The row that is being filled."""
    _remainder: Piece | None = None
    _origin: Any = None
    """Where the parent was before the next document."""
    _has_ended: bool = False
    _has_warned: bool = False


class ConcatThenSplit(IterNode[SplitState]):
    """Documents one after the other, cut where a row is full.

    A row ends with the first feature that has no room: what there is room for of that document's features is written,
    and each goes on in the next row where it was cut. Features that fit are not held back for those that do not.
    """

    parent: Any
    format: RowFormat
    split_full_length_features: bool
    meta_features: frozenset[int]
    """Their places in the format."""
    cut_features: tuple[int, ...]
    """The places of the others."""
    bos_features: tuple[int, ...]
    """The places in the format of features whose pieces start with `bos_token_id`."""
    bos_token_id: int | None
    is_single: bool
    """Whether there is but one feature, it may be cut anywhere, and no row overtakes another."""
    parent_field = "parent_state"
    passed_field = "elements_from_buffer_after_checkpoint"
    State = SplitState

    @property
    def parents(self) -> tuple[Any]:
        return (self.parent,)

    def fresh(self, *parents: Parent) -> SplitState:
        return SplitState(parents[0].save(), self._slices(None), _ready=deque())

    def holds(self, state: SplitState) -> bool:
        return state._buffer is not None

    def load(self, state: SplitState, fields: dict[str, Any]) -> SplitState:
        slices, names = fields["remainder_slices"], [self.format.names[place] for place in self.cut_features]
        is_one = isinstance(slices, dict) and slices.keys() == {*names} and all(map(_is_slice, slices.values()))
        check(is_one, self, f"remainder_slices must be those of {names}, each a start and a stop", slices)
        return SplitState(**fields)

    def run(self, state: SplitState, *parents: Parent) -> Iterator[Any]:
        (parent,) = parents
        if state._ready is None:
            self._resume(state, parent)
        ready, counts = state._ready, parent.context.counters.of(self.name)
        assert ready is not None
        while ready or self._fill(state, parent, ready):
            row = ready.popleft()
            state.elements_from_buffer_after_checkpoint += 1
            count_row(counts, row, self.format)
            yield row.element

    def _resume(self, state: SplitState, parent: Parent) -> None:
        """Read the document again that the row begins with a part of."""
        slices, state._ready = state.remainder_slices, deque()
        if any(bounds != _UNCUT for bounds in slices.values()):
            try:
                element = self._read_again(parent)
                if element is _END:
                    raise StateMismatchError(
                        f"The state does not fit {self}: the document that the next row begins with is missing. "
                        "Restore it with the pipeline that saved it."
                    )
                documents, whole = self._documents(element)
                starts = [slices[name][0] if name in slices else 0 for name in self.format.names]
                fits = all(start <= len(document) for start, document in zip(starts, documents, strict=True))
                check(fits, self, f"remainder_slices must be within {list(map(len, documents))} tokens", slices)
            except Exception:  # the document is passed over
                self._checkpoint(state, parent)
                raise
            state._remainder = Piece(documents, starts, whole, copied(state.parent_state))

    @staticmethod
    def _read_again(parent: Parent) -> Any:
        """The parent's next element; errors that only cost it a part of that have been raised before."""
        while True:
            try:
                return next(iter(parent), _END)
            except Exception:
                if not parent.holds():
                    raise

    def _fill(self, state: SplitState, parent: Parent, ready: deque[Row]) -> bool:
        """Fill the next row, and those that overtake it; False where there are no documents left."""
        while not ready and not state._has_ended:
            if state._buffer is None:
                self._checkpoint(state, parent)
                state._buffer = Buffer(self)
            (self._read_single if self.is_single else self._read)(state, state._buffer, parent)
            ready.extend(state._buffer.rows())
            state._buffer = None
            if state._has_ended and not ready and not state.elements_from_buffer_after_checkpoint:
                self._checkpoint(state, parent)
        return bool(ready)

    def _checkpoint(self, state: SplitState, parent: Parent) -> None:
        piece = state._remainder
        state.parent_state = parent.save() if piece is None else piece.origin
        state.remainder_slices = self._slices(piece)
        state.elements_from_buffer_after_checkpoint = 0

    def _read(self, state: SplitState, buffer: Buffer, parent: Parent) -> None:
        """Read documents until one is not wholly in the row."""
        if state._remainder is not None:
            state._remainder = buffer.add(state._remainder)
            if state._remainder is not None:
                return
        origin = self._origin(state, parent)
        for element in parent:
            try:
                documents, whole = self._documents(element)
                if not self.split_full_length_features and self._are_passed_by(documents):
                    buffer.pass_by(documents)
                else:
                    state._remainder = buffer.add(Piece(documents, [0] * len(documents), whole, origin))
            except Exception as error:
                add_place(error, self, parent.element_index)
                raise
            if state._remainder is not None:
                self._warn_of_meta_feature(state, buffer.limited_by)
                return
            origin = state._origin = parent.save()
        state._has_ended = True

    def _read_single(self, state: SplitState, buffer: Buffer, parent: Parent) -> None:
        """The same for documents with one feature, which may be cut anywhere: the most common kind."""
        name = self.format.names[0]
        if state._remainder is not None:
            state._remainder = buffer.add_single(state._remainder)
            if state._remainder is not None:
                return
        column, rooms = buffer.columns[0], buffer.rooms
        dtype = _type_of_numbers(column)
        origin = self._origin(state, parent)
        for element in parent:
            document: Any = element.get(name) if type(element) is dict and len(element) == 1 else None
            is_plain = type(document) is np.ndarray and document.ndim == 1
            if is_plain and document.dtype is dtype and (length := len(document)) <= rooms[0]:
                column.append(document)
                rooms[0] -= length
            else:
                try:
                    documents = (document,) if is_plain else self._documents(element)[0]
                    state._remainder = buffer.add_single(Piece(documents, (0,), _NONE, origin))
                except Exception as error:
                    add_place(error, self, parent.element_index)
                    raise
                if state._remainder is not None:
                    return
                dtype = _type_of_numbers(column)
            origin = state._origin = parent.save()
        state._has_ended = True

    @staticmethod
    def _origin(state: SplitState, parent: Parent) -> Any:
        """Where the parent was before the next document."""
        if not parent.holds():
            state._origin = parent.save()
        return state._origin

    def _documents(self, element: Any) -> tuple[list[Any], Set[int]]:
        """The features of a document as arrays, and the places of those that are never cut."""
        documents: list[Any] = []
        whole, names = self.meta_features, self.format.struct
        if not isinstance(element, dict):
            raise ValueError(f"Parent elements must be unnested dictionaries but got {spec_like(element)}.")
        for name in names:
            document: Any = element.get(name)
            if type(document) is not np.ndarray or not document.ndim:
                if name not in element:
                    break
                whole = whole if np.ndim(document) else whole | {len(documents)}
                document = as_document(document, name)
            documents.append(document)
        if len(documents) != len(names) or len(element) != len(names):
            raise ValueError(
                f"Parent element has structure {spec_like(element)} but target sequence length is {names}. "
                "There must be a sequence length for each feature."
            )
        for place in self.meta_features:
            feature, length = self.format.features[place], len(documents[place])
            if length > feature.length:
                raise ValueError(
                    f"Failed to pack element: the meta feature {feature.name!r} has {length} tokens, a row only "
                    f"{feature.length}, and meta features are never split. Raise its length in length_struct."
                )
        return documents, whole

    def _are_passed_by(self, documents: Sequence[Any]) -> bool:
        """Whether a document that fills a row by itself gets one to itself."""
        rests = [
            feature.length - len(document) for feature, document in zip(self.format.features, documents, strict=True)
        ]
        return min(rests) == 0

    def _slices(self, piece: Piece | None) -> dict[str, list[int]]:
        names, places = self.format.names, self.cut_features
        if piece is None or not any(piece.starts):
            return {names[place]: list(_UNCUT) for place in places}
        return {names[place]: [piece.starts[place], len(piece.documents[place])] for place in places}

    def _warn_of_meta_feature(self, state: SplitState, limit: Feature | None) -> None:
        if limit is not None and limit.is_meta and not state._has_warned:
            state._has_warned = True
            import logging  # only now: `import grain` is to be fast

            logging.getLogger("grain").error(
                "Meta feature %r limited packing. Resulting sequences might have unnecessary padding. "
                "Consider increasing its target sequence length, which is %d.",
                limit.name,
                limit.length,
            )

    @property
    def call(self) -> str:
        return "concat_and_split()"

    @property
    def held_back(self) -> str:
        return "an unfinished row, and the rest of the document that was cut"

    def __str__(self) -> str:
        return "ConcatThenSplitIterDataset"


def _is_slice(bounds: Any) -> bool:
    """Whether these are the bounds of what is left of a document."""
    is_pair = isinstance(bounds, list) and len(bounds) == 2
    return is_pair and (bounds == _UNCUT or (all(map(is_count, bounds)) and bounds[0] <= bounds[1]))


def _type_of_numbers(documents: Sequence[Any]) -> np.dtype[Any] | None:
    """The type of the tokens of documents, where these have no axis but their length."""
    return documents[0].dtype if documents and documents[0].ndim == 1 else None


class SplittingOptions(TypedDict):
    """The options of concatenate-then-split."""

    length_struct: Required[Mapping[str, int]]
    meta_features: NotRequired[Sequence[str]]
    split_full_length_features: NotRequired[bool]
    bos_handling: NotRequired[BOSHandling]
    bos_features: NotRequired[Sequence[str]]
    bos_token_id: NotRequired[int | None]


def concat_and_split_node(parent: IterNode[Any], **options: Unpack[SplittingOptions]) -> ConcatThenSplit:
    """The documents of `parent`, one after the other, in rows of `length_struct`."""
    return _concat_and_split(parent, **options)


def _concat_and_split(
    parent: IterNode[Any],
    *,
    length_struct: Mapping[str, int],
    meta_features: Sequence[str] = (),
    split_full_length_features: bool = True,
    bos_handling: BOSHandling = BOSHandling.DO_NOTHING,
    bos_features: Sequence[str] = (),
    bos_token_id: int | None = None,
) -> ConcatThenSplit:
    if bos_handling is BOSHandling.DO_NOTHING:
        if bos_token_id is not None or bos_features:
            raise ValueError(
                f"bos_handling={bos_handling} indicates that BOS handling is not used. So bos_token_id and "
                "bos_features should not be set."
            )
    elif bos_token_id is None:
        raise ValueError(f"bos_token_id must be set if bos_handling is {bos_handling}.")
    if set(bos_features) & set(meta_features):
        raise ValueError(
            f"bos_features and meta_features should not overlap. bos_features: {bos_features}, "
            f"meta_features: {meta_features}"
        )
    lengths = {name: integer(f"The length of {name!r}", n) for name, n in length_struct.items()}
    if not lengths or min(lengths.values()) <= 0:
        raise ValueError(f"length_struct must have a positive length for each feature, but is {lengths}.")
    features = [Feature((name,), length, name in meta_features) for name, length in lengths.items()]
    return ConcatThenSplit(
        parent,
        RowFormat(lengths, features, (), is_sorted=False),
        split_full_length_features,
        frozenset(place for place, feature in enumerate(features) if feature.is_meta),
        tuple(place for place, feature in enumerate(features) if not feature.is_meta),
        tuple(place for place, name in enumerate(lengths) if name in bos_features),
        bos_token_id,
        len(features) == 1 and not features[0].is_meta and split_full_length_features,
    )
