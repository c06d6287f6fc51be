"""Streams: operators at work.

A stream's state is the truth; the generator that works on it can be made again at any time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from grain.graph.node import ABSENT, Context, IterNode, check_counts, copied, required
from grain.indices.arithmetic import integer
from grain.plan import kinds
from grain.runtime.reader import reader_of


class Stream:
    """One operator at work: its state and the streams it reads from.

    `restore` first loads the whole state and only then changes anything, so a state that does not fit leaves the stream
    as it was.
    """

    def __init__(self, operator: IterNode, parents: tuple[Any, ...], context: Context) -> None:
        self.operator, self.parents, self.context = operator, parents, context
        self._elements: Iterator[Any] | None = None
        self.state = self._fresh()

    def _fresh(self) -> Any:
        return self.operator.fresh(*self.parents)

    def __iter__(self) -> Iterator[Any]:
        elements = self._elements
        if elements is None or getattr(elements, "gi_frame", elements) is None:
            self._elements = elements = self.operator.run(self.state, *self.parents)
        return elements

    def save(self) -> Any:
        """The state of this operator and of all above it, as JSON values."""
        return self.operator.save(self.state, self.parents)

    def restore(self, saved: Any) -> None:
        """Go to a position that `save` gave."""
        for part, state in self.loaded(saved):
            part.become(state)

    def loaded(self, saved: Any) -> list[tuple[Any, Any]]:
        """All streams from here on up, each with the state that it had in `saved`."""
        fields, above = self.operator.split(self.state, saved)
        check_counts(fields, self.state, self.operator)
        result: list[tuple[Any, Any]] = [(self, self.operator.load(self.state, fields))]
        if self.operator.parent_field is not None:
            self.parents[0].loaded(fields[self.operator.parent_field])  # only to see that it fits
        for parent, parent_saved in zip(self.parents, above, strict=False):
            if parent_saved is not ABSENT:
                result += parent.loaded(parent_saved)
        return result

    def become(self, state: Any) -> None:
        """Go on from `state`."""
        self.state, self._elements = state, None

    @property
    def element_index(self) -> int | None:
        """The index of the element read last, where one is known."""
        return self.parents[0].element_index if len(self.parents) == 1 else None

    def get_next_index(self) -> int:
        """The number of elements before the next one, for operators where that is clear."""
        return self.operator.get_next_index(self.state, self.parents[0] if self.parents else None)  # type: ignore[arg-type]

    def set_next_index(self, index: int) -> None:
        """Go to an element by its number."""
        self.operator.set_next_index(self.state, self.parents[0] if self.parents else None, index)  # type: ignore[arg-type]
        self._elements = None

    def start_prefetch(self) -> None:
        """Let everything that reads ahead begin."""
        for parent in self.parents:
            parent.start_prefetch()

    def adopt_context(self, context: Context) -> None:
        """Take part in a larger pipeline."""
        self.context = context
        for parent in self.parents:
            parent.adopt_context(self.operator.context_above(context))

    def close(self) -> None:
        """Give back what is held: threads, processes, files."""
        self._elements = None
        for parent in self.parents:
            parent.close()


class BoundaryStream(Stream):
    """A stream of the elements of a random access plan."""

    def __init__(self, boundary: kinds.Boundary, context: Context) -> None:
        self._reader = reader_of(boundary, context)
        self._length = boundary.length
        super().__init__(boundary.operator, (), context)

    def __iter__(self) -> Iterator[Any]:
        elements = self._elements
        if elements is None or elements.gi_frame is None:  # type: ignore[attr-defined]
            self._elements = elements = self.operator.run(self.state, self._reader)
        return elements

    def save(self) -> Any:
        return {"next_index": self.state.next_index}

    def restore(self, saved: Any) -> None:
        self.become(self._checked(saved))

    def loaded(self, saved: Any) -> list[tuple[Any, Any]]:
        return [(self, self._checked(saved))]

    def _checked(self, saved: Any) -> int:
        if not isinstance(saved, dict) or "next_index" not in saved:
            required(saved, ("next_index",), self.operator)
        index = saved["next_index"]
        if type(index) is not int:
            index = integer("next_index", index)
        if not 0 <= index <= self._length:
            raise IndexError(
                f"Checkpoint `next_index` {index} is out of range for dataset of length {self._length}. "
                "Restore it with the pipeline that saved it."
            )
        return index

    def become(self, state: int) -> None:
        self.state.next_index = state  # the generator sees that it was moved: making a new one would cost more

    def set_next_index(self, index: int) -> None:
        self.restore({"next_index": index})

    @property
    def element_index(self) -> int | None:
        return int(self.state.next_index) - 1

    def adopt_context(self, context: Context) -> None:
        self.context = self._reader.context = context

    def start_prefetch(self) -> None:
        self._reader.start_prefetch(self.state.next_index)

    def close(self) -> None:
        super().close()
        self._reader.close()


class CustomStream:
    """A user's iterator, which keeps its own state."""

    def __init__(self, operator: IterNode, iterator: Any, context: Context) -> None:
        self.operator, self.iterator, self.context = operator, iterator, context
        if hasattr(self.iterator, "_share_context"):
            self.iterator._share_context(context)

    def __iter__(self) -> Iterator[Any]:
        return self.iterator  # type: ignore[no-any-return]

    def save(self) -> Any:
        """What the user's `get_state` says; a copy, because it may be a dict that goes on changing."""
        return copied(self.iterator.get_state())

    def restore(self, saved: Any) -> None:
        """Hand the state to the user's `set_state`."""
        self.iterator.set_state(copied(saved))

    def loaded(self, saved: Any) -> list[tuple[Any, Any]]:
        """Users' iterators load their states themselves, last of all."""
        return [(self, saved)]

    become = restore
    element_index = None

    def get_next_index(self) -> int:
        """What the user's iterator says, where it can."""
        return self.iterator._get_next_index()  # type: ignore[no-any-return]

    def set_next_index(self, index: int) -> None:
        """Let the user's iterator go there, where it can."""
        self.iterator._set_next_index(index)

    def adopt_context(self, context: Context) -> None:
        """Passed on to the user's iterator."""
        self.context = context
        if hasattr(self.iterator, "_adopt_context"):
            self.iterator._adopt_context(context)

    def start_prefetch(self) -> None:
        """Passed on to the user's iterator."""
        if hasattr(self.iterator, "start_prefetch"):
            self.iterator.start_prefetch()

    def close(self) -> None:
        """Passed on to the user's iterator."""
        if hasattr(self.iterator, "close"):
            self.iterator.close()
