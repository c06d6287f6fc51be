"""Operators on the order of elements: all of them, or those within a window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from grain.fields import Fields
from grain.graph.node import MapNode, Node, Parent
from grain.graph.seeds import required_seed, shown_seed
from grain.indices.arithmetic import integer
from grain.indices.permutation import SEEDS, permuted_array
from grain.ops.passing_on import PassingOn, Reordering
from grain.plan.index_steps import Permute, WindowPermute


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


def shuffle_node(parent: MapNode, seed: int | None) -> Shuffle:
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


class WindowState(Fields):
    parent_window_start_state: Any
    window_index: int = 0
    pos_in_window: int = 0
    _window: Sequence[Any] = ()
    """The elements in the order in which they are handed out."""
    _next_start: Any = None
    """Where the parent was before the window that is being read."""
    _read: list[Any] | None = None
    """What has been read of it, once that is begun."""


class IterWindowShuffle(PassingOn[WindowState]):
    """Each `window_size` consecutive elements in a random order."""

    window_size: int
    seed: int
    parent_field = "parent_window_start_state"
    passed_field = "pos_in_window"
    State = WindowState

    def fresh(self, *parents: Parent) -> WindowState:
        return WindowState(parents[0].save())

    def holds(self, state: WindowState) -> bool:
        return state._read is not None

    def run(self, state: WindowState, *parents: Parent) -> Iterator[Any]:
        (parent,) = parents
        while True:
            window = state._window
            for position in range(state.pos_in_window, len(window)):
                state.pos_in_window = position + 1
                if position + 1 == len(window):
                    state.window_index += 1
                yield window[position]
            if not self._read_window(state, parent):
                return
            state.pos_in_window = 0

    def _read_window(self, state: WindowState, parent: Parent) -> bool:
        """Read the next window; False where there is none."""
        if state._read is None:
            state._next_start, state._read = parent.save(), []
        read = state._read
        read.extend(islice(iter(parent), self.window_size - len(read)))
        state._read, state._window = None, ()
        if not read:
            return False
        order = permuted_array(np.arange(len(read)), len(read), (self.seed + state.window_index) % SEEDS)[::-1]
        state._window = [read[place] for place in order.tolist()]
        state.parent_window_start_state = state._next_start
        return True

    @property
    def call(self) -> str:
        return f"window_shuffle({self.window_size}, seed={self.seed})"

    @property
    def held_back(self) -> str:
        return f"a window of up to {self.window_size} elements"

    def __str__(self) -> str:
        return "WindowShuffleIterDataset"


def window_shuffle_node(parent: Any, window_size: int, seed: int) -> Node:
    """`ds.window_shuffle(window_size, seed=seed)`."""
    window_size = integer("window_size", window_size)
    if window_size < 0:
        raise ValueError(f"window_size must not be negative, got {window_size}.")
    kind = WindowShuffle if parent.is_random_access else IterWindowShuffle
    return kind(parent, window_size, integer("seed", seed))
