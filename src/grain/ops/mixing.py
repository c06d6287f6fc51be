"""Mixing datasets in the proportions of weights, on random access and on streams."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from grain.errors import StateMismatchError, add_place
from grain.fields import Fields, brief
from grain.graph.naming import transform_name
from grain.graph.node import ABSENT, IterNode, MapNode, Parent, S, check, copied, required, saved_fields
from grain.indices.arithmetic import is_count
from grain.indices.selection import Proportions, Renormalized, integer_weights, proportions
from grain.ops.combining import Combining, Merging
from grain.plan.kinds import Gather

_LARGEST_BLOCK = 4096
_END, _NOTHING = object(), object()
Stop: TypeAlias = Literal["first", "longest", "renormalize"]
"""What a mixture does when a dataset has ended."""


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


def map_mix_node(parents: Sequence[MapNode], weights: Sequence[float] | None, stop: Stop) -> Mix | MixOfAll:
    """A mixture that ends where `stop` says."""
    if not parents:
        raise ValueError("Cannot mix no datasets: `datasets` is empty.")
    integers = _weights_of(len(parents), weights)
    empty = [f"{i} ({parent})" for i, parent in enumerate(parents) if not parent.length]
    if empty:
        raise ValueError(
            "All datasets must have positive length for mixing, but dataset(s) at index "
            f"{', '.join(empty)} have length 0."
        )
    _check_stop(stop)
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


class Mixing(Merging[S]):
    """Elements of all parents, in the proportions of their weights."""

    weights: tuple[int, ...]
    keys: tuple[Any, ...] | None
    """The names of the parents, where they were given as a mapping."""

    def save(self, state: S, parents: Sequence[Parent]) -> dict[str, Any]:
        """As the default, but with the parents in the container in which they were given."""
        own = {name: copied(getattr(state, name)) for name in saved_fields(state)}
        return {"parents": self._contained([parent.save() for parent in parents]), **own}

    def split(self, state: S, saved: Any) -> tuple[dict[str, Any], list[Any]]:
        """As the default; parents that were not there when it was saved get ABSENT."""
        fields = required(saved, ["parents", *saved_fields(state)], self)
        return fields, self._listed(fields.pop("parents"))

    def _contained(self, values: list[Any]) -> Any:
        return values if self.keys is None else dict(zip(self.keys, values, strict=True))

    def _listed(self, container: Any) -> list[Any]:
        kind = type(container)
        if kind is not (list if self.keys is None else dict):
            raise StateMismatchError(
                f"The state does not fit {self}: one is of a mapping of datasets, the other of a sequence. "
                "Restore it with the pipeline that saved it."
            )
        return container if self.keys is None else [container.get(key, ABSENT) for key in self.keys]

    @property
    def iterator_name(self) -> str:
        return f"MixedDatasetIterator([{len(self.components)} parents], proportions={self.weights})"

    def first_call(self, inputs: str) -> str:
        return f"IterDataset.mix([{inputs}], weights={brief(self.weights)})"

    def __str__(self) -> str:
        return f"MixedIterDataset([{len(self.components)} parents], proportions={list(self.weights)})"

    def element_spec(self, *parents: Any) -> Any:
        return parents[0]


class MixState(Fields):
    index: int = 0
    stop: bool = False


class IterMix(Mixing[MixState]):
    """A mixture that ends when a parent that is due has ended."""

    State = MixState

    def run(self, state: MixState, *parents: Parent) -> Iterator[Any]:
        if state.stop:
            return
        streams: dict[int, Iterator[Any]] = {}
        for component in _choices(proportions(self.weights), state.index):
            if component not in streams:
                streams[component] = iter(parents[component])
            try:
                element = next(streams[component])
            except StopIteration:
                state.index, state.stop = state.index + 1, True
                return
            except Exception as error:
                state.index += not parents[component].holds()  # where it holds a part of its element, that still comes
                error.add_note(f"Exception caught while processing dataset @ input_index={component}")
                raise
            state.index += 1
            yield element


class CountedMixState(Fields):
    index: int = 0
    """How many elements there were; with "renormalize" since the last parent has ended."""
    counts: Any = None
    """For each parent: how many elements it gave, what they cost, and whether it has ended."""


class CountedMix(Mixing[CountedMixState]):
    """A mixture that counts what it takes of each parent, and may go on when one has ended."""

    stop: Stop
    """With "first" it ends then; with "longest" that parent begins again, until all have ended, and one without
    elements is passed over; with "renormalize" the others go on."""
    cost_fn: Callable[[Any], Any] | None
    State = CountedMixState

    def fresh(self, *parents: Parent) -> CountedMixState:
        return CountedMixState(0, [_nothing() for _ in parents])

    def save(self, state: CountedMixState, parents: Sequence[Parent]) -> dict[str, Any]:
        saved = super().save(state, parents)
        return {**saved, "counts": self._contained(saved["counts"])}

    def load(self, state: CountedMixState, fields: dict[str, Any]) -> CountedMixState:
        counts = self._listed(fields["counts"])
        are_all = len(counts) == len(self.components) and all(map(_is_tally, counts))
        demand = f"counts must be elements, cost and ended of each of {len(self.components)} datasets"
        check(are_all, self, demand, fields["counts"])
        return CountedMixState(fields["index"], [_nothing() if count is ABSENT else count for count in counts])

    def run(self, state: CountedMixState, *parents: Parent) -> Iterator[Any]:
        counts = parents[0].context.counters.of(self.name)
        while there := self._there(state):
            for chosen in _choices(proportions(tuple(self.weights[component] for component in there)), state.index):
                component = there[chosen]
                element = self._next(state, parents, component)
                if element is _END:
                    break
                state.index += 1
                if element is _NOTHING:
                    continue
                counts["elements", str(self._key(component))] += 1
                yield element
            if self.stop != "renormalize":
                return
            state.index = 0

    def _there(self, state: CountedMixState) -> list[int]:
        """The components of which the mixture consists at present."""
        counts = enumerate(state.counts)
        return [component for component, count in counts if self.stop != "renormalize" or not count["ended"]]

    def _next(self, state: CountedMixState, parents: Sequence[Parent], component: int) -> Any:
        """The next element of a component, the end of it, or nothing where one begins again that has no elements."""
        count = state.counts[component]
        try:
            element = next(iter(parents[component]), _END)
            if element is _END:
                count["ended"] = True
                if self.stop != "longest" or all(count["ended"] for count in state.counts):
                    return _END
                if not count["elements"]:
                    return _NOTHING
                parents[component].reset(keeps_caches=True)
                element = next(iter(parents[component]), _NOTHING)
                if element is _NOTHING:
                    return element
            self._count(count, element)
        except Exception as error:
            error.add_note(f"Exception caught while processing dataset @ input_index={component}")
            raise
        return element

    def _count(self, count: dict[str, Any], element: Any) -> None:
        if self.cost_fn is not None:
            try:
                cost = self.cost_fn(element)
                cost = cost.item() if isinstance(cost, np.generic | np.ndarray) else cost
                if not isinstance(cost, int | float):
                    raise TypeError(f"A cost must be a number, because the state keeps the sum, got {cost!r}.")
            except Exception as error:
                add_place(error, f"{self} with cost_fn {transform_name(self.cost_fn)}", None)
                raise
            count["cost"] += cost
        count["elements"] += 1

    def _key(self, component: int) -> Any:
        return component if self.keys is None else self.keys[component]


def _is_tally(count: Any) -> bool:
    """Whether this is what was saved of one parent, or stands for one that was not there."""
    return count is ABSENT or (
        isinstance(count, dict)
        and count.keys() == _nothing().keys()
        and is_count(count["elements"])
        and isinstance(count["cost"], int | float)
        and count["ended"] in (0, 1)
    )


def _nothing() -> dict[str, Any]:
    return {"elements": 0, "cost": 0, "ended": False}


def mixture_counts(state: Any) -> list[Any]:
    """The counts of all mixtures that are in the state of a pipeline."""
    if isinstance(state, dict):
        own = [state["counts"]] if state.keys() == {"parents", "index", "counts"} else []
        return [*own, *(count for value in state.values() for count in mixture_counts(value))]
    return [count for value in state for count in mixture_counts(value)] if isinstance(state, list) else []


def _choices(proportions: Proportions, index: int) -> Iterator[int]:
    """The components of `index` and all after it; looked up in growing blocks."""
    size = 1
    while True:
        if size == 1:
            yield proportions.pick(index)[0]
        else:
            yield from proportions.pick_array(np.arange(index, index + size))[0].tolist()
        index, size = index + size, min(size * 8, _LARGEST_BLOCK)


def iter_mix_node(
    parents: Sequence[IterNode[Any]] | Mapping[Any, IterNode[Any]],
    weights: Sequence[float] | Mapping[Any, float] | None,
    stop: Stop,
    is_counted: bool,
    cost_fn: Callable[[Any], Any] | None,
) -> Mixing[Any]:
    """A mixture of streams; a mapping is taken in the order of its sorted keys."""
    keys = None
    if isinstance(parents, Mapping):
        keys = tuple(sorted(parents))
        if isinstance(weights, Mapping):
            if set(weights) != set(keys):
                raise ValueError(
                    f"The keys of `weights` must be those of `datasets`: {set(weights) ^ set(keys)} differ."
                )
            weights = [weights[key] for key in keys]
        parents = [parents[key] for key in keys]
    elif isinstance(weights, Mapping):
        raise ValueError("`weights` is a mapping but `datasets` is not: pass both as mappings or both as sequences.")
    if not parents:
        raise ValueError("Cannot mix no datasets: `datasets` is empty.")
    integers = _weights_of(len(parents), [1] * len(parents) if weights is None else weights)
    _check_stop(stop)
    if stop == "first" and not is_counted and cost_fn is None:
        return IterMix(tuple(parents), integers, keys)
    return CountedMix(tuple(parents), integers, keys, stop, cost_fn)


def _check_stop(stop: Stop) -> None:
    """Refuse to end a mixture in an unknown way."""
    if stop not in get_args(Stop):
        raise ValueError(f'stop must be "first", "longest" or "renormalize", got {stop!r}.')


def _weights_of(datasets: int, weights: Sequence[float] | None) -> tuple[int, ...]:
    """One weight, as an integer, for each of so many datasets."""
    if weights is None:
        return (1,) * datasets
    if len(weights) != datasets:
        raise AssertionError(
            f"mix needs one weight for each dataset, got {len(weights)} weights for {datasets} datasets."
        )
    return integer_weights(weights)
