"""Operators with several parents, on random access: mixing, concatenating, selecting, zipping."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

from grain.fields import brief
from grain.graph.node import MapNode
from grain.indices.selection import Concatenation, Renormalized, integer_weights, proportions
from grain.plan.kinds import Gather, Join
from grain.plan.picking import UsersChoice
from grain.transforms import DatasetSelectionMap

Stop: TypeAlias = Literal["first", "longest", "renormalize"]
"""What a mixture does when a dataset has ended."""


class Combining(MapNode):
    """An operator on several parents."""

    components: tuple[MapNode, ...]

    @property
    def parents(self) -> tuple[MapNode, ...]:
        return self.components

    def element_spec(self, *parents: Any) -> Any:
        return parents[0]

    def __str__(self) -> str:
        return f"MixedMapDataset[{len(self.components)} parents]"


class Mix(Combining):
    """Elements of all parents, in the proportions of their weights."""

    weights: tuple[int, ...]
    epoch_length: int

    @property
    def length(self) -> int:
        return self.epoch_length

    def lower(self, *parents: Any) -> Gather:
        return Gather(parents, proportions(self.weights))

    def __repr__(self) -> str:
        lengths = brief([parent.length for parent in self.components])
        selection = f"SelectionWithProportionsMap(proportions={brief(self.weights)}, length={self.length})"
        return f"MixedMapDataset(parent_lengths={lengths}, selection_map={selection})"

    def first_call(self, inputs: str) -> str:
        return f"MapDataset.mix([{inputs}], weights={brief(self.weights)})"


class MixOfAll(Combining):
    """Every element of all parents once, in the proportions of the weights of those that have some left."""

    selection: Renormalized

    def first_call(self, inputs: str) -> str:
        return f'MapDataset.mix([{inputs}], weights={brief(self.selection.weights)}, stop="renormalize")'

    @property
    def length(self) -> int:
        return self.selection.length

    def lower(self, *parents: Any) -> Gather:
        return Gather(parents, self.selection)


def mix(parents: Sequence[MapNode], weights: Sequence[float] | None, stop: Stop) -> Mix | MixOfAll:
    """A mixture that ends where `stop` says."""
    if not parents:
        raise ValueError("Cannot mix no datasets: `datasets` is empty.")
    integers = weights_of(len(parents), weights)
    empty = [f"{i} ({parent})" for i, parent in enumerate(parents) if not parent.length]
    if empty:
        raise ValueError(
            "All datasets must have positive length for mixing, but dataset(s) at index "
            f"{', '.join(empty)} have length 0."
        )
    check_stop(stop)
    if stop == "first":
        total = sum(integers)
        # In doubles and in just this form: lengths depend on the rounding.
        length = min(int(min(p.length / (w / total) for p, w in zip(parents, integers, strict=True))), sys.maxsize)
        return Mix(tuple(parents), integers, length)
    lengths = [parent.length for parent in parents]
    endless = [f"{i} ({parent})" for i, parent in enumerate(parents) if parent.length == sys.maxsize]
    if endless:
        raise ValueError(
            f"A mixture with {stop=} goes on until all datasets have ended, but dataset(s) at index "
            f"{', '.join(endless)} have no end."
        )
    if stop == "renormalize":
        return MixOfAll(tuple(parents), Renormalized(integers, lengths))
    return Mix(tuple(parents), integers, proportions(integers).smallest_count(lengths))


def check_stop(stop: Stop) -> None:
    """Refuse to end a mixture in an unknown way."""
    if stop not in get_args(Stop):
        raise ValueError(f'stop must be "first", "longest" or "renormalize", got {stop!r}.')


def weights_of(datasets: int, weights: Sequence[float] | None) -> tuple[int, ...]:
    """One weight, as an integer, for each of so many datasets."""
    if weights is None:
        return (1,) * datasets
    if len(weights) != datasets:
        raise AssertionError(
            f"mix needs one weight for each dataset, got {len(weights)} weights for {datasets} datasets."
        )
    return integer_weights(weights)


class Concatenate(Combining):
    """All of the first parent, then all of the second, and so on."""

    concatenation: Concatenation
    is_divisible = True

    @property
    def length(self) -> int:
        return self.concatenation.length

    def with_parents(self, *parents: Any) -> Concatenate:
        return concatenate(parents)

    def first_call(self, inputs: str) -> str:
        return f"MapDataset.concatenate([{inputs}])"

    def lower(self, *parents: Any) -> Gather:
        return Gather(parents, self.concatenation)


def concatenate(parents: Sequence[MapNode]) -> Concatenate:
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


def select(parents: Sequence[MapNode], selection_map: DatasetSelectionMap) -> Select:
    """Elements of `parents` as `selection_map` says."""
    return Select(tuple(parents), selection_map, len(selection_map))


class Zip(Combining):
    """Tuples of the elements that the parents have at the same index."""

    def first_call(self, inputs: str) -> str:
        return f"MapDataset.zip([{inputs}])"

    def lower(self, *parents: Any) -> Join:
        return Join(parents)

    def element_spec(self, *parents: Any) -> Any:
        return parents

    def __str__(self) -> str:
        return f"ZipMapDataset(parents={self.components})"


def zip_of(parents: Sequence[MapNode]) -> Zip:
    """`parents` side by side."""
    check_parents(parents)
    lengths = [parent.length for parent in parents]
    if len(set(lengths)) > 1:
        raise ValueError(f"All parents must have the same length. Got lengths {lengths}.")
    return Zip(tuple(parents))


def check_parents(parents: Sequence[Any]) -> None:
    """Refuse to combine nothing."""
    if not parents:
        raise ValueError("At least one parent must be provided.")
