"""Operators that make several elements of one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from grain.fields import Fields
from grain.graph.functions import Function
from grain.graph.naming import transform_name
from grain.graph.node import IterNode, MapNode, Node, Parent
from grain.indices.arithmetic import integer
from grain.indices.selection import FanOut
from grain.ops.transforming import Transforming
from grain.plan.element_steps import ElementStep
from grain.plan.index_steps import Divide, Unfold


class ItemOrNone(ElementStep):
    """One of at most `fan_out` items that a function makes of an element; None where there are fewer."""

    fan_out: int
    indexed = True

    @property
    def call(self) -> Callable[[Any, int], Any]:
        return self.item

    def item(self, element: Any, index: int) -> Any:
        """What stands at `index`, given the parent's element there."""
        items = self.function.call(element)
        if not isinstance(items, Sequence):
            items = list(items)
        if len(items) > self.fan_out:
            raise ValueError(
                "The user-provided FlatMapTransform has a split that exceeds specified max fan-out size. "
                f"{self.function.name} returned {len(items)} items, its max_fan_out is {self.fan_out}: "
                "raise max_fan_out, or return fewer."
            )
        place = index % self.fan_out
        return items[place] if place < len(items) else None


_END = object()


class MapFlatMap(Transforming, MapNode):
    """`max_fan_out` places for each element of the parent; what is not filled is None."""

    title = "FlatMapMapDataset"
    is_divisible = True
    may_drop = True

    @property
    def fan_out(self) -> int:
        return self.function.transform.max_fan_out  # type: ignore[no-any-return]

    @property
    def length(self) -> int:
        return min(int(self.parent.length) * self.fan_out, sys.maxsize)

    def lower(self, parent: Any) -> Any:
        return parent.then(Divide(self.fan_out), ItemOrNone(self.title, self.function, self.fan_out))

    def element_spec(self, parent: Any) -> Any:
        return Node.element_spec(self, parent)


class Item(ElementStep):
    """One of the items that a function makes of an element, of which a table says how many there are."""

    fan_out: FanOut
    indexed = True

    @property
    def call(self) -> Callable[[Any, int], Any]:
        return self.item

    def item(self, element: Any, index: int) -> Any:
        """What stands at `index`, given the parent's element there."""
        items = self.function.call(element)
        if not isinstance(items, Sequence | np.ndarray):
            items = list(items)
        place, count = self.fan_out.place(index)
        if len(items) != count:
            raise ValueError(
                f"{self.function.name} returned {len(items)} items for element "
                f"{self.fan_out.pick(index) % len(self.fan_out)}, for which fan_out says {count}: correct the table "
                "(shuffle after flat_map, not before), or call flat_map without it on an IterDataset."
            )
        return items[place]


class MapSplit(Transforming, MapNode):
    """The items made of each element, of which a table says how many there are."""

    fan_out: FanOut
    title = "FlatMapMapDataset"

    @property
    def length(self) -> int:
        return self.fan_out.length

    def lower(self, parent: Any) -> Any:
        return parent.then(Unfold(self.fan_out), Item(self.title, self.function, self.fan_out))

    def element_spec(self, parent: Any) -> Any:
        return Node.element_spec(self, parent)


class FlatMapState(Fields):
    parent: Any
    """Where the parent was before the element whose items are being handed out."""
    next_index_in_buffer: int = 0
    _items: Sequence[Any] = ()
    _has_ended: bool = False
    _has_failed: bool = False
    """Whether an error has come after `parent`, which has something half done."""


class IterFlatMap(Transforming, IterNode[FlatMapState]):
    """All items made of each element, one after the other."""

    title = "FlatMapIterDataset"
    parent_field = "parent"
    passed_field = "next_index_in_buffer"
    State = FlatMapState
    held_back = "the items of one element"

    def fresh(self, *parents: Parent) -> FlatMapState:
        return FlatMapState(parents[0].save())

    def run(self, state: FlatMapState, *parents: Parent) -> Iterator[Any]:
        (parent,) = parents
        elements, items = iter(parent), state._items
        while True:
            while state.next_index_in_buffer < len(items):
                state.next_index_in_buffer += 1
                yield items[state.next_index_in_buffer - 1]
            if not (parent.holds() or state._has_ended):
                state.parent, state._has_failed = parent.save(), False
            try:
                element = next(elements, _END)
                if element is _END:
                    if state._has_failed and not parent.holds():
                        state.parent, state.next_index_in_buffer, state._items = parent.save(), 0, ()
                    state._has_ended, state._has_failed = True, False
                    return
                items = self._expanded(element, parent)
            except Exception:
                state.next_index_in_buffer, state._items, state._has_failed = 0, (), parent.holds()
                if not state._has_failed:  # that element is passed over
                    state.parent = parent.save()
                raise
            state.next_index_in_buffer, state._items = 0, items

    def _expanded(self, element: Any, parent: Parent) -> Sequence[Any]:
        """The items of an element."""
        try:
            items: Sequence[Any] = self.function.call(element)
            len(items)
        except Exception as error:
            self.add_place(error, parent.element_index)
            raise
        return items

    def element_spec(self, parent: Any) -> Any:
        return Node.element_spec(self, parent)


def flat_map_node(parent: Any, transform: Any, fan_out: Any = None) -> Node:
    """`ds.flat_map(transform, fan_out=fan_out)`."""
    if fan_out is not None:
        return _map_split(parent, transform, fan_out)
    if not parent.is_random_access:
        return IterFlatMap(parent, Function(transform, "flat_map"))
    if integer("max_fan_out", transform.max_fan_out) <= 0:
        raise ValueError(f"max_fan_out must be positive, got {transform.max_fan_out} in {transform_name(transform)}.")
    return MapFlatMap(parent, Function(transform, "flat_map"))


def _map_split(parent: MapNode, transform: Any, counts: Any) -> MapSplit:
    fan_out = FanOut(counts)
    if len(fan_out) != parent.length:
        raise ValueError(
            f"fan_out has {len(fan_out)} entries, but the dataset, {parent}, has {parent.length} elements: it needs "
            "one for each of them."
        )
    return MapSplit(parent, Function(transform, "flat_map"), fan_out)
