"""Index steps: from an index to the index below it.

Each is called with an int (or what `ds[...]` was given in place of one) or with an array of them, and is nothing but
its fields: steps can be compared, printed and pickled.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from grain.errors import EmptyDatasetError
from grain.fields import Value
from grain.forks import cached_property
from grain.indices.arithmetic import divided, exact
from grain.indices.permutation import SEEDS, permuted, permuted_by_part, shuffled
from grain.indices.selection import FanOut
from grain.samplers import Arithmetic

Index: TypeAlias = Any
"""An int, or an array of them."""


class IndexStep(Value):
    """index -> index below."""

    def __call__(self, index: Index) -> Index:
        raise NotImplementedError

    @property
    def function(self) -> Callable[[Index], Index]:
        """The same, in the form that is fastest to call."""
        return self.__call__

    @property
    def int_function(self) -> Callable[[int], int]:
        """The same for Python's own ints."""
        return self.function


class Modulo(IndexStep):
    """The index within its epoch."""

    length: int

    def __call__(self, index: Index) -> Index:
        if not self.length:
            raise EmptyDatasetError
        return index % self.length

    @property
    def int_function(self) -> Callable[[int], int]:
        return self.length.__rmod__ if self.length else self.__call__


class ModuloLength(IndexStep):
    """The index within its epoch of a source, which may grow."""

    source: Any

    def __call__(self, index: Index) -> Index:
        length = len(self.source)
        if not length:
            raise EmptyDatasetError
        return index % length

    def __repr__(self) -> str:
        return f"Modulo(length={len(self.source)})"


class Progression(IndexStep):
    """The numbers of a `range`, epoch by epoch."""

    start: int
    step: int
    length: int

    def __call__(self, index: Index) -> Index:
        _, place = divided(index, self.length)
        return exact(place, abs(self.step), self.start) * self.step + self.start

    @property
    def int_function(self) -> Callable[[int], int]:
        start, step, length = self.start, self.step, self.length
        if not length:
            return self.__call__
        return lambda index: index % length * step + start


class Affine(IndexStep):
    """`index * scale + offset`."""

    scale: int
    offset: int

    def __call__(self, index: Index) -> Index:
        return exact(index, self.scale, self.offset) * self.scale + self.offset


class Divide(IndexStep):
    """`index // count`: so many indices stand for one below."""

    count: int

    def __call__(self, index: Index) -> Index:
        return index // self.count


class Permute(IndexStep):
    """A shuffle of each epoch. Many of them can be done at once, see `PermuteEach`."""

    length: int
    seed: int

    def __call__(self, index: Index) -> Index:
        return shuffled(self.seed, self.length, index)

    @property
    def function(self) -> Callable[[Index], Index]:
        return functools.partial(shuffled, self.seed, self.length)


class WindowPermute(IndexStep):
    """A shuffle of each `size` consecutive indices."""

    size: int
    seed: int

    def __call__(self, index: Index) -> Index:
        size = self.size
        if not size:
            raise EmptyDatasetError("window_size is 0")
        window, place = divided(exact(index, 1, size), size)
        if not isinstance(index, np.ndarray):
            return window * size + permuted(int(place), size, int(self.seed + window) % SEEDS)
        return window * size + permuted_by_part(window, place, size, self.seed)


class Stride(IndexStep):
    """Every `step`-th index from `start` on, `length` of them in each epoch of `length_below`."""

    start: int
    step: int
    length: int
    length_below: int

    @cached_property
    def _growth(self) -> int:
        return self.length_below // max(self.length, 1) + 1

    def __call__(self, index: Index) -> Index:
        epoch, place = divided(exact(index, self._growth, 2 * self.length_below), self.length)
        return self.start + place * self.step + epoch * self.length_below


class Lookup(IndexStep):
    """The indices of a table, in each epoch of `length_below`."""

    table: Sequence[int]
    length_below: int

    def __call__(self, index: Index) -> Index:
        table, length_below = self.table, self.length_below
        growth = length_below // max(len(table), 1) + 1
        epoch, place = divided(exact(index, growth, 2 * length_below), len(table))
        if not isinstance(index, np.ndarray):
            return int(table[place]) + epoch * length_below  # an array gives NumPy's ints
        if isinstance(table, np.ndarray):
            chosen = table[place.astype(np.int64)]
        else:
            chosen = np.array([table[position] for position in place.tolist()])
        return chosen + epoch * length_below


class Unfold(IndexStep):
    """The index of the element to which an item belongs."""

    fan_out: FanOut

    def __call__(self, index: Index) -> Index:
        return self.fan_out.pick(index)

    @property
    def function(self) -> Callable[[Index], Index]:
        return self.fan_out.pick


class RecordKeys(IndexStep):
    """The records that a sampler chooses."""

    sampler: Arithmetic

    def __call__(self, index: Index) -> Index:
        return self.sampler.record_keys(index)

    @property
    def function(self) -> Callable[[Index], Index]:
        return self.sampler.record_keys
