"""Operators that change no element: seeds and options for the rest of a pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from grain.graph.naming import counted
from grain.graph.node import IterNode, MapNode, Node, Parent, Stateless
from grain.ops.passing_on import PassingOn
from grain.options import DatasetOptions
from grain.plan.kinds import Ahead


class MapSeed(MapNode):
    """A seed for the random operators that follow."""

    parent: MapNode
    seed: int | None
    is_divisible = True

    @property
    def parents(self) -> tuple[MapNode]:
        return (self.parent,)

    @property
    def carried_seed(self) -> int | None:
        return self.seed

    def lower(self, parent: Any) -> Any:
        return parent

    def element_spec(self, parent: Any) -> Any:
        return parent

    @property
    def call(self) -> str:
        return f"seed({self.seed})"

    def __str__(self) -> str:
        return "WithOptionsMapDataset"


class Transparent(PassingOn[Stateless]):
    """A stream operator that leaves elements and state alone."""

    is_one_to_one = True

    def placed(self, place: Any) -> Transparent:
        return self.with_parents(self.parent.placed(place))

    def run(self, state: Stateless, *parents: Parent) -> Iterator[Any]:
        return iter(parents[0])

    def get_next_index(self, state: Stateless, parent: Parent) -> int:
        return parent.get_next_index()

    def set_next_index(self, state: Stateless, parent: Parent, index: int) -> None:
        parent.set_next_index(index)


class IterSeed(Transparent):
    """A seed for the random operators that follow."""

    seed: int | None

    @property
    def carried_seed(self) -> int | None:
        return self.seed

    @property
    def iterator_name(self) -> str:
        return str(self.parent.iterator_name)

    @property
    def call(self) -> str:
        return f"seed({self.seed})"

    def __str__(self) -> str:
        return "WithOptionsIterDataset"


class WithOptions(Transparent):
    """Options for the whole pipeline, before and after."""

    options: DatasetOptions

    @property
    def carried_options(self) -> DatasetOptions | None:
        return self.options

    @property
    def iterator_name(self) -> str:
        return str(self.parent.iterator_name)

    @property
    def call(self) -> str:
        changed = sorted(self.options._user_set_fields)
        return f"with_options({', '.join(f'{name}={getattr(self.options, name)}' for name in changed)})"

    def __str__(self) -> str:
        return f"WithOptionsIterDataset(options={self.options})"


class ThreadPrefetch(Transparent):
    """Elements that a thread makes ahead of time."""

    prefetch_buffer_size: int

    def lower(self, *parents: Any) -> Ahead | None:
        return Ahead(self, parents[0], self.prefetch_buffer_size) if self.prefetch_buffer_size else None

    @property
    def inputs_run(self) -> str:
        count = self.prefetch_buffer_size
        return f"a thread, at most {counted(count, 'element')} ahead" if count else ""

    @property
    def held_back(self) -> str:
        count = self.prefetch_buffer_size
        return f"up to {counted(count, 'element')} read ahead" if count else ""

    def __str__(self) -> str:
        return f"ThreadPrefetchIterDataset(prefetch_buffer_size={self.prefetch_buffer_size})"


def thread_prefetch_node(parent: IterNode[Any] | None, prefetch_buffer_size: int) -> ThreadPrefetch:
    """`prefetch_buffer_size` elements of `parent` ahead; None: of an iterator that is not a pipeline's."""
    if prefetch_buffer_size < 0:
        raise ValueError(f"`prefetch_buffer_size` must be greater than or equal to 0, got {prefetch_buffer_size}")
    return ThreadPrefetch(parent, prefetch_buffer_size)


def seed_node(parent: Any, seed: int | None) -> Node:
    """`ds.seed(seed)`."""
    return (MapSeed if parent.is_random_access else IterSeed)(parent, seed)


def collected_options(last: Node) -> DatasetOptions:
    """The options of a pipeline: where several operators set one, the last of them wins."""
    options, waiting, seen = DatasetOptions(), [last], {id(last)}
    for current in waiting:  # grows while it is gone through: nearest first
        options = options.merge(current.carried_options)
        for parent in current.parents:
            if id(parent) not in seen:
                seen.add(id(parent))
                waiting.append(parent)
    return options
