"""The seam between streams and what reads their elements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from grain.graph.node import Context
from grain.plan.kinds import Boundary
from grain.runtime.inline import InlineReader


class Reader(Protocol):
    """Reads the elements of a random access plan in the order of their indices.

    1. `elements(start)` gives one element for each index from `start` to the last, None where there is none.
    2. An element's functions run when it, or the batch it is in, is asked for; a back end that prefetches may run at
       most its buffer ahead.
    3. An exception of a user's function is raised in place of its element; `after_failure` says where to go on, and
       `elements` may then be called again.
    4. `close` may be called at any time, and twice.
    """

    context: Context

    def elements(self, start: int) -> Iterator[Any]: ...

    def after_failure(self, index: int) -> int: ...

    def start_prefetch(self, start: int) -> None: ...

    def close(self) -> None: ...


def reader_of(boundary: Boundary, context: Context) -> Reader:
    """The reader that the boundary's options ask for."""
    return InlineReader(boundary, context)
