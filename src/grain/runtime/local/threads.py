"""The back end with threads: a plan run ahead of whoever asks for elements.

`pacing` decides how many threads there are, and whether any: at level 0 the consumer itself computes, inline.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any

from grain.graph.node import Context, Node
from grain.options import ReadOptions
from grain.plan.kinds import Boundary
from grain.runtime.local.chunks import Piece, Work, whole_groups
from grain.runtime.local.inline import InlineReader
from grain.runtime.local.lock_probe import Probe
from grain.runtime.local.pacing import NOTHING_LEARNED, Learned, Pacing, resized

SECONDS_TO_STOP = 1.0
"""How long `close` waits for a function that does not return."""
_DIRECT_CHUNKS = 8
"""After how many chunks to look at the clock where elements are passed on as they are."""

_learned: weakref.WeakKeyDictionary[Node, Learned] = weakref.WeakKeyDictionary()
"""By what is read: the node of a MapDataset lives longer than that of its stream, which each iterator makes."""


def _parts(inline: InlineReader, start: int) -> Iterator[Iterable[Any]]:
    """All elements from `start` on. Not a method: the reader that keeps them would be in a cycle."""
    first = inline.first(start) or ()
    yield first
    if isinstance(first, tuple):  # it came alone
        yield inline.rest(start + 1) or ()


def _stop(work: weakref.ref[Work]) -> None:
    """Stop work that threads are still doing; otherwise nobody knows it any more."""
    found = work()
    if found is not None:
        found.stop()


class ThreadReader:
    """Reads a boundary's elements ahead, with as many threads as help."""

    def __init__(self, boundary: Boundary, context: Context) -> None:
        self.context = context
        self._boundary, self._length = boundary, boundary.length
        self._options: ReadOptions = boundary.operator.read_options  # type: ignore[attr-defined]
        self._dataset: Node = boundary.operator.parents[0]
        learned = _learned.get(self._dataset, NOTHING_LEARNED)
        self._pacing = Pacing(self._options.num_threads, Probe, learned)
        self._pieces: deque[Piece] = deque()
        """What was taken and may not have been used up; the first one is being used."""
        self._inline = InlineReader(boundary, context)
        self._elements: Iterator[Any] = iter(())
        self._elements_at = -1
        """The index of the next of the inline elements."""
        self._resumes_at = 0
        self._fails_directly = False
        self._begin()
        self._direct_count = self._work.together

    def _begin(self) -> None:
        self._work = Work(self._boundary, self._options.prefetch_buffer_size)
        # Not the work itself: whoever is known to the registry of finalizers lives on, and with it users' functions.
        weakref.finalize(self, _stop, weakref.ref(self._work))

    def first(self, start: int) -> Iterable[Any] | None:
        """As `rest`."""
        return self.rest(start)

    def rest(self, start: int) -> Iterable[Any] | None:
        """The elements from `start` on, None where there are none. What lies ahead of `start` already is kept."""
        return chain.from_iterable(self._lists(start)) if start < self._length else None

    def _lists(self, start: int) -> Iterator[Iterable[Any]]:
        self._fails_directly, self._resumes_at = False, 0
        while start < self._length:
            while self._pieces and not self._pieces[0].has(start):
                self._pieces.popleft()
            if not self._pieces:
                if self._is_direct():
                    count = min(self._direct_count, self._length - start)
                    yield from self._passed_on(start, count)
                    start += count
                else:
                    self._pieces.extend(self._next_pieces(start))
                continue
            piece = self._pieces[0]
            yield piece.elements[start - piece.start :] if start > piece.start else piece.elements
            start = piece.start + len(piece.elements)
            if piece.error is not None:
                self._pieces.popleft()
                self._resumes_at = piece.stop
                error, piece.error = piece.error, None
                try:
                    raise error
                finally:
                    del error  # it knows this frame: they would keep each other alive
        self._remember()

    def _is_direct(self) -> bool:
        """Whether there is nothing to measure for the time being, and nothing to be had from threads."""
        return self._pacing.level == 0 and self._work.is_idle and self._pacing.is_resting(time.perf_counter())

    def _passed_on(self, start: int, count: int) -> Iterator[Iterable[Any]]:
        """`count` elements that are computed as they are used."""
        if start != self._elements_at:
            self._elements = chain.from_iterable(_parts(self._inline, start))
        self._elements_at, self._fails_directly = -1, True
        began = time.perf_counter()
        yield islice(self._elements, count)
        seconds = (time.perf_counter() - began) / _DIRECT_CHUNKS
        self._direct_count = whole_groups(resized(self._direct_count, count, seconds), self._work.together)
        self._elements_at, self._fails_directly = start + count, False

    def _next_pieces(self, start: int) -> list[Piece]:
        entered = time.perf_counter()
        self._mind_a_fork()
        work, pacing = self._work, self._pacing
        if pacing.level or not work.is_idle:
            work.go(start, pacing.level)
            chunk = work.take()
            if chunk is not None:
                left = time.perf_counter()
                pacing.took(chunk.stop - chunk.start, entered, left, ahead=work.ahead, is_full=work.is_full)
                return chunk.pieces
        was_busy = time.thread_time()
        piece = self._computed(start, min(work.size, self._length - start))
        busy, left = time.thread_time() - was_busy, time.perf_counter()
        count = piece.stop - start
        work.resize(count, left - entered)
        pacing.took(count, entered, left, busy=busy)
        return [piece]

    def _computed(self, start: int, count: int) -> Piece:
        """`count` elements, or fewer before one that fails, computed here and now."""
        piece = Piece(start)
        found = piece.elements
        try:
            if start != self._elements_at:
                self._elements = chain.from_iterable(_parts(self._inline, start))
            self._elements_at = -1
            found.extend(islice(self._elements, count))
            self._elements_at = piece.stop = start + count
        except Exception as error:
            piece.error, piece.stop = error, self._inline.after_failure(start + len(found))
        except BaseException:  # an interrupt is not put off, but what is there is kept
            piece.stop = start + len(found)
            self._pieces.append(piece)
            raise
        return piece

    def _mind_a_fork(self) -> None:
        if self._work.process != os.getpid():
            self._begin()

    def _remember(self) -> None:
        _learned[self._dataset] = self._pacing.learned

    def after_failure(self, index: int) -> int:
        """Where to go on when the element at `index` has failed: after it, or after all that was read with it."""
        return self._inline.after_failure(index) if self._fails_directly else max(index + 1, self._resumes_at)

    def start_prefetch(self, start: int) -> None:
        """Let threads fill the buffer."""
        self._mind_a_fork()
        if not (self._pieces and self._pieces[-1].stop > start):
            self._work.go(start, max(self._pacing.level, min(2, self._options.num_threads)), asked=0)

    def close(self) -> None:
        """Stop the threads; one whose function does not return is left behind."""
        self._remember()
        threads = self._work.stop()
        ends = time.monotonic() + SECONDS_TO_STOP
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, ends - time.monotonic()))
