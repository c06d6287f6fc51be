"""Streams that users begin a pipeline with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from grain.iter_dataset import NodeIterDataset
from grain.ops.streaming import Generated, streamed


class GeneratorIterDataset(NodeIterDataset[Any]):
    """What `function()` yields. It is called again to resume, and what was read before is made again and passed over.

    With `takes_start` it is called with the number of elements to leave out, and need not make them.

    >>> def squares(start):
    ...     return (number**2 for number in range(start, 5))
    >>> iterator = iter(GeneratorIterDataset(squares, takes_start=True))
    >>> next(iterator), iterator.get_state(), list(iterator)
    (0, {'next_index': 1}, [1, 4, 9, 16])
    """

    def __init__(self, function: Callable[..., Iterable[Any]], *, takes_start: bool = False) -> None:
        if not callable(function):
            raise TypeError(
                f"Expected a function that returns an iterable, got {function!r}: an iterator can be read only once, "
                "so there would be no way to resume. Pass the generator function itself, without calling it."
            )
        super().__init__(streamed([Generated(function, takes_start)], "GeneratorIterDataset"))
