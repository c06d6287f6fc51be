"""Operators with several parents, on streams: what they share, and zipping."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from grain.errors import StateMismatchError
from grain.fields import Fields
from grain.graph.node import IterNode, Parent, required
from grain.ops.combining import check_parents


class Merging(IterNode):
    """An operator on several streams."""

    components: tuple[IterNode, ...]

    @property
    def parents(self) -> tuple[IterNode, ...]:
        return self.components


class IterZip(Merging):
    """Tuples of one element of each parent."""

    strict: bool

    class State(Fields):
        _elements: Any = ()
        """What an interrupt has left of a tuple: the first parents are one element ahead of the others."""

    def run(self, state: Any, *parents: Parent) -> Iterator[Any]:
        streams = [iter(parent) for parent in parents]
        while True:
            elements = state._elements = list(state._elements)
            error = None
            for position, stream in enumerate(streams[len(elements) :], len(elements)):
                try:
                    elements.append(next(stream))
                except StopIteration:
                    state._elements = ()
                    if error is not None:
                        raise error from None
                    if self.strict:
                        self._check_ends(position, streams)
                    return
                except Exception as caught:  # the other parents pass over their elements too
                    elements.append(None)
                    error = error or caught
            state._elements = ()
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

    def save(self, state: Any, parents: Sequence[Parent]) -> dict[str, Any]:
        """The states of all parents."""
        return {"parents": [parent.save() for parent in parents]}

    def split(self, state: Any, saved: Any) -> tuple[dict[str, Any], list[Any]]:
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


def iter_zip(parents: Sequence[IterNode], strict: bool) -> IterZip:
    """Streams side by side."""
    check_parents(parents)
    return IterZip(tuple(parents), strict)
