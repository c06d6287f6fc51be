"""A way through a stream on which nothing is lost, whatever is raised.

1. A cursor knows an *anchor*, a position of the stream that is at most some hundredths of a second of work old, and how
   many elements it has handed out since. So it can always go back to the element that is next.
2. An `Exception` stands for the element that has failed: the next call goes on after it.
3. Anything else that is raised - Ctrl-C, or what a debugger or another thread throws - is an interrupt: whatever it has
   left of the stream, and wherever it struck, the next call gives the element that was next. The position is that from
   before the call.
4. Elements are counted in C, between two of Python's instructions, at the moment in which they leave the stream.
5. Whoever stands at the top of a stream has a cursor: a user's iterator, a thread that reads ahead, a worker process.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import chain, compress, islice, repeat
from operator import length_hint
from time import perf_counter
from types import GeneratorType
from typing import Any, Generic, TypeAlias, TypeVar

from grain.graph.node import copied
from grain.graph.positions import ANCHOR, anchored, split_anchored
from grain.observe.counters import Counts
from grain.streams.stream import Stream

T = TypeVar("T", covariant=True)
Generated: TypeAlias = "GeneratorType[Any, None, None]"

ANCHOR_SECONDS = 0.03
"""How much work may have to be done again."""
_LARGEST_PIECE = 1 << 14
_COST = 0.01
"""The share of the time that may be spent on new anchors."""
_EVER = sys.maxsize


class Track:
    """What a cursor and its generator share. It does not know the cursor, which would be a cycle."""

    def __init__(self, stream: Stream, position: Any) -> None:
        self.stream = stream
        self.is_lost = False
        """Whether the stream is somewhere else: an interrupt has left it there."""
        self._was_interrupted = False
        self._source: Generated | None = None
        self.ticks = repeat(True, _EVER)
        """Takes part in handing out elements, and so counts them."""
        self._anchor: tuple[Any, int, Counts]
        """A saved position (None: the start), how many elements came before it, and what had been counted there."""
        self._errors: tuple[int, int]
        """After how many elements errors came last, and how many."""
        self._is_settled: bool
        """Whether no error has left anything half done."""
        self.restored(position)
        self._goal = ANCHOR_SECONDS

    def pieces(self) -> Any:
        """The stream in pieces, from where the cursor is; between them there is time to look after the anchor."""
        self.return_if_lost()
        self._source = source = _generator(self.stream)
        before, size, renewed = self.count, 1, perf_counter()
        while True:
            began = perf_counter()
            yield islice(source, size)
            if source.gi_frame is None:
                if self.count == before or not self._was_interrupted or self._is_at_end():
                    return
                self.is_lost = True  # interrupts came so close upon each other that one of them was not handled
                self.return_if_lost()
                self._source = source = _generator(self.stream)
                before = self.count
                continue
            now = perf_counter()
            if 4 * (now - began) < self._goal:
                size = min(4 * size, _LARGEST_PIECE)
            elif now - began > self._goal:
                size = max(1, size // 4)
            if now - renewed >= self._goal:
                self._renew(now)
                renewed = now

    def _is_at_end(self) -> bool:
        """Whether the stream, asked once more, has no element."""
        self._source = source = _generator(self.stream)
        for _ in source:
            return False
        return True

    def _renew(self, now: float) -> None:
        try:
            if not self.holds():
                self._anchor = self.stream.mark(), self.count, self.stream.context.counters.copy()
        except Exception:  # a user's iterator that cannot tell where it is: it can only go on
            self._anchor = _NOWHERE, self.count, {}
        self._goal = max(ANCHOR_SECONDS, (perf_counter() - now) / _COST)

    @property
    def count(self) -> int:
        """How many elements have left the stream, up to now and for good."""
        return _EVER - length_hint(self.ticks)

    def holds(self) -> bool:
        """Whether an error has left something half done that no saved state tells of."""
        self._is_settled = self._is_settled or not self.stream.holds()
        return not self._is_settled

    def failed(self) -> None:
        """Note that an exception was raised in the place of an element."""
        self.is_lost = True  # if there is an interrupt now, it will be raised again
        count, (before, errors) = self.count, self._errors
        self._is_settled = False
        self._errors = count, errors + 1 if before == count else 1
        if self._anchor[0] is not _NOWHERE:
            self._renew(perf_counter())
        if self._anchor[1] == count and self._is_settled:
            self._errors = count, 0
        self.is_lost = False

    def interrupted(self, was_called: bool) -> None:
        """Note that something else was raised; `was_called`: after the stream was asked for an element, or while."""
        self.is_lost = self._was_interrupted = True
        if was_called and _is_alive(self._source):  # an element has left, and went nowhere
            anchor, before, counts = self._anchor
            (failed_after, errors), count = self._errors, self.count
            self._anchor = anchor, before + 1, counts
            self._errors = failed_after + 1, errors if failed_after + 1 == count else 0

    def acknowledge(self) -> None:
        """Note that what was raised, if anything was, has been handled."""
        self._source = None

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
            self._is_settled = False
            iter(self.stream)
            self.is_lost = False
            if anchor is not _NOWHERE:
                self._renew(perf_counter())  # so that the next interrupt does not cost the same again

    def _since(self) -> tuple[int, int]:
        """How many elements came since the anchor, and how many errors after the last of them."""
        count, (before, errors) = self.count, self._errors
        return count - self._anchor[1], errors if before == count else 0

    def is_here(self) -> bool:
        """Whether the stream is where the cursor is, and has nothing that its state does not tell."""
        source = self._source
        return self._is_settled and not self.is_lost and (source is None or source.gi_frame is not None)

    def save(self, *, may_run: bool) -> Any:
        """The position, as JSON values; `may_run`: elements may be passed over to find out."""
        if self._source is not None and not _is_alive(self._source):
            self.is_lost = True  # an interrupt has kept us from seeing an error, or the end
        if may_run:
            self.return_if_lost()
        if self.is_lost or self.holds():
            anchor, since = self._anchor[0], self._since()
            return copied(anchor) if since == (0, 0) and anchor is not None else anchored(copied(anchor), *since)
        return self.stream.save()

    def restored(self, saved: Any) -> bool:
        """Note that the stream is at `saved` (None: the start); whether it goes on in the same generator."""
        count, anchor, elements, errors = self.count, saved, 0, 0
        if saved is not None and ANCHOR in saved:
            anchor, elements, errors = split_anchored(saved)
        stream, source = self.stream, self._source
        counters = stream.context.counters
        self._anchor = anchor, count - elements, counters.copy() if counters.stages else {}
        self._errors, self._is_settled, self.is_lost = (count, errors), anchor is saved, False
        return source is not None and source is stream._elements and source.gi_frame is not None


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


def _is_alive(generator: Generated | None) -> bool:
    return generator is not None and generator.gi_frame is not None


class Cursor(Generic[T]):
    """Goes through a stream that is at `position` (None: the start)."""

    _closed = False

    def __init__(self, stream: Stream, position: Any = None) -> None:
        self._stream, self._track = stream, Track(stream, position)
        self._pieces: Any = None
        self._elements: Iterator[T] = self._opened()

    def _opened(self) -> Iterator[T]:
        """The elements from where it is, counted."""
        self._track.acknowledge()
        self._pieces = self._track.pieces()
        return compress(chain.from_iterable(self._pieces), self._track.ticks)

    def __next__(self) -> T:
        try:
            return next(self._elements)
        except BaseException as error:
            try:
                self._met(error)
            except BaseException:  # an interrupt just then: what was raised will be raised again
                self._track.interrupted(was_called=False)
                self._elements = self._resumed()
                raise
            raise

    def _met(self, error: BaseException) -> None:
        """Something was raised."""
        if isinstance(error, StopIteration):
            self._elements = iter(())  # until it is moved
            self._track.acknowledge()
            return
        if isinstance(error, Exception):
            self._track.failed()
        else:
            was_called = error.__traceback__.tb_lasti >= _CALL_OFFSET  # type: ignore[union-attr]
            self._track.interrupted(was_called and _is_alive(self._pieces))
        self._elements = self._resumed()

    def _resumed(self) -> Iterator[T]:
        return self._opened()

    def _let_go(self) -> None:
        """Keep nothing of the stream alive."""
        self._track.acknowledge()
        self._pieces, self._elements = None, iter(())

    def get_state(self) -> dict[str, Any]:
        """Where it is, as JSON values."""
        track = self._track
        state: dict[str, Any] = self._stream.save() if track.is_here() else track.save(may_run=not self._closed)
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Go to where `get_state` said."""
        stream, track = self._stream, self._track
        if stream.is_atomic and ANCHOR not in state:
            stream.restore(state)
            if not track.restored(stream.save()):
                self._elements = self._resumed()
            return
        changes = stream.loaded(state)  # where it does not fit, nothing has changed
        try:
            for change in changes:
                change()
            track.restored(copied(state))
        except BaseException:  # whatever has been done of it, it goes back
            track.is_lost = True
            self._elements = self._resumed()
            raise
        self._elements = self._resumed()


class _Empty(Cursor[Any]):
    """A cursor that has only its method `__next__`."""

    def __init__(self) -> None:
        self._elements = iter(())

    def _met(self, error: BaseException) -> None:
        pass


def _call_offset() -> int:
    """Where in `Cursor.__next__` the call is: what is raised further on was raised after an element was asked for."""
    try:
        next(_Empty())
    except StopIteration as error:
        here: Any = error.__traceback__
        return here.tb_next.tb_lasti  # type: ignore[no-any-return]
    raise AssertionError


# Python replaces instructions by faster ones after some calls, which may begin earlier.
_CALL_OFFSET = min(_call_offset() for _ in range(32))
