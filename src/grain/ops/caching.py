"""Elements of a stream, kept in memory for later passes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from grain.fields import Fields
from grain.graph.node import Parent
from grain.ops.passing_on import PassingOn

_MOST_ERRORS = 10_000
"""So many errors, one after the other, are no accident."""


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
        return state.replaced(position=0, _is_aligned=False) if state.cache_filled else fresh

    def run(self, state: CacheState, *parents: Parent) -> Iterator[Any]:
        (parent,) = parents
        kept = state._elements
        elements: Iterable[Any] = parent
        if not (state._is_aligned or state._is_complete):
            elements = self._read_again(state, parent)
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
    errors, after = 0, None
    while True:
        try:
            for element in parent:  # `yield from` would close a user's iterator when this is thrown away
                errors = 0
                yield element
            return
        except Exception:
            before, after, errors = after, parent.save(), errors + 1
            if errors == _MOST_ERRORS or (after == before and not parent.holds()):
                raise
