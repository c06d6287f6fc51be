"""The kinds of plan.

Random access is a program over indices: a `Read`, `Gather`, `Join` or `Group` is asked for an index, or for a whole
array of them. Its `steps`, listed from the origin up, are gone through twice: downwards, the index steps say what to
ask of the origin; upwards, the element steps make of that what was asked for. A `Boundary` turns random access into a
stream; a `Step` is an operator on streams; `Turns`, `Ahead`, `Remote` and `Custom` are streams that run in other ways.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias

from grain.elements.stacking import Place
from grain.fields import Frozen
from grain.graph.node import IterNode
from grain.plan.reads import Batches, Indices, Records


class IndexStep(Frozen):
    """index -> index below; the function takes an int or an array of them."""

    function: Callable[[Any], Any]


class ShuffleStep(IndexStep):
    """A shuffle of each epoch, told apart because many of them can be done at once."""

    length: int
    seed: int


class ElementStep(Frozen):
    """element -> element; the function gets the index too where `indexed`, and says what to keep where `keeps`."""

    function: Callable[..., Any]
    operator: Any
    indexed: bool = False
    keeps: bool = False


Steps: TypeAlias = tuple[IndexStep | ElementStep, ...]


class _RandomAccess(Frozen):
    steps: ClassVar[Any]

    @functools.cached_property
    def descent(self) -> tuple[Callable[[Any], Any] | None, ...]:
        """The index functions from the top down, with None where an element step needs the index."""
        return tuple(
            step.function if isinstance(step, IndexStep) else None
            for step in reversed(self.steps)
            if isinstance(step, IndexStep) or step.indexed
        )

    @functools.cached_property
    def ascent(self) -> tuple[ElementStep, ...]:
        """The element steps from the origin up."""
        return tuple(step for step in self.steps if isinstance(step, ElementStep))

    record_at: ClassVar[Any] = None

    def then(self, *steps: IndexStep | ElementStep) -> Any:
        """This plan with more steps on top."""
        return self.replaced(steps=(*self.steps, *steps))


class Read(_RandomAccess):
    """Records of a source."""

    records: Records
    steps: Steps = ()  # type: ignore[misc]

    @functools.cached_property
    def record_at(self) -> Callable[[int], Any] | None:
        """index -> element, where one index function and the source do it all."""
        if self.ascent or len(self.descent) != 1:
            return None
        (function,) = self.descent
        assert function is not None
        if isinstance(self.records, Indices):
            return function
        source = self.records.source
        return lambda index: source[function(index)]


class Gather(_RandomAccess):
    """Each index picks a child and an index in it. `pick_array` does so for arrays, where it can be done ahead."""

    children: Sequence[RandomAccess]
    pick: Callable[[int], tuple[int, int]]
    pick_array: Callable[[Any], tuple[Any, Any]] | None
    steps: Steps = ()  # type: ignore[misc]

    @functools.cached_property
    def readers(self) -> list[Callable[[int], Any] | None]:
        """`record_at` of each child, side by side: going through ten thousand plans would be slow."""
        return [child.record_at for child in self.children]

    @functools.cached_property
    def reads_many(self) -> bool:
        """Whether a child reads several records faster than one by one."""
        return any(reads_many(child) for child in self.children)


class Join(_RandomAccess):
    """A tuple of what all children have at an index."""

    children: Sequence[RandomAccess]
    steps: Steps = ()  # type: ignore[misc]


class Group(_RandomAccess):
    """One index stands for many of the child: `extent` gives their start and number."""

    child: RandomAccess
    extent: Callable[[Any], tuple[Any, Any]]
    join: Callable[[list[Any]], Any] | None
    """Makes one element of several; None: stack them."""
    size: int
    operator: Any
    place: Place | None = None
    """Where to put what is stacked."""
    steps: Steps = ()  # type: ignore[misc]


RandomAccess: TypeAlias = Read | Gather | Join | Group


def reads_many(plan: RandomAccess) -> bool:
    """Whether a source reads several records faster than one by one."""
    if isinstance(plan, Read):
        return isinstance(plan.records, Batches)
    children = (plan.child,) if isinstance(plan, Group) else plan.children
    return any(map(reads_many, children))


class Boundary(Frozen):
    """Below this line elements are read by index, above it they are a stream."""

    operator: IterNode[Any]
    access: RandomAccess
    length: int
    is_dense: bool
    """Whether no operator below drops elements."""
    read_together: int = 1
    """How many records are asked of a source at once."""


class Step(Frozen):
    """An operator on streams."""

    operator: IterNode[Any]
    parents: tuple[Stream, ...]


class Turns(Frozen):
    """Streams that are opened while it runs, read in turn."""

    operator: IterNode[Any]


class Ahead(Frozen):
    """A stream that a thread reads ahead."""

    operator: IterNode[Any]
    parent: Stream
    size: int
    """How many elements are kept ready."""


class Remote(Frozen):
    """A stream that a worker process makes."""

    operator: IterNode[Any]


class Custom(Frozen):
    """A user's iterator."""

    operator: IterNode[Any]


Stream: TypeAlias = Boundary | Step | Turns | Ahead | Remote | Custom
