"""Operators that change or drop single elements, on random access and on streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from grain.fields import Fields
from grain.graph.functions import Function
from grain.graph.node import IterNode, MapNode, Node, Parent, S, Stateless
from grain.graph.seeds import required_seed, shown_seed
from grain.indices.rng import RngPool
from grain.ops.sourcing import WINDOW, check_dropped
from grain.ops.transforming import Transforming
from grain.plan.element_steps import Apply, ApplyRandom, ApplyWithIndex, Keep


class MapMap(Transforming, MapNode):
    """A function of each element."""

    title = "MapMapDataset"
    is_divisible = True

    def lower(self, parent: Any) -> Any:
        return parent.then(Apply(self.title, self.function))


class MapMapWithIndex(Transforming, MapNode):
    """A function of each element and its index."""

    title = "MapWithIndexMapDataset"
    is_divisible = True

    def lower(self, parent: Any) -> Any:
        return parent.then(ApplyWithIndex(self.title, self.function))


class MapRandomMap(Transforming, MapNode):
    """A function of each element and a random generator of its own."""

    seed: int
    title = "RandomMapMapDataset"
    is_divisible = True

    @property
    def call(self) -> str:
        return random_call(self.function, self.seed, self.parents)

    def lower(self, parent: Any) -> Any:
        return parent.then(ApplyRandom(self.title, self.function, self.seed))


class MapFilter(Transforming, MapNode):
    """The elements for which a function is true; None in place of the others."""

    title = "FilterMapDataset"
    is_divisible = True
    may_drop = True

    def lower(self, parent: Any) -> Any:
        return parent.then(Keep(self.title, self.function))

    def element_spec(self, parent: Any) -> Any:
        return parent


class IterMap(Transforming, IterNode[Stateless]):
    """A function of each element."""

    title = "MapIterDataset"
    is_one_to_one = True
    maps_none: ClassVar[bool] = False
    """Whether the function gets elements that are None too."""

    def run(self, state: Stateless, *parents: Parent) -> Iterator[Any]:
        (parent,) = parents
        function, maps_none = self.function.call, self.maps_none
        for element in parent:
            if element is not None or maps_none:
                try:
                    element = function(element)
                except Exception as error:
                    self.add_place(error, parent.element_index)
                    raise
            yield element

    def get_next_index(self, state: Stateless, parent: Parent) -> int:
        return parent.get_next_index()

    def set_next_index(self, state: Stateless, parent: Parent, index: int) -> None:
        parent.set_next_index(index)


class _Counting(Transforming, IterNode[S]):
    """An operator whose function gets something that depends on how many elements there were before."""

    is_one_to_one = True
    counter: ClassVar[str]

    def caller(self, parent: Parent) -> Callable[[Any, int], Any]:
        """(element, number of elements before it) -> element."""
        raise NotImplementedError

    def run(self, state: S, *parents: Parent) -> Iterator[Any]:
        (parent,) = parents
        name, call = self.counter, self.caller(parent)
        for element in parent:
            count = getattr(state, name)
            setattr(state, name, count + 1)
            if element is not None:
                try:
                    element = call(element, count)
                except Exception as error:
                    self.add_place(error, parent.element_index)
                    raise
            yield element

    def get_next_index(self, state: S, parent: Parent) -> int:
        return int(getattr(state, self.counter))

    def set_next_index(self, state: S, parent: Parent, index: int) -> None:
        parent.set_next_index(index)
        setattr(state, self.counter, index)


class IndexState(Fields):
    counter: int = 0


class IterMapWithIndex(_Counting[IndexState]):
    """A function of each element and the number of those before it."""

    title = "MapWithIndexIterDataset"
    counter = "counter"
    State = IndexState

    def caller(self, parent: Parent) -> Callable[[Any, int], Any]:
        function = self.function.call
        return lambda element, count: function(count, element)


class RandomState(Fields):
    index_for_rng: int = 0


class IterRandomMap(_Counting[RandomState]):
    """A function of each element and a random generator of its own."""

    seed: int
    title = "RandomMapIterDataset"
    counter = "index_for_rng"
    State = RandomState

    @property
    def call(self) -> str:
        return random_call(self.function, self.seed, self.parents)

    def caller(self, parent: Parent) -> Callable[[Any, int], Any]:
        call = RngPool(self.seed).caller(self.function.call)
        worker, workers = parent.context.mp_context.process_index, parent.context.mp_context.process_count
        return call if workers == 1 else lambda element, count: call(element, worker + count * workers)


class FilterState(Fields):
    _seen: int = 0
    _dropped: int = 0


class IterFilter(Transforming, IterNode[FilterState]):
    """The elements for which a function is true."""

    title = "FilterIterDataset"
    State = FilterState

    def load(self, state: FilterState, fields: dict[str, Any]) -> FilterState:
        return state

    def again(self, state: FilterState, fresh: FilterState) -> FilterState:
        return state

    def run(self, state: FilterState, *parents: Parent) -> Iterator[Any]:
        (parent,) = parents
        function = self.function.call
        for element in parent:
            try:
                is_kept = function(element)
            except Exception as error:
                self.add_place(error, parent.element_index)
                raise
            state._seen += 1
            state._dropped += not is_kept
            if state._seen == WINDOW:
                dropped, state._seen, state._dropped = state._dropped, 0, 0
                check_dropped(dropped, self, parent.context)
            if is_kept:
                yield element

    def element_spec(self, parent: Any) -> Any:
        return parent


def random_call(function: Function, seed: int, parents: tuple[Node, ...]) -> str:
    """`random_map(...)`, as it was asked for."""
    return f"random_map({', '.join(filter(None, [function.name, shown_seed(seed, parents)]))})"


def map_node(parent: Node, transform: Any) -> Node:
    """`ds.map(transform)`."""
    return (MapMap if parent.is_random_access else IterMap)(parent, Function(transform, "map"))


def map_with_index_node(parent: Node, transform: Any) -> Node:
    """`ds.map_with_index(transform)`."""
    kind = MapMapWithIndex if parent.is_random_access else IterMapWithIndex
    return kind(parent, Function(transform, "map_with_index"))


def random_map_node(parent: Node, transform: Any, seed: int | None) -> Node:
    """`ds.random_map(transform, seed=seed)`."""
    seed = required_seed(seed, (parent,), "random_map")
    return (MapRandomMap if parent.is_random_access else IterRandomMap)(parent, Function(transform, "random_map"), seed)


def filter_node(parent: Node, transform: Any) -> Node:
    """`ds.filter(transform)`."""
    return (MapFilter if parent.is_random_access else IterFilter)(parent, Function(transform, "filter"))
