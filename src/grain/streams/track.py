"""Where a cursor is: an anchor, what has come since, and how to get there again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import islice, repeat
from time import perf_counter
from types import GeneratorType
from typing import Any, TypeAlias

from grain.graph.node import copied
from grain.graph.positions import anchored, split_anchored
from grain.observe.counters import Counts
from grain.streams.stream import Stream

Generated: TypeAlias = "GeneratorType[Any, None, None]"

ANCHOR_SECONDS = 0.03
"""How much work may have to be done again."""
_LARGEST_PIECE = 1 << 14
_COST = 0.01
"""The share of the time that may be spent on new anchors."""
_NO_COUNTS: Counts = {}


class Track:
    """What a cursor and its generator share. It does not know the cursor, which would be a cycle."""

    def __init__(self, stream: Stream, position: Any) -> None:
        self.stream = stream
        self.is_lost = False
        """Whether the stream is somewhere else: an interrupt has left it there."""
        self._was_interrupted = False
        self.source: Generated | None = None
        """What the stream runs in, from the first element on."""
        self.ticks = repeat(True, sys.maxsize)
        """Takes part in handing out elements, and so counts them, downwards."""
        self.left: Callable[[], int] = self.ticks.__length_hint__
        """How many ticks are left: one less with each element that leaves the stream, for good."""
        self._anchor: tuple[Any, int, Counts]
        """A saved position (None: the start), how many ticks were left there, and what had been counted."""
        self._errors: tuple[int, int]
        """How many ticks were left when errors came last, and how many came."""
        self.is_settled: bool
        """Whether no error has left anything half done."""
        self.restored(*split_anchored(position))
        self._goal = ANCHOR_SECONDS

    def pieces(self) -> Any:
        """The stream in pieces, from where the cursor is; between them there is time to look after the anchor."""
        self.return_if_lost()
        self.source = source = _generator(self.stream)
        before, size, renewed = self.left(), 1, perf_counter()
        while True:
            began = perf_counter()
            yield islice(source, size)
            if source.gi_frame is None:
                if self.left() == before or not self._was_interrupted or self._is_at_end():
                    return
                self.is_lost = True  # interrupts came so close upon each other that one of them was not handled
                self.return_if_lost()
                self.source = source = _generator(self.stream)
                before = self.left()
                continue
            now = perf_counter()
            if 4 * (now - began) < self._goal:
                size = min(4 * size, _LARGEST_PIECE)
            elif now - began > self._goal:
                size = max(1, size // 4)
            if now - renewed >= self._goal or not self.is_settled:
                self._renew(now)
                renewed = now

    def _is_at_end(self) -> bool:
        """Whether the stream, asked once more, has no element."""
        self.source = source = _generator(self.stream)
        for _ in source:
            return False
        return True

    def _renew(self, now: float) -> None:
        try:
            if not self.holds():
                self._anchor = self.stream.mark(), self.left(), self.stream.context.counters.copy()
        except Exception:  # a user's iterator that cannot tell where it is: it can only go on
            self._anchor = _NOWHERE, self.left(), _NO_COUNTS
        self._goal = max(ANCHOR_SECONDS, (perf_counter() - now) / _COST)

    def holds(self) -> bool:
        """Whether an error has left something half done that no saved state tells of."""
        self.is_settled = self.is_settled or not self.stream.holds()
        return not self.is_settled

    def failed(self) -> None:
        """Note that an exception was raised in the place of an element."""
        self.is_lost = True  # if there is an interrupt now, it will be raised again
        left, (failed_at, errors) = self.left(), self._errors
        self.is_settled = False
        self._errors = left, errors + 1 if failed_at == left else 1
        if self._anchor[0] is not _NOWHERE:
            self._renew(perf_counter())
        if self._anchor[1] == left and self.is_settled:
            self._errors = left, 0
        self.is_lost = False

    def interrupted(self, was_called: bool) -> None:
        """Note that something else was raised; `was_called`: after the stream was asked for an element, or while."""
        self.is_lost = self._was_interrupted = True
        if was_called and is_alive(self.source):  # an element has left, and went nowhere
            anchor, anchor_left, counts = self._anchor
            (failed_at, errors), left = self._errors, self.left()
            errors = errors if failed_at - 1 == left else 0
            # All at once: another interrupt must not make it happen again.
            self._anchor, self._errors, self.source = (anchor, anchor_left - 1, counts), (failed_at - 1, errors), None

    def acknowledge(self) -> None:
        """Note that what was raised, if anything was, has been handled."""
        self.source = None

    def return_if_lost(self) -> None:
        """Take the stream back to where the cursor is."""
        if self.is_lost:
            anchor = self._anchor[0]
            if anchor is None:
                self.stream.reset()
            elif anchor is not _NOWHERE:
                self.stream.restore(anchor)
            if anchor is not _NOWHERE:
                self.stream.context.counters.restore(self._anchor[2])
                self.stream.pass_over(*self._since(), is_counted=True)
            self.is_settled = False
            iter(self.stream)
            self.is_lost = False
            if anchor is not _NOWHERE:
                self._renew(perf_counter())  # so that the next interrupt does not cost the same again

    def _since(self) -> tuple[int, int]:
        """How many elements came since the anchor, and how many errors after the last of them."""
        left, (failed_at, errors) = self.left(), self._errors
        return self._anchor[1] - left, errors if failed_at == left else 0

    def is_here(self) -> bool:
        """Whether the stream is at rest where the cursor is, and has nothing that its state does not tell."""
        source = self.source
        return self.is_settled and not self.is_lost and (source is None or source.gi_suspended)

    def save(self, *, may_run: bool) -> Any:
        """The position, as JSON values; `may_run`: elements may be passed over to find out."""
        if self.source is not None and not is_alive(self.source):
            self.is_lost = True  # an interrupt has kept us from seeing an error, or the end
        if may_run:
            self.return_if_lost()
        return self.since_anchor() if self.is_lost or self.holds() else self.stream.save()

    def since_anchor(self) -> Any:
        """The position before the call of `next` that runs now, if one does; the stream is not asked."""
        anchor, since = self._anchor[0], self._since()
        return copied(anchor) if since == (0, 0) and anchor is not None else anchored(copied(anchor), *since)

    def restored(self, anchor: Any, elements: int = 0, errors: int = 0) -> None:
        """Note that the stream is at `anchor` (None: the start), or so many elements, and then errors, after it."""
        counters = self.stream.context.counters
        counts = counters.copy() if counters.stages else _NO_COUNTS
        left = self.left()
        self._anchor, self._errors = (anchor, left + elements, counts), (left, errors)
        self.is_settled, self.is_lost = not (elements or errors), False


_NOWHERE: Any = object()
"""In place of an anchor that could not be had."""


def _generator(stream: Stream) -> Generated:
    """The elements of `stream` as a generator, which can be asked whether it has ended."""
    elements = iter(stream)
    return elements if isinstance(elements, GeneratorType) else _generated(elements)


def _generated(elements: Iterator[Any]) -> Any:
    while True:
        try:
            element = next(elements)
        except StopIteration:
            return
        yield element


def is_alive(generator: Generated | None) -> bool:
    return generator is not None and generator.gi_frame is not None
