"""Operators that change which index is read: shuffling, slicing, repeating."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from grain.fields import brief
from grain.graph.node import MapNode
from grain.graph.seeds import required_seed, shown_seed
from grain.indices.arithmetic import integer
from grain.indices.permutation import SEEDS
from grain.plan.index_steps import IndexStep, Lookup, Modulo, Permute, Stride, WindowPermute
from grain.plan.kinds import Gather
from grain.plan.picking import UsersTable


class Reordering(MapNode):
    """A node whose elements are those of its parent at other indices."""

    parent: MapNode

    @property
    def parents(self) -> tuple[MapNode]:
        return (self.parent,)

    def index_step(self) -> IndexStep:
        """index -> index in the parent."""
        raise NotImplementedError

    def lower(self, parent: Any) -> Any:
        return parent.then(self.index_step())

    def element_spec(self, parent: Any) -> Any:
        return parent


class Shuffle(Reordering):
    """All of the parent in a random order, another one in every epoch."""

    seed: int
    is_divisible = True

    def index_step(self) -> Permute:
        return Permute(self.parent.length, self.seed)

    @property
    def call(self) -> str:
        return f"shuffle({shown_seed(self.seed, self.parents)})"

    def __str__(self) -> str:
        return "ShuffleMapDataset"


def shuffle(parent: MapNode, seed: int | None) -> Shuffle:
    """Shuffle with `seed`, or the pipeline's."""
    seed = int(required_seed(seed, (parent,), "shuffle"))
    if not 0 <= seed < SEEDS:
        raise ValueError(f"Seed must be an integer between 0 and 2**32-1 (got seed={seed}).")
    return Shuffle(parent, seed)


class WindowShuffle(Reordering):
    """Each `window_size` consecutive elements in a random order."""

    window_size: int
    seed: int

    def index_step(self) -> WindowPermute:
        return WindowPermute(self.window_size, self.seed)

    @property
    def call(self) -> str:
        return f"window_shuffle({self.window_size}, seed={self.seed})"

    def __str__(self) -> str:
        return "WindowShuffleMapDataset"


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

    def index_step(self) -> Stride:
        return Stride(self.start, self.step, self.length, self.parent_length)

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
        lookup = Lookup(self.indices, self.parent_length)
        if isinstance(self.indices, np.ndarray | list | tuple | range):
            return parent.then(lookup)
        return Gather((parent,), UsersTable(lookup))

    @property
    def call(self) -> str:
        return f"slice({brief(self.indices)})"

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

    def index_step(self) -> Modulo:
        return Modulo(self.parent.length)

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
