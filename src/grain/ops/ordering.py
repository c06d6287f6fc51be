"""Operators that change which index is read: shuffling, slicing, repeating."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from grain.graph.node import MapNode
from grain.graph.seeds import required_seed
from grain.indices.arithmetic import divided, exact, integer
from grain.indices.permutation import permuted, permuted_by_part, shuffled
from grain.plan.kinds import Gather, IndexStep, ShuffleStep

_SEEDS = 2**32


Index = Any
"""An int, or an array of them."""


class Reordering(MapNode):
    """A node whose elements are those of its parent at other indices."""

    parent: MapNode

    @property
    def parents(self) -> tuple[MapNode]:
        return (self.parent,)

    def index_function(self) -> Callable[[Index], Index]:
        """index -> index in the parent."""
        raise NotImplementedError

    def lower(self, parent: Any) -> Any:
        return parent.then(IndexStep(self.index_function()))

    def element_spec(self, parent: Any) -> Any:
        return parent


class Shuffle(Reordering):
    """All of the parent in a random order, another one in every epoch."""

    seed: int
    is_divisible = True

    def lower(self, parent: Any) -> Any:
        length = self.parent.length
        return parent.then(ShuffleStep(functools.partial(shuffled, self.seed, length), length, self.seed))

    def __str__(self) -> str:
        return "ShuffleMapDataset"


def shuffle(parent: MapNode, seed: int | None) -> Shuffle:
    """Shuffle with `seed`, or the pipeline's."""
    seed = int(required_seed(seed, (parent,), "shuffle"))
    if not 0 <= seed < _SEEDS:
        raise ValueError(f"Seed must be an integer between 0 and 2**32-1 (got seed={seed}).")
    return Shuffle(parent, seed)


class WindowShuffle(Reordering):
    """Each `window_size` consecutive elements in a random order."""

    window_size: int
    seed: int

    def index_function(self) -> Callable[[Index], Index]:
        return functools.partial(_window_shuffled, self.seed, self.window_size)

    def __str__(self) -> str:
        return "WindowShuffleMapDataset"


def _window_shuffled(seed: int, size: int, index: Index) -> Index:
    window, place = divided(exact(index, 1, size), size)
    if not isinstance(index, np.ndarray):
        return window * size + permuted(int(place), size, int(seed + window) % _SEEDS)
    return window * size + permuted_by_part(window, place, size, seed)


def window_shuffle(parent: MapNode, window_size: int, seed: int) -> WindowShuffle:
    """Shuffle `parent` within windows."""
    return WindowShuffle(parent, checked_window(window_size), integer("seed", seed))


def checked_window(window_size: int) -> int:
    """`window_size`, where windows can have it."""
    window_size = integer("window_size", window_size)
    if window_size < 0:
        raise ValueError(f"window_size must not be negative, got {window_size}.")
    return window_size


class Slice(Reordering):
    """Every `step`-th element from `start` to `stop`, in each epoch."""

    start: int
    stop: int
    step: int
    parent_length: int

    @property
    def length(self) -> int:
        return len(range(self.start, self.stop, self.step))

    def index_function(self) -> Callable[[Index], Index]:
        start, step, length, parent_length = self.start, self.step, self.length, self.parent_length
        growth = parent_length // max(length, 1) + 1

        def sliced(index: Index) -> Index:
            epoch, place = divided(exact(index, growth, 2 * parent_length), length)
            return start + place * step + epoch * parent_length

        return sliced

    def __str__(self) -> str:
        return f"SliceMapDataset[{self.start}:{self.stop}:{self.step}]"


def slice_of(parent: MapNode, sl: slice) -> Slice:
    """The slice `sl` of one epoch of `parent`."""
    if not isinstance(sl, slice):
        raise ValueError(f"sl is not a slice: {type(sl)}")
    return Slice(parent, *sl.indices(parent.length), parent_length=parent.length)


class Reindex(Reordering):
    """The elements at given indices, in their order."""

    indices: Sequence[int]
    parent_length: int

    @property
    def length(self) -> int:
        return len(self.indices)

    def lower(self, parent: Any) -> Any:
        if isinstance(self.indices, np.ndarray | list | tuple | range):
            return parent.then(IndexStep(self._chosen))
        # Anything else may run users' code, which is not done ahead.
        return Gather((parent,), lambda index: (0, self._chosen(index)), None)

    def _chosen(self, index: Index) -> Index:
        growth = self.parent_length // max(len(self.indices), 1) + 1
        epoch, place = divided(exact(index, growth, 2 * self.parent_length), len(self.indices))
        if not isinstance(index, np.ndarray):
            return int(self.indices[place]) + epoch * self.parent_length  # an array gives NumPy's ints
        if isinstance(self.indices, np.ndarray):
            chosen = self.indices[place.astype(np.int64)]
        else:
            chosen = np.array([self.indices[position] for position in place.tolist()])
        return chosen + epoch * self.parent_length

    def __str__(self) -> str:
        count = len(self.indices)
        shown = (
            str(self.indices)
            if count <= 5
            else f"[{self.indices[0]}, {self.indices[1]}, ..., {self.indices[count - 2]}, {self.indices[count - 1]}]"
        )
        return f"ReindexMapDataset(indices={shown}, len={count})"


def reindex(parent: MapNode, indices: Sequence[int]) -> Reindex:
    """The elements of `parent` at `indices`."""
    if not hasattr(indices, "__len__") or not hasattr(indices, "__getitem__"):
        raise ValueError(f"sl is not a slice: {type(indices)}. Pass a slice, or a sequence of indices.")
    return Reindex(parent, indices, parent.length)


class Repeat(Reordering):
    """Several epochs of the parent, or endlessly many, as one."""

    num_epochs: int | None
    reseed_each_epoch: bool
    epoch_length: int
    is_divisible = True

    @property
    def length(self) -> int:
        return self.epoch_length

    def with_parents(self, *parents: Any) -> Repeat:
        return repeat(parents[0], self.num_epochs, self.reseed_each_epoch)

    def index_function(self) -> Callable[[Index], Index]:
        length = self.parent.length
        return lambda index: index % length

    def lower(self, parent: Any) -> Any:
        return parent if self.reseed_each_epoch else super().lower(parent)

    def __str__(self) -> str:
        return f"RepeatMapDataset(num_epochs={self.num_epochs})"


def repeat(parent: MapNode, num_epochs: int | None, reseed_each_epoch: bool) -> Repeat:
    """`num_epochs` epochs of `parent`; None: endlessly many."""
    num_epochs = checked_epochs(num_epochs)
    if parent.length >= sys.maxsize:
        raise ValueError(f"Repeating already infinite dataset {parent} does nothing.")
    endless = sys.maxsize if parent.length else 0
    return Repeat(parent, num_epochs, reseed_each_epoch, endless if num_epochs is None else num_epochs * parent.length)


def checked_epochs(num_epochs: int | None) -> int | None:
    """`num_epochs`, where it can be meant."""
    if num_epochs is None:
        return None
    num_epochs = integer("num_epochs", num_epochs)
    if num_epochs <= 0:
        raise ValueError(f"num_epochs must be positive, but got {num_epochs}.")
    return num_epochs
