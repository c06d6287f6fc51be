"""Batches of elements that together cost no more than a limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from grain.elements.padding import Padding
from grain.elements.stacking import stacked
from grain.errors import add_place
from grain.fields import Fields
from grain.graph.naming import transform_name
from grain.graph.node import IterNode, Parent
from grain.ops.batching import BatchFunction, batch_spec


class Filling(Fields):
    """A batch that is being filled."""

    place: Any
    """Where the parent was after the first element."""
    values: list[Any]
    costliest: float
    total: float
    failed: int = 0
    """How many elements since then could not be read."""


class CostBatchState(Fields):
    parent: Any
    """Where the parent was after the first element of the batch that was handed out last."""
    passed: int = 0
    """How many elements were read for that batch after it."""
    _filling: Filling | None = None
    _first: tuple[Any, float] | None = None
    """The element with which the next batch begins, and its cost, where it has been read."""
    _is_collecting: bool = False


class CostBatch(IterNode[CostBatchState]):
    """As many consecutive elements as cost no more than `max_cost` together.

    A batch is complete when one more element has been read, with which the next one begins. To go on, at most the
    elements of one batch are read again. An element that fails is passed over; those of its batch before it are kept.
    """

    parent: Any
    max_cost: float
    cost_fn: Callable[[Any], float]
    batch_fn: BatchFunction | None
    is_padded: bool
    """Whether each element costs as much as the costliest of its batch."""
    parent_field = "parent"
    skipped_field = "passed"
    State = CostBatchState

    @property
    def parents(self) -> tuple[Any]:
        return (self.parent,)

    def fresh(self, *parents: Parent) -> CostBatchState:
        return CostBatchState(parents[0].save())

    def holds(self, state: CostBatchState) -> bool:
        return state._is_collecting

    def run(self, state: CostBatchState, *parents: Parent) -> Iterator[Any]:
        join = self.batch_fn or stacked
        while True:
            state._is_collecting = True
            values = self._collected(state, parents[0])
            state._is_collecting = False
            if not values:
                return
            try:
                batch = join(values)
            except Exception as error:
                function = "" if self.batch_fn is None else f" with batch_fn {transform_name(self.batch_fn)}"
                add_place(error, f"{self}{function}", None, self)
                raise
            yield batch

    def _collected(self, state: CostBatchState, parent: Parent) -> list[Any]:
        """The elements of the next batch; none at the end."""
        priced = self._priced(parent, iter(parent))
        filling = state._filling = state._filling or self._begun(state, parent, priced)
        if filling is None:
            return []
        values: list[Any] = filling.values
        try:
            for element, cost in priced:
                costliest, total = max(filling.costliest, cost), filling.total + cost
                if not (costliest * (len(values) + 1) if self.is_padded else total) <= self.max_cost:
                    state._first = element, cost
                    break
                values.append(element)
                filling.costliest, filling.total = costliest, total
        except Exception:
            filling.failed += 1
            raise
        state.parent, state.passed = filling.place, len(values) - 1 + filling.failed
        if state._first is None:
            state.parent, state.passed = parent.save(), 0
        state._filling = None
        return values

    def _begun(self, state: CostBatchState, parent: Parent, priced: Iterator[tuple[Any, float]]) -> Filling | None:
        """A batch with its first element; None at the end."""
        first, state._first = state._first, None
        try:
            first = first or next(priced, None)
            if first is not None:
                self._check_cost(first[1], parent)
        except Exception:
            if not parent.holds():
                state.parent, state.passed = parent.save(), 0
            raise
        return None if first is None else Filling(parent.save(), [first[0]], first[1], first[1])

    def _priced(self, parent: Parent, elements: Iterator[Any]) -> Iterator[tuple[Any, float]]:
        """Elements with their costs."""
        for element in elements:
            try:
                cost = self.cost_fn(element)
            except Exception as error:
                self._add_place(error, parent)
                raise
            yield element, cost

    def _check_cost(self, cost: Any, parent: Parent) -> None:
        if not cost <= self.max_cost:
            error = ValueError(
                f"An element costs {cost}, and a batch may cost no more than max_cost={self.max_cost}: raise max_cost, "
                "or crop such elements or filter them out before."
            )
            self._add_place(error, parent)
            raise error

    def _add_place(self, error: Exception, parent: Parent) -> None:
        add_place(error, f"{self} with cost_fn {transform_name(self.cost_fn)}", parent.element_index)

    def element_spec(self, parent: Any) -> Any:
        return batch_spec(parent, self.batch_fn, None, False)

    @property
    def call(self) -> str:
        return f"batch_by_cost({self.max_cost}, {transform_name(self.cost_fn)})"

    @property
    def held_back(self) -> str:
        return "the element with which the next batch begins"

    def __str__(self) -> str:
        return f"CostBatchIterDataset(max_cost={self.max_cost})"


def batch_by_cost_node(
    parent: IterNode[Any],
    max_cost: float,
    cost_fn: Callable[[Any], float],
    padding: Padding | None,
    batch_fn: BatchFunction | None,
) -> CostBatch:
    """`parent` in batches that cost no more than `max_cost`."""
    if not max_cost > 0:
        raise ValueError(f"max_cost must be positive, got {max_cost}.")
    if padding is not None and batch_fn is not None:
        raise ValueError(f"batch_by_cost joins elements with padding={padding} or with {batch_fn=}, not both.")
    return CostBatch(parent, max_cost, cost_fn, padding or batch_fn, padding is not None)
