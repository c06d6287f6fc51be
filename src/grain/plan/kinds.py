"""The kinds of plan.

Random access is a program over indices: a `Read`, `Gather`, `Join` or `Group` is asked for an index, or for a whole
array of them. Its `steps`, listed from the origin up, are gone through twice: downwards, the index steps say what to
ask of the origin; upwards, the element steps make of that what was asked for. A `Boundary` turns random access into a
stream; a `Step` is an operator on streams; `Turns`, `Ahead`, `Remote` and `Custom` are streams that run in other ways.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

import numpy as np

from grain.elements.stacking import Place
from grain.errors import add_place
from grain.fields import Value
from grain.forks import cached_property
from grain.graph.naming import transform_name
from grain.graph.node import IterNode
from grain.indices.arithmetic import IndexArray, divided, exact
from grain.plan.element_steps import ElementStep
from grain.plan.index_steps import IndexStep
from grain.plan.picking import Pick, Picks
from grain.plan.reads import Batches, Indices, Records

Steps: TypeAlias = tuple[IndexStep | ElementStep, ...]
Call: TypeAlias = tuple[Callable[..., Any], bool, bool]
"""The function of an element step, whether it gets the index too, and whether it says what to keep."""


class Plan(Value):
    """What will be run."""

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The plans that it reads from."""
        return ()

    def with_inputs(self, *inputs: Any) -> Any:
        """The same on other plans."""
        return self


class _RandomAccess(Plan):
    steps: ClassVar[Any]

    @cached_property
    def descent(self) -> tuple[Callable[[Any], Any] | None, ...]:
        """The index functions from the top down, with None where an element step needs the index."""
        return tuple(
            step.function if isinstance(step, IndexStep) else None
            for step in reversed(self.steps)
            if isinstance(step, IndexStep) or step.indexed
        )

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """What the element steps call, from the origin up."""
        steps = (step for step in self.steps if isinstance(step, ElementStep))
        return tuple((step.call, step.indexed, step.keeps) for step in steps)

    record_at: ClassVar[Any] = None

    def then(self, *steps: IndexStep | ElementStep) -> Any:
        """This plan with more steps on top."""
        return self.replaced(steps=(*self.steps, *steps))


class Read(_RandomAccess):
    """Records of a source."""

    records: Records
    steps: Steps = ()  # type: ignore[misc]

    @cached_property
    def record_at(self) -> Callable[[int], Any] | None:
        """index -> element, where one index function and the source do it all."""
        if len(self.steps) != 1 or not isinstance(self.steps[0], IndexStep):
            return None
        function = self.steps[0].int_function
        if isinstance(self.records, Indices):
            return function
        source = self.records.source
        return lambda index: source[function(index)]


class Gather(_RandomAccess):
    """Each index picks a child and an index in it."""

    children: tuple[RandomAccess, ...]
    picks: Picks
    steps: Steps = ()  # type: ignore[misc]

    @property
    def inputs(self) -> tuple[RandomAccess, ...]:
        return self.children

    def with_inputs(self, *inputs: Any) -> Gather:
        return self.replaced(children=inputs)

    @cached_property
    def pick(self) -> Pick:
        """(child, index in it) of one index."""
        return self.picks.pick

    @cached_property
    def readers(self) -> list[Callable[[int], Any] | None]:
        """`record_at` of each child, side by side: going through ten thousand plans would be slow."""
        return [child.record_at for child in self.children]

    @cached_property
    def reads_many(self) -> bool:
        """Whether a child reads several records faster than one by one."""
        return any(reads_many(child) for child in self.children)


class Join(_RandomAccess):
    """A tuple of what all children have at an index."""

    children: tuple[RandomAccess, ...]
    steps: Steps = ()  # type: ignore[misc]

    @property
    def inputs(self) -> tuple[RandomAccess, ...]:
        return self.children

    def with_inputs(self, *inputs: Any) -> Join:
        return self.replaced(children=inputs)


class Extent(Value):
    """The indices for which one stands: `size` each, `length` times in each epoch of `length_below`."""

    size: int
    length: int
    length_below: int

    def __call__(self, indices: IndexArray) -> tuple[IndexArray, IndexArray]:
        """The first of them, and how many there are; the last ones of an epoch may be fewer."""
        size, length_below = self.size, self.length_below
        epoch, place = divided(exact(indices, 2 * size, 2 * length_below), self.length)
        start = place * size
        return start + epoch * length_below, np.minimum(length_below - start, size)


class Group(_RandomAccess):
    """One index stands for many of the child."""

    child: RandomAccess
    extent: Extent
    join: Callable[[list[Any]], Any] | None
    """Makes one element of several; None: stack them."""
    title: str
    """The operator, for notes on errors."""
    place: Place | None = None
    """Where to put what is stacked."""
    keep_bytes: bool = False
    """Whether bytes and text are stacked as objects."""
    steps: Steps = ()  # type: ignore[misc]

    @property
    def inputs(self) -> tuple[RandomAccess, ...]:
        return (self.child,)

    def with_inputs(self, *inputs: Any) -> Group:
        (child,) = inputs
        return self.replaced(child=child)

    def add_place(self, error: Exception, index: Any) -> None:
        """Say in the error which group failed."""
        function = "" if self.join is None else f" with batch_fn {transform_name(self.join)}"
        add_place(error, f"{self.title}{function}", index)
        if isinstance(error, ValueError):
            error.add_note("If elements are missing (None), call `to_iter_dataset()` before `batch()` to skip them.")


RandomAccess: TypeAlias = Read | Gather | Join | Group


def reads_many(plan: RandomAccess) -> bool:
    """Whether a source reads several records faster than one by one."""
    return isinstance(plan.records, Batches) if isinstance(plan, Read) else any(map(reads_many, plan.inputs))


class Boundary(Plan):
    """Below this line elements are read by index, above it they are a stream."""

    operator: IterNode[Any]
    access: RandomAccess
    length: int
    is_dense: bool
    """Whether no operator below drops elements."""
    read_together: int = 1
    """How many records are asked of a source at once."""

    @property
    def inputs(self) -> tuple[RandomAccess]:
        return (self.access,)

    def with_inputs(self, *inputs: Any) -> Boundary:
        (access,) = inputs
        return self.replaced(access=access)


class Step(Plan):
    """An operator on streams."""

    operator: IterNode[Any]
    parents: tuple[Stream, ...]

    @property
    def inputs(self) -> tuple[Stream, ...]:
        return self.parents

    def with_inputs(self, *inputs: Any) -> Step:
        return self.replaced(parents=inputs)


class Turns(Plan):
    """Streams that are opened while it runs, read in turn."""

    operator: IterNode[Any]


class Ahead(Plan):
    """A stream that a thread reads ahead."""

    operator: IterNode[Any]
    parent: Stream
    size: int
    """How many elements are kept ready."""

    @property
    def inputs(self) -> tuple[Stream]:
        return (self.parent,)

    def with_inputs(self, *inputs: Any) -> Ahead:
        (parent,) = inputs
        return self.replaced(parent=parent)


class Remote(Plan):
    """A stream that a worker process makes."""

    operator: IterNode[Any]


class Custom(Plan):
    """A user's iterator."""

    operator: IterNode[Any]


Stream: TypeAlias = Boundary | Step | Turns | Ahead | Remote | Custom
