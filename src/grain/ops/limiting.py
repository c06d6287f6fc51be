"""Operators on how long a stream lasts: limit, repeat, cache."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from grain.fields import Fields
from grain.graph.node import IterNode, Parent, S
from grain.ops.ordering import checked_epochs


class PassingOn(IterNode[S]):
    """An operator whose elements are those of its only parent."""

    parent: Any

    @property
    def parents(self) -> tuple[Any]:
        return (self.parent,)

    def element_spec(self, parent: Any) -> Any:
        return parent


class LimitState(Fields):
    count_elements_read: int = 0


class Limit(PassingOn[LimitState]):
    """At most `count` elements of the parent."""

    count: int
    State = LimitState

    def run(self, state: LimitState, *parents: Parent) -> Iterator[Any]:
        (parent,) = parents
        if state.count_elements_read >= self.count:
            return
        for element in parent:
            state.count_elements_read += 1
            yield element
            if state.count_elements_read >= self.count:
                return

    def get_next_index(self, state: LimitState, parent: Parent) -> int:
        return int(state.count_elements_read)

    def set_next_index(self, state: LimitState, parent: Parent, index: int) -> None:
        parent.set_next_index(index)
        state.count_elements_read = index

    def __str__(self) -> str:
        return f"LimitIterDataset(count={self.count})"


def limit(parent: IterNode[Any], count: int) -> Limit:
    """At most `count` elements of `parent`."""
    if count <= 0:
        raise ValueError(f"Count must be a positive integer. Got {count}.")
    return Limit(parent, count)


class RepeatState(Fields):
    epoch: int = 0


class IterRepeat(PassingOn[RepeatState]):
    """The same elements again, `num_epochs` times or for ever."""

    num_epochs: int | None
    State = RepeatState

    def run(self, state: RepeatState, *parents: Parent) -> Iterator[Any]:
        (parent,) = parents
        is_whole_epoch = False
        while state.epoch != self.num_epochs:
            is_empty = is_whole_epoch
            for element in parent:
                is_empty = False
                yield element
            state.epoch += 1
            if state.epoch == self.num_epochs or (is_empty and self.num_epochs is None):
                return
            parent.reset(keeps_caches=True)
            is_whole_epoch = True

    @property
    def iterator_name(self) -> str:
        return f"_RepeatDatasetIterator(num_epochs={self.num_epochs})"

    def __str__(self) -> str:
        return f"RepeatIterDataset(num_epochs={self.num_epochs})"


def iter_repeat(parent: IterNode[Any], num_epochs: int | None) -> IterRepeat:
    """`parent` again and again."""
    return IterRepeat(parent, checked_epochs(num_epochs))


class CacheState(Fields):
    position: int = 0
    cache_filled: bool = False
    _elements: Any = ()
    _is_complete: bool = False
    _is_aligned: bool = True
    """Whether the parent stands where the kept elements end."""


class Cache(PassingOn[CacheState]):
    """The elements of the first pass are kept in memory for later ones, one cache for each iterator."""

    State = CacheState

    def fresh(self, *parents: Parent) -> CacheState:
        return CacheState(_elements=[])

    def load(self, state: CacheState, fields: dict[str, Any]) -> CacheState:
        kept, position = state._elements, fields["position"]
        if not fields["cache_filled"] and len(kept) >= position:
            return CacheState(position, _elements=kept[:position])  # as it was then: the parent is taken there too
        return CacheState(**fields, _elements=kept, _is_complete=state._is_complete, _is_aligned=False)

    def again(self, state: CacheState, fresh: CacheState) -> CacheState:
        return CacheState(_elements=state._elements, _is_complete=True) if state._is_complete else fresh

    def run(self, state: CacheState, *parents: Parent) -> Iterator[Any]:
        (parent,) = parents
        kept = state._elements
        elements: Iterable[Any] = parent
        if not (state._is_aligned or state._is_complete):
            elements = self._read_again(state, parent)
        state.cache_filled = state.cache_filled or state._is_complete
        while state.position < len(kept):
            state.position += 1
            yield kept[state.position - 1]
        if state._is_complete:
            return
        for element in elements:
            kept.append(element)
            state.position += 1
            yield element
        state._is_complete = state.cache_filled = True

    @staticmethod
    def _read_again(state: CacheState, parent: Parent) -> Iterable[Any]:
        """Fill the cache up to the position; what comes after it. Errors on the way have been raised before."""
        place, again = parent.save(), _without_errors(parent)
        parent.reset()
        state._elements[:] = islice(again, state.position)
        state._is_aligned = True
        if state.cache_filled:
            return again
        parent.restore(place)
        return parent

    @property
    def call(self) -> str:
        return "cache()"

    @property
    def held_back(self) -> str:
        return "all elements of the first pass"

    def __str__(self) -> str:
        return f"CacheIterDataset(parent={self.parent})"


def _without_errors(parent: Parent) -> Iterator[Any]:
    """The elements that do not fail; an error that would come for ever is raised."""
    before = None
    while True:
        try:
            yield from parent
            return
        except Exception:
            after = parent.save()
            if after == before:
                raise
            before = after
