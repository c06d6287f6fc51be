"""Streams that begin by themselves: files that are read from their start, and users' generators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

from grain.fields import Fields, Frozen
from grain.files.versions import FileChangedError
from grain.graph.node import IterNode, Node, Parent, copied, required, saved_fields
from grain.graph.parts import Part
from grain.ops.interleaving import Interleave
from grain.ops.passing_on import PassingOn

_END: Any = object()


class StreamSource(Protocol):
    """Records that can be read one after the other, beginning at any place that was reached before.

    It is pickled for worker processes. Where it can be divided more cheaply than by reading all and passing over what
    belongs to others, it has a method `part(index, count)` that gives a stream source for that part, or None.
    """

    State: Callable[..., Any]
    """The place: Fields that have defaults for the start, and are saved under their names."""

    def read(self, state: Any) -> Iterator[Any]:
        """The records from `state` on. Whenever it yields, `state` tells how to go on after that record."""


class Streamed(IterNode[Any]):
    """The records of a stream source."""

    source: Any
    title: str

    def fresh(self, *parents: Parent) -> Any:
        return self.source.State()

    def run(self, state: Any, *parents: Parent) -> Iterator[Any]:
        return self.source.read(state)  # type: ignore[no-any-return]

    def save(self, state: Any, parents: Sequence[Parent]) -> dict[str, Any]:
        return {name: copied(getattr(state, name)) for name in saved_fields(state)}

    def split(self, state: Any, saved: Any) -> tuple[dict[str, Any], list[Any]]:
        return required(saved, saved_fields(state), self), []

    def load(self, state: Any, fields: dict[str, Any]) -> Any:
        return self.source.State(**fields)

    def own_part(self, part: Part) -> IterNode[Any]:
        if hasattr(self.source, "part"):
            divided = self.source.part(part.index, part.count)
            if divided is not None:
                return self.replaced(source=divided)
        return Strided(self, part.index, part.count)

    def first_call(self, inputs: str) -> str:
        return str(self)

    def __str__(self) -> str:
        return f"{self.title}({self.source})"


class StridedState(Fields):
    to_skip: int
    """How many elements of others come before the next one of ours."""


class Strided(PassingOn[StridedState]):
    """Every `count`-th element, beginning with number `index`."""

    index: int
    count: int
    State = StridedState

    def fresh(self, *parents: Parent) -> StridedState:
        return StridedState(self.index)

    def run(self, state: StridedState, *parents: Parent) -> Iterator[Any]:
        (parent,) = parents
        while True:
            before, is_ours = parent.save(), state.to_skip == 0
            try:
                element = next(iter(parent), _END)
            except FileChangedError:  # all that is left is lost, and others may have met it elsewhere
                raise
            except Exception:
                if parent.save() == before:
                    raise
                state.to_skip = (state.to_skip - 1) % self.count  # that record is done with
                if is_ours:
                    raise
                continue  # whose record it is raises the error
            if element is _END:
                return
            state.to_skip = (state.to_skip - 1) % self.count
            if is_ours:
                yield element

    def __str__(self) -> str:
        return f"StridedIterDataset(index={self.index}, count={self.count})"


class Files(Interleave):
    """Records of several files in turn; where there are more workers than files, they share them."""

    def first_call(self, inputs: str) -> str:
        return f"{self.datasets[0].title}({len(self.datasets)} files)"

    def own_part(self, part: Part) -> IterNode[Any]:
        count = len(self.datasets)
        if part.count <= count:
            return super().own_part(part)
        file: Node = self.datasets[part.index % count]
        sharing = len(range(part.index % count, part.count, count))
        if sharing == 1:
            return file  # type: ignore[return-value]
        return file.own_part(Part(part.index // count, sharing))  # type: ignore[return-value]


FILES_IN_TURN = 16


def streamed(sources: Sequence[Any], title: str) -> IterNode[Any]:
    """The records of `sources`: of one as they are, of several in turn."""
    nodes = [Streamed(source, title) for source in sources]
    if len(nodes) == 1:
        return nodes[0]
    return Files(nodes, FILES_IN_TURN, num_make_iter_threads=1, make_iter_buffer_size=1, iter_buffer_size=1)


class Generated(Frozen):
    """What a generator function gives: it is called again to go on, and what was read before is passed over."""

    function: Callable[..., Any]
    takes_start: bool

    class State(Fields):
        next_index: int = 0

    def read(self, state: Any) -> Iterator[Any]:
        start = state.next_index
        elements = self.function(start) if self.takes_start else islice(self.function(), start, None)
        for element in elements:
            state.next_index += 1
            yield element

    def __str__(self) -> str:
        return getattr(self.function, "__qualname__", type(self.function).__name__)
