"""Operators with several parents, on streams: mixing and zipping."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from grain.errors import StateMismatchError
from grain.fields import Fields
from grain.graph.node import ABSENT, IterNode, Parent, required
from grain.ops.combining import check_parents, check_weight_count
from grain.selection import Proportions, integer_weights, proportions

_LARGEST_BLOCK = 4096


class Merging(IterNode):
    """An operator on several streams."""

    components: tuple[IterNode, ...]

    @property
    def parents(self) -> tuple[IterNode, ...]:
        return self.components


class IterMix(Merging):
    """Elements of all parents, in the proportions of their weights, until one that is due has ended."""

    weights: tuple[int, ...]
    keys: tuple[Any, ...] | None
    """The names of the parents, where they were given as a mapping."""

    class State(Fields):
        index: int = 0
        stop: bool = False

    def run(self, state: Any, *parents: Parent) -> Iterator[Any]:
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
                state.index, state.stop = state.index + 1, True
                error.add_note(f"Exception caught while processing dataset @ input_index={component}")
                raise
            state.index += 1
            yield element

    def save(self, state: Any, parents: Sequence[Parent]) -> dict[str, Any]:
        """As the default, but with the parents in the container in which they were given."""
        saved = [parent.save() for parent in parents]
        container: Any = saved if self.keys is None else dict(zip(self.keys, saved, strict=True))
        return {"parents": container, "index": state.index, "stop": state.stop}

    def split(self, state: Any, saved: Any) -> tuple[dict[str, Any], list[Any]]:
        """As the default; parents that were not there when it was saved get None."""
        fields = required(saved, ["parents", "index", "stop"], self)
        container: Any = fields.pop("parents")
        kind = type(container)
        if kind is not (list if self.keys is None else dict):
            raise StateMismatchError(
                f"The state does not fit {self}: one is of a mapping of datasets, the other of a sequence. "
                "Restore it with the pipeline that saved it."
            )
        return fields, container if self.keys is None else [container.get(key, ABSENT) for key in self.keys]

    @property
    def iterator_name(self) -> str:
        return f"MixedDatasetIterator([{len(self.components)} parents], proportions={self.weights})"

    def __str__(self) -> str:
        return f"MixedIterDataset([{len(self.components)} parents], proportions={list(self.weights)})"

    def element_spec(self, *parents: Any) -> Any:
        return parents[0]


def _choices(proportions: Proportions, index: int) -> Iterator[int]:
    """The components of `index` and all after it; looked up in growing blocks."""
    size = 1
    while True:
        if size == 1:
            yield proportions.pick(index)[0]
        else:
            yield from proportions.pick_array(np.arange(index, index + size))[0].tolist()
        index, size = index + size, min(size * 8, _LARGEST_BLOCK)


def iter_mix(
    parents: Sequence[IterNode] | Mapping[Any, IterNode], weights: Sequence[float] | Mapping[Any, float] | None
) -> IterMix:
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
    integers = integer_weights([1] * len(parents) if weights is None else weights)
    check_weight_count(len(parents), len(integers))
    return IterMix(tuple(parents), integers, keys)


class IterZip(Merging):
    """Tuples of one element of each parent."""

    strict: bool

    class State(Fields):
        _elements: Any = ()
        """What an interrupt has left of a tuple: the first parents are one element ahead of the others."""

    def run(self, state: Any, *parents: Parent) -> Iterator[Any]:
        streams = [iter(parent) for parent in parents]
        while True:
            elements = state._elements = list(state._elements)
            error = None
            for position, stream in enumerate(streams[len(elements) :], len(elements)):
                try:
                    elements.append(next(stream))
                except StopIteration:
                    state._elements = ()
                    if error is not None:
                        raise error from None
                    if self.strict:
                        self._check_ends(position, streams)
                    return
                except Exception as caught:  # the other parents pass over their elements too
                    elements.append(None)
                    error = error or caught
            state._elements = ()
            if error is not None:
                raise error
            yield tuple(elements)

    def _check_ends(self, ended: int, streams: Sequence[Iterator[Any]]) -> None:
        """Complain unless all parents end where number `ended` has."""
        if ended:
            others = "argument 1" if ended == 1 else f"arguments 1-{ended}"
            raise ValueError(f"ZipIterDataset argument {ended + 1} is shorter than {others}.")
        for position, stream in enumerate(streams[1:], 1):
            for _ in stream:
                others = "argument 1" if position == 1 else f"arguments 1-{position}"
                raise ValueError(f"ZipIterDataset argument {position + 1} is longer than {others}.")

    def save(self, state: Any, parents: Sequence[Parent]) -> dict[str, Any]:
        """The states of all parents."""
        return {"parents": [parent.save() for parent in parents]}

    def split(self, state: Any, saved: Any) -> tuple[dict[str, Any], list[Any]]:
        """No fields, and the states of the parents."""
        above = required(saved, ["parents"], self)["parents"]
        if not isinstance(above, list) or len(above) != len(self.components):
            raise StateMismatchError(
                f"The state does not fit {self}: it has {above!r} for {len(self.components)} datasets. "
                "Restore it with the pipeline that saved it."
            )
        return {}, above

    def element_spec(self, *parents: Any) -> Any:
        return parents

    @property
    def iterator_name(self) -> str:
        return f"ZipDatasetIterator([{len(self.components)} parents])"

    def __str__(self) -> str:
        return f"ZipIterDataset(parents={self.components}, strict={self.strict})"


def iter_zip(parents: Sequence[IterNode], strict: bool) -> IterZip:
    """Streams side by side."""
    check_parents(parents)
    return IterZip(tuple(parents), strict)
