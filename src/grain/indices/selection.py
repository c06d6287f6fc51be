"""Which dataset of a mixture, or of a concatenation, an index belongs to."""

from __future__ import annotations

import math
import operator
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np

from grain.fields import Compared
from grain.indices.arithmetic import IndexArray, divided, exact, index_array

_TABLE_LIMIT = 1 << 16


def integer_weights(weights: Sequence[float]) -> tuple[int, ...]:
    """Weights as integers, the smallest being 100; finer differences are lost, on purpose: order depends on them."""
    if any(weight == 0 for weight in weights):
        raise ValueError(f"Must specify all non-zero proportions for mixing. Got {list(weights)}.")
    if not all(0 < weight < math.inf for weight in weights):
        raise ValueError(f"Proportions for mixing must be positive and finite. Got {list(weights)}.")
    scale = 100 / min(weights)
    return tuple(int(weight * scale) for weight in weights)


class Proportions(Compared):
    """Spreads indices over components so that every prefix is as near to the weights as it can be.

    Component 0 takes `ceil(n * w0 / W)` of any first n indices; the rest goes to the others by the same rule. The
    pattern repeats after the sum of the weights.
    """

    field_names = ("weights",)

    def __init__(self, weights: Sequence[int]) -> None:
        divisor = math.gcd(*weights)
        self.weights = tuple(weight // divisor for weight in weights)
        # Before component i there are `remaining[i]` units of weight left to be dealt out.
        total = sum(self.weights)
        self.period = total
        self._remaining = tuple(total - used for used in (0, *accumulate(self.weights)))
        self._table: tuple[IndexArray, IndexArray] | None = None

    def pick(self, index: int) -> tuple[int, int]:
        """(component, index in it) of one index."""
        if self._table is not None:
            components, places = self._table
            cycle, place = divmod(index, self.period)
            component = int(components[place])
            return component, int(places[place]) + cycle * self.weights[component]
        start, stop = index, index + 1
        for component, (left, still_left) in enumerate(zip(self._remaining, self._remaining[1:], strict=False)):
            start_rest, stop_rest = start * still_left // left, stop * still_left // left
            if stop - stop_rest != start - start_rest:
                return component, stop - stop_rest - 1
            start, stop = start_rest, stop_rest
        raise AssertionError("every index belongs to a component")

    def pick_array(self, indices: IndexArray) -> tuple[IndexArray, IndexArray]:
        """(components, indices in them) of an array of indices."""
        if self.period > _TABLE_LIMIT:
            if indices.size and indices[-1] - indices[0] == indices.size - 1 and (np.diff(indices) == 1).all():
                return self._pick_range(int(indices[0]), int(indices[-1]) + 1)
            picked = [self.pick(index) for index in indices.tolist()]
            components = np.array([component for component, _ in picked], dtype=np.int64)
            return components, index_array([place for _, place in picked])
        components, places = self._one_period()
        cycle, place = divided(exact(indices, max(self.weights)), self.period)
        place = place.astype(np.int64, copy=False)
        components = components[place]
        return components, places[place] + cycle * np.array(self.weights)[components]

    def taken(self, count: int) -> list[int]:
        """How many of the first `count` indices belong to each component."""
        result = []
        for left, still_left in zip(self._remaining, self._remaining[1:], strict=False):
            rest = count * still_left // left
            result.append(count - rest)
            count = rest
        return result

    def smallest_count(self, least: Sequence[int]) -> int:
        """The smallest number of indices of which each component takes at least what `least` says."""
        return _first(lambda count: all(map(operator.ge, self.taken(count), least)))

    def largest_count(self, most: Sequence[int]) -> int:
        """The largest number of indices of which no component takes more than what `most` says."""
        return _first(lambda count: any(map(operator.gt, self.taken(count), most))) - 1

    def _one_period(self) -> tuple[IndexArray, IndexArray]:
        if self._table is None:
            self._table = self._pick_range(0, self.period)
        return self._table

    def _pick_range(self, start: int, stop: int) -> tuple[IndexArray, IndexArray]:
        """The components of consecutive indices.

        Each component takes known places of the sequence of what its predecessors left. Undone from the back, that is
        inserting its elements there: neighbours are merged two by two, so the work grows with the logarithm of their
        number.
        """
        components: list[int] = []
        places: list[int] = []
        positions: list[int] = []
        for component, weight in enumerate(self.weights):
            left, still_left = self._remaining[component], self._remaining[component + 1]
            first = start - start * still_left // left
            last = stop - stop * still_left // left
            components += [component] * (last - first)
            places += range(first, last)
            positions += [taken * left // weight - start for taken in range(first, last)]
            start, stop = start * still_left // left, stop * still_left // left
            if start == stop:
                break
        return _merged(np.array(components, dtype=np.int64), index_array(places), np.array(positions, dtype=np.int64))


def _first(is_reached: Callable[[int], bool]) -> int:
    """The smallest number for which something is true that is true for all larger ones."""
    high = 1
    while not is_reached(high):
        high *= 2
    return bisect_left(range(high), True, key=is_reached)


def _merged(components: IndexArray, places: IndexArray, positions: IndexArray) -> tuple[IndexArray, IndexArray]:
    """Put (component, place) pairs in order, where `positions` are places in what earlier components left."""
    size, group = positions.size, components.copy()
    while size and group[-1]:
        # The second group of each pair goes into the gaps of the first: its n-th place is the n-th gap.
        second = (group & 1).astype(bool)
        pair = group >> 1
        gap = np.where(second, 0, positions - _rank(group))
        keys, wanted = (pair * (size + 1) + gap)[~second], (pair * (size + 1) + positions)[second]
        before = np.searchsorted(keys, wanted, side="right") - np.searchsorted(keys, pair[second] * (size + 1))
        positions = positions.copy()
        positions[second] += before
        order = np.lexsort((positions, pair))
        components, places, positions, group = components[order], places[order], positions[order], pair[order]
    return components, places


def _rank(group: IndexArray) -> IndexArray:
    """The position of each entry among those of its group; groups stand together."""
    starts = np.flatnonzero(np.r_[True, group[1:] != group[:-1]])
    return np.arange(group.size) - np.repeat(starts, np.diff(np.r_[starts, group.size]))


@lru_cache(maxsize=64)
def proportions(weights: tuple[int, ...]) -> Proportions:
    """The proportions of `weights`, with the table that is made for them on the way."""
    return Proportions(weights)


class Renormalized(Compared):
    """Spreads indices over components by their weights, and over those that are left where one is used up."""

    field_names = ("weights", "lengths")

    def __init__(self, weights: Sequence[int], lengths: Sequence[int]) -> None:
        self.weights, self.lengths, self.length = tuple(weights), tuple(lengths), sum(lengths)
        self._starts: list[int] = []
        self._phases: list[tuple[list[int], Proportions, list[int]]] = []
        """The components that are left, how indices are spread over them, and how much of each was used before."""
        left, start, used = list(range(len(weights))), 0, [0] * len(weights)
        while left:
            spread = proportions(tuple(weights[component] for component in left))
            rest = [lengths[component] - used[component] for component in left]
            self._starts.append(start)
            self._phases.append((left, spread, [used[component] for component in left]))
            size = spread.largest_count(rest)
            for component, taken in zip(left, spread.taken(size), strict=True):
                used[component] += taken
            ended = spread.pick(size)[0]  # it would be next, and has nothing left
            left, start = [*left[:ended], *left[ended + 1 :]], start + size

    def pick(self, index: int) -> tuple[int, int]:
        """(component, index in it) of one index."""
        epoch, place = divided(index, self.length)
        number = bisect_right(self._starts, place) - 1
        components, spread, used = self._phases[number]
        chosen, below = spread.pick(place - self._starts[number])
        component = components[chosen]
        return component, below + used[chosen] + epoch * self.lengths[component]

    def pick_array(self, indices: IndexArray) -> tuple[IndexArray, IndexArray]:
        """(components, indices in them) of an array of indices."""
        epoch, place = divided(indices, self.length)
        place = place.astype(np.int64, copy=False)
        numbers = np.searchsorted(self._starts, place, side="right") - 1
        components, below = np.empty_like(place), np.empty_like(place)
        for number in np.unique(numbers).tolist():
            there, spread, used = self._phases[number]
            here = numbers == number
            chosen, taken = spread.pick_array(place[here] - self._starts[number])
            components[here], below[here] = np.array(there)[chosen], taken + np.array(used)[chosen]
        return components, below + epoch * np.array(self.lengths)[components]


class Concatenation(Compared):
    """Deals out indices to components one after the other, epoch by epoch."""

    field_names = ("lengths",)

    def __init__(self, lengths: Sequence[int]) -> None:
        self.lengths = tuple(lengths)
        self._starts = (0, *accumulate(self.lengths))
        self.length = self._starts[-1]

    def pick(self, index: int) -> tuple[int, int]:
        """(component, index in it) of one index."""
        epoch, place = divided(index, self.length)
        component = bisect_right(self._starts, place) - 1
        return component, place - self._starts[component] + epoch * self.lengths[component]

    def pick_array(self, indices: IndexArray) -> tuple[IndexArray, IndexArray]:
        """(components, indices in them) of an array of indices."""
        epoch, place = divided(indices, self.length)
        starts = np.array(self._starts)
        components = np.searchsorted(starts, place.astype(np.int64, copy=False), side="right") - 1
        return components, place - starts[components] + epoch * np.array(self.lengths)[components]


class FanOut(Compared):
    """Deals out indices to elements each of which stands for a number of its own, epoch by epoch."""

    field_names = ("starts",)

    def __init__(self, counts: Any) -> None:
        table = np.asarray(counts)
        if table.ndim != 1 or (table.size and table.dtype.kind not in "iu") or (table < 0).any():
            raise ValueError(f"fan_out must be one number of items, 0 or more, for each element, got {counts!r}.")
        self.starts = np.r_[0, np.cumsum(table, dtype=np.int64)]
        self.length = int(self.starts[-1])

    def __len__(self) -> int:
        return len(self.starts) - 1

    def pick(self, index: Any) -> Any:
        """The element of an index, or of an array of them."""
        epoch, place = divided(exact(index, -(-len(self) // max(self.length, 1)), len(self)), self.length)
        if isinstance(index, np.ndarray):
            place = place.astype(np.int64, copy=False)
            return self.starts.searchsorted(place, "right") - 1 + epoch * len(self)
        return int(self.starts.searchsorted(place, "right")) - 1 + epoch * len(self)

    def place(self, index: int) -> tuple[int, int]:
        """Which of how many items of its element stands at an index."""
        _, place = divided(index, self.length)
        element = int(self.starts.searchsorted(place, "right")) - 1
        return place - int(self.starts[element]), int(self.starts[element + 1] - self.starts[element])
