"""The seam between streams and what reads their elements."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from grain.graph.node import Context
from grain.options import ReadOptions
from grain.plan.kinds import Boundary
from grain.runtime.local.inline import InlineReader


class Reader(Protocol):
    """Reads the elements of a random access plan in the order of their indices.

    1. `first(start)` and `rest(start)` give one element for each index from `start` on, None where there is none.
       `first` is asked after going to a place and may stop early; `rest` goes to the last, and is None after that.
    2. An element's functions run when it, or the batch it is in, is asked for; a back end that prefetches may run at
       most its buffer ahead.
    3. An exception of a user's function is raised in place of its element; `after_failure` says where to go on, and
       `first` may then be called again. What was computed ahead of it is kept.
    4. An interrupt of the consumer loses nothing: `first` goes on from the last position.
    5. `first` may be called for any index. What was computed ahead is dropped, unless the index lies within it.
    6. `start_prefetch` begins to compute ahead, where a back end does so, before the first element is asked for.
    7. `close` may be called at any time, from any thread, and twice. Threads end with it, with the last element, or
       when the reader is forgotten; a function that never returns keeps only its own thread, and does not hold up the
       interpreter's exit.
    8. In a forked child a reader goes on by itself, from where it was.
    9. Whoever waits long for an element is told which one it is, and in what function.
    """

    context: Context

    def first(self, start: int) -> Iterable[Any] | None: ...

    def rest(self, start: int) -> Iterable[Any] | None: ...

    def after_failure(self, index: int) -> int: ...

    def start_prefetch(self, start: int) -> None: ...

    def close(self) -> None: ...


def reader_of(boundary: Boundary, context: Context) -> Reader:
    """The reader that the boundary's options ask for."""
    options: ReadOptions = boundary.operator.read_options  # type: ignore[attr-defined]
    if options.num_threads and options.prefetch_buffer_size:
        from grain.runtime.local.threads import ThreadReader  # only now: `import grain` is to be fast

        return ThreadReader(boundary, context)
    return InlineReader(boundary, context)
