"""Several epochs as one, on random access and on streams."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from grain.fields import Fields
from grain.graph.node import IterNode, MapNode, Parent, check
from grain.indices.arithmetic import integer
from grain.ops.passing_on import PassingOn, Reordering
from grain.plan.index_steps import Modulo


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
        return map_repeat_node(parents[0], self.num_epochs, self.reseed_each_epoch)

    def index_step(self) -> Modulo:
        return Modulo(self.parent.length)

    def lower(self, parent: Any) -> Any:
        return parent if self.reseed_each_epoch else super().lower(parent)

    def __str__(self) -> str:
        return f"RepeatMapDataset(num_epochs={self.num_epochs})"


def map_repeat_node(parent: MapNode, num_epochs: int | None, reseed_each_epoch: bool) -> Repeat:
    """`num_epochs` epochs of `parent`; None: endlessly many."""
    num_epochs = _checked_epochs(num_epochs)
    if parent.length >= sys.maxsize:
        raise ValueError(f"Repeating already infinite dataset {parent} does nothing.")
    endless = sys.maxsize if parent.length else 0
    return Repeat(parent, num_epochs, reseed_each_epoch, endless if num_epochs is None else num_epochs * parent.length)


class RepeatState(Fields):
    epoch: int = 0


class IterRepeat(PassingOn[RepeatState]):
    """The same elements again, `num_epochs` times or for ever."""

    num_epochs: int | None
    State = RepeatState

    def load(self, state: RepeatState, fields: dict[str, Any]) -> RepeatState:
        most = self.num_epochs
        check(most is None or fields["epoch"] <= most, self, f"epoch must be at most {most}", fields["epoch"])
        return super().load(state, fields)

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


def iter_repeat_node(parent: IterNode[Any], num_epochs: int | None) -> IterRepeat:
    """`parent` again and again."""
    return IterRepeat(parent, _checked_epochs(num_epochs))


def _checked_epochs(num_epochs: int | None) -> int | None:
    """`num_epochs`, where it can be meant."""
    if num_epochs is None:
        return None
    num_epochs = integer("num_epochs", num_epochs)
    if num_epochs <= 0:
        raise ValueError(f"num_epochs must be positive, but got {num_epochs}.")
    return num_epochs
