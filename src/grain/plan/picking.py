"""How each index of a `Gather` picks a child and an index in it: `Proportions`, `Concatenation` and others, as data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np

from grain.fields import Value
from grain.forks import cached_property
from grain.indices.arithmetic import IndexArray, exact
from grain.indices.permutation import SEEDS, permuted_each, shuffled
from grain.plan.index_steps import Lookup

Pick: TypeAlias = Callable[[int], tuple[int, int]]
PickArray: TypeAlias = Callable[[Any], tuple[Any, Any]]


class Picks(Protocol):
    """(child, index in it) of an index; `pick_array` for arrays of them, None where that is not to be done ahead."""

    @property
    def pick(self) -> Pick: ...

    @property
    def pick_array(self) -> PickArray | None: ...


class UsersChoice(Value):
    """What a user's map of indices says; its code is not run ahead."""

    selection_map: Any
    pick_array = None

    @property
    def pick(self) -> Pick:
        return self.selection_map.__getitem__  # type: ignore[no-any-return]


class UsersTable(Value):
    """The only child, at the indices of a table that may run a user's code, which is not done ahead."""

    lookup: Lookup
    pick_array = None

    def pick(self, index: int) -> tuple[int, int]:
        """Child 0, and an index in it."""
        return 0, self.lookup(index)


class PermuteEach(Value):
    """What others have picked, shuffled within the epochs of the child that it is in."""

    picks: Picks
    lengths: tuple[int, ...]
    seeds: tuple[int, ...]

    def pick(self, index: int) -> tuple[int, int]:
        """(child, index in it) of one index."""
        child, below = self._pick(index)
        return child, shuffled(self.seeds[child], self.lengths[child], below)

    def pick_array(self, indices: IndexArray) -> tuple[IndexArray, IndexArray]:
        """(children, indices in them) of an array of indices."""
        lengths, seeds, longest, pick_array = self._arrays
        children, below = pick_array(indices)
        length = lengths[children]
        below = exact(below, 1, longest)
        epoch, place = below // length, below % length
        shuffled = permuted_each(place, length, ((seeds[children] + epoch) % SEEDS).astype(np.int64))
        return children, shuffled + epoch * length

    @cached_property
    def _pick(self) -> Pick:
        return self.picks.pick

    @cached_property
    def _arrays(self) -> tuple[IndexArray, IndexArray, int, PickArray]:
        assert self.picks.pick_array is not None
        return np.array(self.lengths), np.array(self.seeds), max(self.lengths), self.picks.pick_array
