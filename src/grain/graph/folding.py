"""Going through what is built upon each other, however high it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def folded(top: Any, inputs: Callable[[Any], Sequence[Any]], combine: Callable[[Any, list[Any]], Any]) -> Any:
    """What `combine` makes of `top` and of what it has made of its inputs; of one that is used several times, once.

    >>> folded(3, lambda n: [n - 1] * 2 if n else [], lambda n, below: 1 + sum(below))
    15
    """
    below: dict[int, Sequence[Any]] = {}
    made: dict[int, tuple[Any, Any]] = {}  # with the thing itself: an id is its own only while it lives
    waiting = [top]
    while waiting:
        each = waiting[-1]
        if id(each) in made:
            waiting.pop()
        elif id(each) not in below:
            below[id(each)] = found = inputs(each)
            waiting.extend(reversed(found))
        else:
            waiting.pop()
            made[id(each)] = each, combine(each, [made[id(one)][1] for one in below[id(each)]])
    return made[id(top)][1]
