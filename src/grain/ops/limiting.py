"""Operators on how long a stream lasts: limit, repeat, cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from grain.fields import Fields
from grain.graph.node import IterNode, Parent
from grain.ops.ordering import checked_epochs


class PassingOn(IterNode):
    """An operator whose elements are those of its only parent."""

    parent: Any

    @property
    def parents(self) -> tuple[Any]:
        return (self.parent,)

    def element_spec(self, parent: Any) -> Any:
        return parent


class Limit(PassingOn):
    """At most `count` elements of the parent."""

    count: int

    class State(Fields):
        count_elements_read: int = 0

    def run(self, state: Any, parent: Parent) -> Iterator[Any]:
        if state.count_elements_read >= self.count:
            return
        for element in parent:
            state.count_elements_read += 1
            yield element
            if state.count_elements_read >= self.count:
                return

    def get_next_index(self, state: Any, parent: Parent) -> int:
        return int(state.count_elements_read)

    def set_next_index(self, state: Any, parent: Parent, index: int) -> None:
        parent.set_next_index(index)
        state.count_elements_read = index

    def __str__(self) -> str:
        return f"LimitIterDataset(count={self.count})"


def limit(parent: IterNode, count: int) -> Limit:
    """At most `count` elements of `parent`."""
    if count <= 0:
        raise ValueError(f"Count must be a positive integer. Got {count}.")
    return Limit(parent, count)


class IterRepeat(PassingOn):
    """The same elements again, `num_epochs` times or for ever."""

    num_epochs: int | None

    class State(Fields):
        epoch: int = 0
        _start: Any = None

    def fresh(self, *parents: Parent) -> Any:
        return self.State(_start=parents[0].save())

    def load(self, state: Any, saved: dict[str, Any]) -> Any:
        return self.State(**saved, _start=state._start)

    def run(self, state: Any, parent: Parent) -> Iterator[Any]:
        is_whole_epoch = False
        while state.epoch != self.num_epochs:
            is_empty = is_whole_epoch
            for element in parent:
                is_empty = False
                yield element
            state.epoch += 1
            if state.epoch == self.num_epochs or (is_empty and self.num_epochs is None):
                return
            parent.restore(state._start)
            is_whole_epoch = True

    @property
    def iterator_name(self) -> str:
        return f"_RepeatDatasetIterator(num_epochs={self.num_epochs})"

    def __str__(self) -> str:
        return f"RepeatIterDataset(num_epochs={self.num_epochs})"


def iter_repeat(parent: IterNode, num_epochs: int | None) -> IterRepeat:
    """`parent` again and again."""
    return IterRepeat(parent, checked_epochs(num_epochs))


class Cache(PassingOn):
    """The elements of the first pass are kept in memory for later ones, one cache for each iterator."""

    class State(Fields):
        position: int = 0
        cache_filled: bool = False
        _start: Any = None
        _elements: Any = ()
        _is_complete: bool = False
        _is_aligned: bool = True
        """Whether the parent stands where the kept elements end."""

    def fresh(self, *parents: Parent) -> Any:
        return self.State(_start=parents[0].save(), _elements=[])

    def load(self, state: Any, saved: dict[str, Any]) -> Any:
        return self.State(
            **saved,
            _start=state._start,
            _elements=state._elements,
            _is_complete=state._is_complete,
            _is_aligned=False,
        )

    def run(self, state: Any, parent: Parent) -> Iterator[Any]:
        kept = state._elements
        if not (state._is_aligned or state._is_complete):
            # The parent may be anywhere: read everything up to the position again.
            parent.restore(state._start)
            kept.clear()
            state._is_aligned = True
        state.cache_filled = state.cache_filled or state._is_complete
        while state.position < len(kept):
            state.position += 1
            yield kept[state.position - 1]
        if state._is_complete:
            return
        for element in parent:
            kept.append(element)
            if len(kept) > state.position:
                state.position += 1
                yield element
        state._is_complete = state.cache_filled = True

    @property
    def call(self) -> str:
        return "cache()"

    @property
    def holds(self) -> str:
        return "all elements of the first pass"

    def __str__(self) -> str:
        return f"CacheIterDataset(parent={self.parent})"
