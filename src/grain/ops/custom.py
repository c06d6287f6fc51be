"""Users' own datasets as nodes: a source of the plan, or a stream that keeps its own state."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from grain.graph.node import IterNode, MapNode, Node
from grain.graph.parts import Part
from grain.ops.sourcing import to_iter_dataset_node
from grain.plan.kinds import Custom, Read
from grain.plan.reads import Items


class CustomMap(MapNode):
    """A user's subclass of MapDataset: asked for every index as it is."""

    dataset: Any
    is_opaque = True

    @property
    def parents(self) -> tuple[Node, ...]:
        return _parents_of(self.dataset)

    @property
    def length(self) -> int:
        return len(self.dataset)

    def lower(self, *parents: Any) -> Read:
        return Read(Items(self.dataset))

    def first_call(self, inputs: str) -> str:
        return f"{self}({inputs})"

    def __str__(self) -> str:
        return type(self.dataset).__name__


class CustomIter(IterNode[None]):
    """A user's subclass of IterDataset: its iterator is run as it is."""

    dataset: Any
    is_opaque = True

    @property
    def parents(self) -> tuple[Node, ...]:
        return _parents_of(self.dataset)

    def with_parents(self, *parents: Node) -> CustomIter:
        dataset = copy.copy(self.dataset)
        dataset._parents = tuple(
            node.dataset if isinstance(node, CustomMap | CustomIter) else before._derived(node)
            for before, node in zip(self.dataset._parents, parents, strict=True)
        )
        return CustomIter(dataset)

    def own_part(self, part: Part) -> CustomIter | None:
        if not hasattr(self.dataset, "set_slice"):
            return None
        dataset = copy.copy(self.dataset)
        dataset.set_slice(part.stride, part.is_sequential)
        return CustomIter(dataset)

    def lower(self, *parents: Any) -> Custom:
        return Custom(self)

    def open(self) -> Iterator[Any]:
        """A new iterator of the user's."""
        iterator: Iterator[Any] = self.dataset.__iter__()
        if not hasattr(iterator, "get_state") or not hasattr(iterator, "set_state"):
            raise TypeError(
                f"{self}.__iter__ must return a DatasetIterator, which has get_state and set_state; "
                f"got {type(iterator).__name__}."
            )
        return iterator

    @property
    def held_back(self) -> str:
        return "whatever its iterator keeps"

    def first_call(self, inputs: str) -> str:
        return f"{self}({inputs})"

    def __str__(self) -> str:
        return type(self.dataset).__name__


def node_of(dataset: Any) -> Any:
    """The node of a dataset, or a node itself; users' classes that were never initialised are welcome."""
    if isinstance(dataset, Node):
        return dataset
    try:
        if dataset._wraps_node:
            return dataset._node
        return (CustomMap if dataset._is_random_access else CustomIter)(dataset)
    except AttributeError:
        raise TypeError(
            f"Expected a MapDataset or an IterDataset, got {dataset!r} ({type(dataset).__name__})."
        ) from None


def map_node_of(dataset: Any) -> Any:
    """The node of a MapDataset."""
    held = node_of(dataset)
    if not held.is_random_access:
        raise TypeError(f"Expected a MapDataset, got {held}: a stream has no random access.")
    return held


def iter_node_of(dataset: Any) -> Any:
    """The node of an IterDataset, or of the stream of a MapDataset."""
    held = node_of(dataset)
    return to_iter_dataset_node(held) if held.is_random_access else held


def _parents_of(dataset: Any) -> tuple[Node, ...]:
    return tuple(node_of(parent) for parent in getattr(dataset, "_parents", ()))
