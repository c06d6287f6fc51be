"""The element steps of a plan at work, on one element or on many.

1. Steps are applied from the origin up. An element that is None stays None: no function is called with it.
2. What a step that keeps says is taken for true or false; where it is false, the element becomes None.
3. The function of an indexed step gets the index at which its element stands there.
4. An exception gets a note with the operator, and the index at which the element stands there.

The loops differ in speed alone: `general` can do all of it, the others only what is most common.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import length_hint
from typing import Any, TypeAlias

from grain.indices.arithmetic import IndexArray
from grain.plan.index_steps import IndexStep
from grain.plan.kinds import Call, RandomAccess

Blame: TypeAlias = Callable[[Exception, int, int], None]
"""Notes on an error: (error, number of the step, position of the element)."""
Loop: TypeAlias = Callable[[Iterator[Any], int, Sequence[Call], list[list[int]], Blame], Iterator[Any]]
"""(elements of the origin, position of the first, calls, positions' indices for each indexed call, blame)."""


def one(plan: RandomAccess, element: Any, index: Any, indices: list[Any]) -> Any:
    """What the steps of `plan` make of one element of its origin; `indices`: those of indexed steps, last one first."""
    waiting = iter(plan.calls)
    try:
        for call, indexed, keeps in waiting:
            if element is None:
                return None
            if keeps:
                if not call(element):
                    return None
            else:
                element = call(element, indices.pop()) if indexed else call(element)
    except Exception as error:
        add_place(error, plan, len(plan.calls) - 1 - length_hint(waiting), index)
        raise
    return element


def add_place(error: Exception, plan: RandomAccess, failed: int, index: Any) -> None:
    """Name element step `failed` in a note, and the index of the element there, which is `index` at the top."""
    number = len(plan.calls)
    for step in reversed(plan.steps):
        if isinstance(step, IndexStep):
            index = step(index)
        else:
            number -= 1
            if number == failed:
                step.add_place(error, index)
                return


def loop_of(calls: Sequence[Call]) -> Loop:
    """The fastest loop for `calls`."""
    functions = [call for call, indexed, keeps in calls if not indexed and not keeps]
    if len(functions) == len(calls) == len(set(map(id, functions))):
        return mapped
    return filtered if len(calls) == 1 and calls[0][2] else general


def general(
    origin: Iterator[Any], position: int, calls: Sequence[Call], indices: list[list[int]], blame: Blame
) -> Iterator[Any]:
    """All steps, whatever they are."""
    listed = iter(indices)
    steps = [(call, next(listed) if indexed else None, keeps) for call, indexed, keeps in calls]
    for element in origin:
        waiting = iter(steps)
        try:
            for call, places, keeps in waiting:
                if element is None:
                    break
                if keeps:
                    if not call(element):
                        element = None
                else:
                    element = call(element) if places is None else call(element, places[position])
        except Exception as error:
            blame(error, len(steps) - 1 - length_hint(waiting), position)
            raise
        yield element
        position += 1


def mapped(
    origin: Iterator[Any], position: int, calls: Sequence[Call], indices: list[list[int]], blame: Blame
) -> Iterator[Any]:
    """As `general`, for what is most common: functions of the element alone, all different."""
    functions = [call for call, _, _ in calls]
    for element in origin:
        try:
            for function in functions:
                if element is None:
                    break
                element = function(element)
        except Exception as error:
            blame(error, [id(other) for other in functions].index(id(function)), position)
            raise
        yield element
        position += 1


def filtered(
    origin: Iterator[Any], position: int, calls: Sequence[Call], indices: list[list[int]], blame: Blame
) -> Iterator[Any]:
    """As `general`, for a filter alone."""
    ((keeps, _, _),) = calls
    for element in origin:
        try:
            if element is not None and not keeps(element):
                element = None
        except Exception as error:
            blame(error, 0, position)
            raise
        yield element
        position += 1


class ElementSteps:
    """The element steps of a plan, for the elements at an array of indices."""

    def __init__(self, plan: RandomAccess, top: IndexArray, indices: list[list[int]]) -> None:
        """`top`: the indices asked for; `indices`: those at each indexed step, from the origin up."""
        self._plan, self._top, self._indices = plan, top, indices
        self._loop = loop_of(plan.calls)

    def made(self, origin: Iterator[Any], position: int) -> Iterator[Any]:
        """What they make of the elements that `origin` gives from `position` on."""
        return self._loop(origin, position, self._plan.calls, self._indices, self._blame)

    def _blame(self, error: Exception, failed: int, position: int) -> None:
        add_place(error, self._plan, failed, int(self._top[position]))
