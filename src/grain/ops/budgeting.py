"""Batches of elements that together cost no more than a limit."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from grain.errors import add_place
from grain.fields import Fields
from grain.graph.naming import transform_name
from grain.graph.node import IterNode, Parent
from grain.ops.batching import BatchFunction, batch_spec
from grain.padding import Padding
from grain.stacking import stacked


class CostBatch(IterNode):
    """As many consecutive elements as cost no more than `max_cost` together.

    A batch is complete when one more element has been read, with which the next one begins. To go on, at most the
    elements of one batch are read again.
    """

    parent: Any
    max_cost: float
    cost_fn: Callable[[Any], float]
    batch_fn: BatchFunction | None
    is_padded: bool
    """Whether each element costs as much as the costliest of its batch."""
    parent_field = "parent"

    class State(Fields):
        parent: Any
        """Where the parent was after the first element of the batch that was handed out last."""
        passed: int = 0
        """How many elements of that batch came after it."""
        _first: Any = None
        """The element with which the next batch begins, and its cost, where it has been read."""
        _read_again: int | None = None
        """How many of those that came after it have been read again; None: the parent is elsewhere."""

    @property
    def parents(self) -> tuple[Any]:
        return (self.parent,)

    def fresh(self, *parents: Parent) -> Any:
        return self.State(parents[0].save(), _read_again=0)

    def run(self, state: Any, parent: Parent) -> Iterator[Any]:
        if state._read_again is None:
            parent.restore(state.parent)
            state._read_again = 0
        while state._first is None and state._read_again < state.passed:
            state._read_again += 1
            with contextlib.suppress(Exception):  # it has been handed out: whether it fails now does not matter
                next(iter(parent), None)
        elements = iter(parent)
        join = self.batch_fn or stacked
        while True:
            try:
                values = self._collected(state, parent, elements)
            except Exception:
                state.parent, state.passed, state._first = parent.save(), 0, None
                raise
            except BaseException:  # an interrupt: what has been collected is read again
                state._first = state._read_again = None
                raise
            if not values:
                return
            try:
                batch = join(values)
            except Exception as error:
                function = "" if self.batch_fn is None else f" with batch_fn {transform_name(self.batch_fn)}"
                add_place(error, f"{self}{function}", None)
                raise
            yield batch

    def _collected(self, state: Any, parent: Parent, elements: Iterator[Any]) -> list[Any]:
        """The elements of the next batch; none at the end."""
        following = state._first or self._priced(parent, elements)
        if following is None:
            return []
        element, cost = following
        self._check_cost(cost, parent)
        place, values, costliest, total = parent.save(), [element], cost, cost
        while (following := self._priced(parent, elements)) is not None:
            element, cost = following
            costliest, total = max(costliest, cost), total + cost
            together = costliest * (len(values) + 1) if self.is_padded else total
            if not together <= self.max_cost:
                break
            values.append(element)
        if following is None:
            state.parent, state.passed = parent.save(), 0
        else:
            state.parent, state.passed = place, len(values) - 1
        state._first = following
        return values

    def _priced(self, parent: Parent, elements: Iterator[Any]) -> tuple[Any, Any] | None:
        """The next element and its cost; None at the end."""
        for element in elements:
            try:
                return element, self.cost_fn(element)
            except Exception as error:
                self._add_place(error, parent)
                raise
        return None

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

    def __str__(self) -> str:
        return f"CostBatchIterDataset(max_cost={self.max_cost})"


def batch_by_cost(
    parent: IterNode,
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
