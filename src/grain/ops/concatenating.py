"""Elements of several datasets, one dataset after the other or as a map of indices selects them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from grain.fields import brief
from grain.graph.node import MapNode
from grain.indices.selection import Concatenation
from grain.ops.combining import Combining
from grain.plan.kinds import Gather
from grain.plan.picking import UsersChoice
from grain.transforms import DatasetSelectionMap


class Concatenate(Combining):
    """All of the first parent, then all of the second, and so on."""

    concatenation: Concatenation
    is_divisible = True

    @property
    def length(self) -> int:
        return self.concatenation.length

    def with_parents(self, *parents: Any) -> Concatenate:
        return concatenate_node(parents)

    def first_call(self, inputs: str) -> str:
        return f"MapDataset.concatenate([{inputs}])"

    def lower(self, *parents: Any) -> Gather:
        return Gather(parents, self.concatenation)


def concatenate_node(parents: Sequence[MapNode]) -> Concatenate:
    """`parents` one after the other."""
    for parent in parents:
        if parent.length >= sys.maxsize:
            raise ValueError(f"Cannot concatenate infinite datasets. {parent} is infinite.")
    return Concatenate(tuple(parents), Concatenation([parent.length for parent in parents]))


class Select(Combining):
    """What a user's map of indices says."""

    selection_map: DatasetSelectionMap
    epoch_length: int

    @property
    def length(self) -> int:
        return self.epoch_length

    def first_call(self, inputs: str) -> str:
        return f"MapDataset.select_from_datasets([{inputs}], {brief(self.selection_map)})"

    def lower(self, *parents: Any) -> Gather:
        return Gather(parents, UsersChoice(self.selection_map))


def select_from_datasets_node(parents: Sequence[MapNode], selection_map: DatasetSelectionMap) -> Select:
    """Elements of `parents` as `selection_map` says."""
    return Select(tuple(parents), selection_map, len(selection_map))
