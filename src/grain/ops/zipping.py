"""Datasets side by side, on random access and on streams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from grain.errors import StateMismatchError, is_from
from grain.fields import Fields
from grain.graph.node import IterNode, MapNode, Node, Parent, required
from grain.ops.combining import Combining, Merging
from grain.plan.kinds import Join


class Zip(Combining):
    """Tuples of the elements that the parents have at the same index."""

    def first_call(self, inputs: str) -> str:
        return f"MapDataset.zip([{inputs}])"

    def lower(self, *parents: Any) -> Join:
        return Join(parents)

    def element_spec(self, *parents: Any) -> Any:
        return parents

    def __str__(self) -> str:
        return f"ZipMapDataset(parents={self.components})"


def map_zip_node(parents: Sequence[MapNode]) -> Zip:
    """`parents` side by side."""
    _check_parents(parents)
    lengths = [parent.length for parent in parents]
    if len(set(lengths)) > 1:
        raise ValueError(f"All parents must have the same length. Got lengths {lengths}.")
    return Zip(tuple(parents))


class ZipState(Fields):
    _elements: list[Any] | None = None
    """What has been read of the next tuple, once that is begun."""


class IterZip(Merging[ZipState]):
    """Tuples of one element of each parent.

    Where a parent's element fails, the whole tuple is passed over. A parent that has only lost a part of its element,
    such as one of a batch, still gives it: then the others keep theirs.
    """

    strict: bool
    State = ZipState

    def holds(self, state: ZipState) -> bool:
        return state._elements is not None

    def run(self, state: ZipState, *parents: Parent) -> Iterator[Any]:
        streams = [iter(parent) for parent in parents]
        while True:
            elements = state._elements = state._elements or []
            error = None
            for position, stream in enumerate(streams[len(elements) :], len(elements)):
                try:
                    elements.append(next(stream))
                except StopIteration:
                    state._elements = None
                    if error is not None:
                        raise error from None
                    if self.strict:
                        self._check_ends(position, streams)
                    return
                except Exception as caught:
                    if error is None and not _takes_a_turn(self.components[position], caught):
                        raise
                    streams[position] = iter(parents[position])
                    elements.append(None)  # the others pass over their elements too
                    error = error or caught
            state._elements = None
            if error is not None:
                raise error
            yield tuple(elements)

    def _check_ends(self, ended: int, streams: Sequence[Iterator[Any]]) -> None:
        """Complain unless all parents end where number `ended` has."""
        if ended:
            others = "argument 1" if ended == 1 else f"arguments 1-{ended}"
            raise ValueError(f"ZipIterDataset argument {ended + 1} is shorter than {others}.")
        for position, stream in enumerate(streams[1:], 1):
            for _ in stream:
                others = "argument 1" if position == 1 else f"arguments 1-{position}"
                raise ValueError(f"ZipIterDataset argument {position + 1} is longer than {others}.")

    def save(self, state: ZipState, parents: Sequence[Parent]) -> dict[str, Any]:
        """The states of all parents."""
        return {"parents": [parent.save() for parent in parents]}

    def split(self, state: ZipState, saved: Any) -> tuple[dict[str, Any], list[Any]]:
        """No fields, and the states of the parents."""
        above = required(saved, ["parents"], self)["parents"]
        if not isinstance(above, list) or len(above) != len(self.components):
            raise StateMismatchError(
                f"The state does not fit {self}: it has {above!r} for {len(self.components)} datasets. "
                "Restore it with the pipeline that saved it."
            )
        return {}, above

    def element_spec(self, *parents: Any) -> Any:
        return parents

    @property
    def iterator_name(self) -> str:
        return f"ZipDatasetIterator([{len(self.components)} parents])"

    def first_call(self, inputs: str) -> str:
        return f"IterDataset.zip([{inputs}]{'' if self.strict else ', strict=False'})"

    def __str__(self) -> str:
        return f"ZipIterDataset(parents={self.components}, strict={self.strict})"


def _takes_a_turn(node: Node, error: Exception) -> bool:
    """Whether an element of `node` was lost with `error`, and not only a part of what one is made of."""
    while not is_from(error, node) and isinstance(node, IterNode) and node.parents:
        if not (node.is_one_to_one or node.reads_by_index):
            return False
        node = node.parents[0]
    return True


def iter_zip_node(parents: Sequence[IterNode[Any]], strict: bool) -> IterZip:
    """Streams side by side."""
    _check_parents(parents)
    return IterZip(tuple(parents), strict)


def _check_parents(parents: Sequence[Any]) -> None:
    """Refuse to combine nothing."""
    if not parents:
        raise ValueError("At least one parent must be provided.")
