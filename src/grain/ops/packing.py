"""Packing: whole documents side by side in rows of a fixed length."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NotRequired, Required, TypedDict, Unpack

import numpy as np

from grain.elements.bin_packing import BestFit, Bins, FirstFit
from grain.elements.packed_rows import Feature, Row, RowFormat, as_document
from grain.elements.trees import flatten_with_path
from grain.errors import add_place
from grain.fields import Fields
from grain.graph.node import IterNode, Parent, check
from grain.graph.positions import anchored
from grain.indices.arithmetic import integer
from grain.observe.packing_statistics import count_row

_TYPE_AND_AXES = operator.attrgetter("dtype", "ndim")


class PackingState(Fields):
    parent: Any
    """Where the parent was before the first document of the batch whose rows are handed out next."""
    next_row: int = 0
    counter: int = 0
    """The number of rows handed out so far: it seeds the order of each batch."""
    _filling: Batch | None = None
    """The batch that documents are put into."""
    _ready: Batch | None = None
    """The batch whose rows are handed out."""
    _order: Sequence[int] = ()
    _batch_bytes: int | None = None
    _is_collecting: bool = False


class Packing(IterNode[PackingState]):
    """Documents into the rows of a batch until one finds no room; then the rows are handed out, and it opens the next.

    Which row a document gets is up to `fit`, and needs lengths only.
    """

    parent: Any
    fit: type[Bins]
    format: RowFormat
    num_packing_bins: int
    seed: int
    shuffle_bins: bool
    group_by: int | None
    """The feature by which shuffled rows are grouped, as its place in the format."""
    max_sequences_per_bin: int | None
    parent_field = "parent"
    passed_field = "next_row"
    State = PackingState

    @property
    def parents(self) -> tuple[Any]:
        return (self.parent,)

    def fresh(self, *parents: Parent) -> PackingState:
        return PackingState(parents[0].save())

    def holds(self, state: PackingState) -> bool:
        return state._is_collecting

    def load(self, state: PackingState, fields: dict[str, Any]) -> PackingState:
        most = min(self.num_packing_bins - 1, fields["counter"])
        check(fields["next_row"] <= most, self, f"next_row must be at most {most}", fields["next_row"])
        return super().load(state, fields)

    def rewind(self, state: PackingState) -> None:
        state.next_row, state.counter = 0, state.counter - state.next_row

    def run(self, state: PackingState, *parents: Parent) -> Iterator[Any]:
        (parent,) = parents
        counts = parent.context.counters.of(self.name)
        while state._ready is not None or self._pack(state, parent):
            batch, order = state._ready, state._order
            assert batch is not None
            last = len(order) - 1
            for position in range(state.next_row, len(order)):
                row = batch.row(order[position])
                state.counter += 1
                if position < last:
                    state.next_row = position + 1
                else:
                    state.parent, state.next_row, state._ready = batch.end, 0, None
                count_row(counts, row, self.format)
                yield row.element

    def _pack(self, state: PackingState, parent: Parent) -> bool:
        """Fill a batch; False where there are no documents left."""
        batch = state._filling = state._filling or Batch(self, [])
        state._is_collecting = True
        batch.fill(parent)
        state._is_collecting = False
        if not batch.rows:
            return False
        state._order = self._order(batch, state.counter)
        state._ready, state._filling = batch, Batch(self, batch.waiting)
        state._batch_bytes = batch.nbytes
        return True

    def _order(self, batch: Batch, handed_out: int) -> Sequence[int]:
        places = range(len(batch.rows))
        if not self.shuffle_bins:
            return places
        order: list[int] = np.random.default_rng(self.seed + handed_out).permuted(places).tolist()
        if self.group_by is None:
            return order
        feature = self.format.features[self.group_by]
        means = [_mean_of_distinct(feature.value_in(batch.row(place).element)) for place in places]
        return sorted(places, key=lambda place: (means[place], order[place]))

    def batch_bytes(self, state: PackingState) -> int:
        """The size of the rows of a batch that is full."""
        if state._batch_bytes is None:
            raise ValueError("No current batch. Size can only be computed after at least one element has been packed.")
        return state._batch_bytes

    @property
    def call(self) -> str:
        fit = "first_fit" if self.fit is FirstFit else "best_fit"
        return f"pack_{fit}(num_packing_bins={self.num_packing_bins})"

    @property
    def held_back(self) -> str:
        return f"the documents of up to {self.num_packing_bins} unfinished rows, and the rows that are handed out"

    def __str__(self) -> str:
        return f"{self.fit.__name__}PackIterDataset"


def _mean_of_distinct(values: Any) -> Any:
    distinct: Any = np.unique(values)
    count = np.count_nonzero(distinct)
    return distinct.sum() / count if count else 0


class Batch:
    """Rows that are being filled; `waiting` are documents that have been read and are in no row yet."""

    def __init__(self, node: Packing, waiting: list[Any]) -> None:
        self._node, self._format, self.waiting = node, node.format, waiting
        lengths, alignments = zip(*((f.length, f.alignment) for f in self._format.features), strict=True)
        self._bins = node.fit(lengths, alignments, node.num_packing_bins, node.max_sequences_per_bin)
        self.rows: list[list[Sequence[Any]]] = []
        """The documents of each row: a row is made when it is handed out, while that much memory is warm."""
        self.end: Any = None
        """Where the parent was after the last document, once that is known."""
        self._since = self._errors = 0
        """How many documents have come since, and errors that have cost the next one a part of itself."""
        self._examples: Sequence[Any] = ()
        """The features of the document that opened the batch."""

    def row(self, place: int) -> Row:
        """The row at `place`, filled with its documents."""
        return self._format.row([*zip(*self.rows[place], strict=True)], self._examples)

    @property
    def nbytes(self) -> int:
        """The size of the rows if all are in use."""
        features = zip(self._format.features, self._examples, strict=False)
        return self._node.num_packing_bins * sum(feature.nbytes(example) for feature, example in features)

    def fill(self, parent: Parent) -> None:
        """Put documents into rows until one finds no room."""
        waiting = self.waiting
        read, before = len(waiting), None
        while True:
            if not waiting:
                # Documents for which there are empty rows have room: so many are read at a time.
                unopened = self._node.num_packing_bins - len(self.rows)
                if parent.holds():
                    self._errors += 1
                else:
                    self.end, self._since, self._errors = parent.save(), 0, 0
                before = parent.element_index
                waiting.extend(islice(iter(parent), unopened or 1))
                read = len(waiting)
            if not waiting:
                self.end = parent.save()
                return
            together = len(waiting)
            while waiting:
                elements = waiting[:together]
                try:
                    columns = self._columns(elements)
                except Exception as error:
                    if together > 1:
                        together = 1  # to find out which one it is
                        continue
                    add_place(error, self._node, _index_of(read - len(waiting), read, before, parent.element_index))
                    del waiting[0]
                    raise
                count = self._place(columns)
                del waiting[:count]
                self._since += count
                if count < together:
                    if self._errors:
                        self.end = anchored(self.end, self._since, self._errors)
                    return

    def _columns(self, elements: Sequence[Any]) -> list[list[Any]]:
        """The values of some documents, feature by feature."""
        lists = [[element[name] for element in elements] for name in self._format.lists]
        flat = elements if self._format.is_flat else [self._flattened(element) for element in elements]
        columns = [[element[name] for element in flat] for name in self._format.names]
        for place, feature in enumerate(self._format.features):
            column = columns[place]
            example = self._examples[place] if self._examples else as_document(column[0], feature.name)
            if not _are_alike(column, example):
                columns[place] = column = [as_document(value, feature.name, example) for value in column]
            if max(map(len, column)) > feature.length:
                raise self._too_long([column[0] for column in columns])
        return columns + lists

    def _place(self, columns: Sequence[Sequence[Any]]) -> int:
        """Put documents into rows; the number of those that have found room."""
        rows, documents, count = self.rows, list(zip(*columns, strict=True)), 0
        self._examples = self._examples or documents[0]
        needs = zip(*(map(len, column) for column in columns[: len(self._format.features)]), strict=True)
        for count, row in enumerate(self._bins.places(needs), 1):
            if row == len(rows):
                rows.append([])
            rows[row].append(documents[count - 1])
        return count

    def _flattened(self, element: Any) -> dict[str, Any]:
        return {feature.name: feature.value_in(element) for feature in self._format.features}

    def _too_long(self, values: Sequence[Any]) -> ValueError:
        lengths = [len(as_document(value, "")) for value in values]
        pairs = zip(self._format.features, lengths, strict=True)
        exceeding = [(feature.path, length, feature.length) for feature, length in pairs if length > feature.length]
        return ValueError(
            f"Inputs to {'PackedBatch' if self._node.fit is FirstFit else 'packer'} must be truncated to max length. "
            f"Exceeds: (feature_path, feature_length, max_length) = {exceeding}"
        )


def _index_of(place: int, count: int, before: int | None, last: int | None) -> int | None:
    """The index of number `place` of `count` elements read after index `before` up to `last`, where it is known."""
    if before is not None and last == before + count:
        return before + 1 + place
    return last if place == count - 1 else None


def _are_alike(column: Sequence[Any], example: Any) -> bool:
    """Whether all are arrays that differ from `example` in their length only."""
    return (
        set(map(type, column)) == {np.ndarray}
        and set(map(_TYPE_AND_AXES, column)) == {_TYPE_AND_AXES(example)}
        and (example.ndim == 1 or {document.shape[1:] for document in column} == {example.shape[1:]})
    )


class PackingOptions(TypedDict):
    """The options of packing, those of `grain.experimental.FirstFitPackIterDataset`."""

    length_struct: Required[Mapping[str, Any]]
    """How long rows are, for each feature. Other features are dropped."""
    num_packing_bins: Required[int]
    """How many rows are filled at a time."""
    seed: NotRequired[int]
    shuffle_bins: NotRequired[bool]
    """Whether rows filled at a time come in a random order; they do if nothing is said."""
    shuffle_bins_group_by_feature: NotRequired[str | None]
    """Rows come in the order of the means of their distinct values of this feature, those of one mean shuffled."""
    meta_features: NotRequired[Sequence[str]]
    """Features without segment ids and positions; those that are not in `length_struct` become lists of values."""
    pack_alignment_struct: NotRequired[Any]
    """Documents start at multiples of these."""
    padding_struct: NotRequired[Any]
    """What fills the rest of a row; 0 where it is None."""
    max_sequences_per_bin: NotRequired[int | None]


def pack_first_fit_node(parent: IterNode[Any], **options: Unpack[PackingOptions]) -> Packing:
    """Each document into the first row with room."""
    return _pack(parent, FirstFit, **options)


def pack_best_fit_node(parent: IterNode[Any], **options: Unpack[PackingOptions]) -> Packing:
    """Each document into the fullest row with room."""
    return _pack(parent, BestFit, **options)


def _pack(
    parent: IterNode[Any],
    fit: type[Bins],
    *,
    length_struct: Mapping[str, Any],
    num_packing_bins: int,
    seed: int = 0,
    shuffle_bins: bool = True,
    shuffle_bins_group_by_feature: str | None = None,
    meta_features: Sequence[str] = (),
    pack_alignment_struct: Any = None,
    padding_struct: Any = None,
    max_sequences_per_bin: int | None = None,
) -> Packing:
    if max_sequences_per_bin is not None and integer("max_sequences_per_bin", max_sequences_per_bin) <= 0:
        raise ValueError(
            f"If specified, `max_sequences_per_bin` must be a positive integer, but got {max_sequences_per_bin}."
        )
    if integer("num_packing_bins", num_packing_bins) <= 0:
        raise ValueError(f"`num_packing_bins` must be a positive integer, but got {num_packing_bins}.")
    if integer("seed", seed) < 0:
        raise ValueError(f"The seed must be a non-negative integer, but got {seed}.")
    features = _features(length_struct, meta_features)
    if padding_struct is not None:
        paddings = _leaves("padding_struct", padding_struct, features)
        features = [feature.replaced(padding=value) for feature, value in zip(features, paddings, strict=True)]
    if pack_alignment_struct is not None:
        alignments = _leaves("pack_alignment_struct", pack_alignment_struct, features)
        features = [_aligned(feature, alignment) for feature, alignment in zip(features, alignments, strict=True)]
    lists = [name for name in meta_features if name not in length_struct]
    return Packing(
        parent,
        fit,
        RowFormat(length_struct, features, lists, is_sorted=True),
        num_packing_bins,
        seed,
        shuffle_bins,
        _place_of(shuffle_bins_group_by_feature, features) if shuffle_bins else None,
        max_sequences_per_bin,
    )


def _features(length_struct: Any, meta_features: Sequence[str]) -> list[Feature]:
    if not isinstance(length_struct, Mapping) or not length_struct:
        raise ValueError(f"length_struct must be a dict with a length for each feature, but got {length_struct!r}.")
    features = []
    for path, length in flatten_with_path(dict(length_struct)):
        if len(path) > 1 and path[0] not in meta_features:
            raise ValueError(
                f"Failed to extract segment ids for {path[0]!r}, which has type {type(length_struct[path[0]])} rather "
                "than np.ndarray. Perhaps it should be marked as a meta feature?"
            )
        if integer(f"The length of {path}", length) < 0:
            raise ValueError(f"The length of {path} must not be negative, but got {length}.")
        features.append(Feature(path, int(length), path[0] in meta_features))
    return features


def _aligned(feature: Feature, alignment: Any) -> Feature:
    if integer(f"The alignment of {feature.name!r}", alignment) <= 0:
        raise ValueError(f"The alignment of {feature.name!r} must be a positive integer, but got {alignment}.")
    return feature.replaced(alignment=alignment)


def _leaves(name: str, struct: Any, features: Sequence[Feature]) -> list[Any]:
    """What `struct` has in the places of the features."""
    leaves = []
    for feature in features:
        value = struct
        for key in feature.path:
            if not isinstance(value, Mapping | Sequence) or (isinstance(value, Mapping) and key not in value):
                raise ValueError(
                    f"{name} must be of the structure of length_struct, but has nothing at {feature.path}."
                )
            value = value[key]
        leaves.append(value)
    unknown = set(struct) - {feature.path[0] for feature in features}
    if unknown:
        raise ValueError(f"{name} must be of the structure of length_struct, which has no {sorted(unknown)}.")
    return leaves


def _place_of(name: str | None, features: Sequence[Feature]) -> int | None:
    names = [feature.name for feature in features]
    if name is not None and name not in names:
        raise ValueError(f"shuffle_bins_group_by_feature must be one of {names}, but got {name!r}.")
    return None if name is None else names.index(name)
