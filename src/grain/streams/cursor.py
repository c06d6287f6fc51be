"""A way through a stream on which nothing is lost, whatever is raised.

1. A cursor knows an *anchor*, a position of the stream that is at most some hundredths of a second of work old, and how
   many elements it has handed out since. So it can always go back to the element that is next.
2. An `Exception` stands for the element that has failed: the next call goes on after it.
3. Anything else that is raised - Ctrl-C, or what a debugger or another thread throws - is an interrupt: whatever it has
   left of the stream, and wherever it struck, the next call gives the element that was next. The position is that from
   before the call.
4. Elements are counted in C, between two of Python's instructions, at the moment in which they leave the stream.
5. Whoever stands at the top of a stream has a cursor: a user's iterator, a thread that reads ahead, a worker process.
6. Threads may share a user's iterator: a call of `next` is one generator at work, which no second thread can enter, and
   whatever must not happen meanwhile is done by `_alone`. Who finds it occupied waits. Elements take no lock.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import chain, compress
from types import FrameType
from typing import Any, Generic, TypeVar

from grain.graph.node import copied
from grain.graph.positions import split_anchored
from grain.streams.stream import Stream
from grain.streams.track import Generated, Track, is_alive
from grain.tracebacks import shorten_traceback

T = TypeVar("T", covariant=True)
R = TypeVar("R")
_LONGEST_NAP = 1e-3


class Closable:
    """What can be closed, and then refuses to go on."""

    _closed = False

    def _assert_not_closed(self) -> None:
        if self._closed:
            raise ValueError(f"Trying to advance a closed iterator: '{self}'. Make a new one with `iter(dataset)`.")


class _OccupiedError(Exception):
    """Another thread is in the way."""


class _Occupied:
    """In the place of a cursor's elements while it is saved, or moved, or has an error to see to."""

    def __next__(self) -> Any:
        raise _OccupiedError


_OCCUPIED: Any = _Occupied()


class Cursor(Closable, Generic[T]):
    """Goes through a stream that is at `position` (None: the start). One thread uses it."""

    def __init__(self, stream: Stream, position: Any = None) -> None:
        self._stream, self._track = stream, Track(stream, position)
        self._lock = threading.RLock()
        self._raised: BaseException | None = None
        """What a call of `next` has raised and nobody has seen to so far."""
        self._pieces: Generated | None = None
        self._opened: Iterator[T]
        """The elements from where it is, counted."""
        self._reopen()
        self._elements: Iterator[T] = self._opened
        """The same, or `_OCCUPIED`."""

    def _reopen(self) -> None:
        """Go on from where the track is."""
        self._track.acknowledge()
        self._pieces = self._track.pieces()
        self._opened = compress(chain.from_iterable(self._pieces), self._track.ticks)

    def __next__(self) -> T:
        while True:
            try:
                return next(self._elements)
            except BaseException as error:
                # Nothing is called before it is kept: neither another thread nor an interrupt can come in between.
                kind, source, pieces = error.__class__, self._track.source, self._pieces
                if kind is not _OccupiedError and not (
                    kind is ValueError  # as a generator raises that is executing already
                    and ((source is not None and source.gi_running) or (pieces is not None and pieces.gi_running))
                ):
                    self._raised, self._elements = error, _OCCUPIED
                    try:
                        self._alone(_nothing)
                    except BaseException as interrupt:
                        if self._raised is error:
                            self._raised = interrupt  # what was raised will be raised again
                        raise
                    raise
            self._alone(_nothing)

    def _alone(self, action: Callable[[], R]) -> R:
        """Do something while no call of `next` runs, and no other thread does such a thing."""
        with self._lock:
            self._elements = _OCCUPIED
            try:
                self._wait_until_still()
                self._see_to_raised()
                return action()
            finally:
                if self._raised is None:
                    self._elements = self._opened

    def _wait_until_still(self) -> None:
        seconds = 1e-5
        while self._is_running():
            if self._is_inside():
                raise ValueError(f"{self} is used by a function that it has called itself, and would wait for ever.")
            time.sleep(seconds)
            seconds = min(2 * seconds, _LONGEST_NAP)

    def _generators(self) -> list[Generated]:
        return [generator for generator in (self._track.source, self._pieces) if generator is not None]

    def _is_running(self) -> bool:
        return any(generator.gi_running for generator in self._generators())

    def _is_inside(self) -> bool:
        """Whether a call of `next` that has not returned has led here: by a user's function, or a signal's handler."""
        frames = [generator.gi_frame for generator in self._generators() if generator.gi_running]
        frame: FrameType | None = sys._getframe() if frames else None
        while frame is not None and frame not in frames:
            frame = frame.f_back
        return frame is not None

    def _see_to_raised(self) -> None:
        if self._raised is not None:
            self._met(self._raised)
            self._raised = None

    def _met(self, error: BaseException) -> None:
        """Something was raised."""
        if isinstance(error, StopIteration):
            self._let_go()  # until it is moved
            return
        if isinstance(error, Exception):
            self._track.failed()
        else:
            was_called = error.__traceback__.tb_lasti >= _CALL_OFFSET  # type: ignore[union-attr]
            self._track.interrupted(was_called and is_alive(self._pieces))
        self._reopen()

    def _let_go(self) -> None:
        """Keep nothing of the stream alive."""
        self._track.acknowledge()
        self._pieces, self._opened = None, iter(())

    def get_state(self) -> Any:
        """Where it is, as JSON values."""
        track = self._track
        return self._stream.save() if track.is_here() else track.save(may_run=not self._closed)

    def set_state(self, state: Any) -> None:
        """Go to where `get_state` said."""
        changes = self._stream.loaded(state)  # where it does not fit, nothing has changed
        try:
            for change in changes:
                change()
            self._track.restored(*split_anchored(copied(state)))
        except BaseException:  # whatever has been done of it, it goes back
            self._track.is_lost = True
            raise
        finally:
            self._reopen()


def _nothing() -> None:
    pass


class SharedCursor(Cursor[T]):
    """A cursor for users: several threads may use it, and handlers of signals, and it can be closed."""

    def _met(self, error: BaseException) -> None:
        super()._met(error)
        if not isinstance(error, StopIteration):
            shorten_traceback(error)

    def get_state(self) -> Any:
        """The position, as a value that `json` can write: that before the call of `next` which runs, where it is asked
        for from inside of that."""
        stream, track, source = self._stream, self._track, self._track.source
        # As `track.is_here`, without a call.
        is_here = track.is_settled and not track.is_lost and (source is None or source.gi_suspended)
        if is_here and stream.is_atomic and self._raised is None:
            return stream.save()
        return track.since_anchor() if self._is_inside() else self._alone(super().get_state)

    def set_state(self, state: Any) -> None:
        """Go to a position saved from an equal pipeline; one that does not fit is an error and changes nothing."""
        stream, track = self._stream, self._track
        if track.source is not None and track.source is stream._elements:
            track.is_lost = True  # so that an interrupt leaves it where it was
            anchor = stream.jump(state)
            if anchor is not None:
                track.restored(anchor)
                return
            track.is_lost = False
        self._alone(lambda: super(SharedCursor, self).set_state(state))

    def start_prefetch(self) -> None:
        """Begin to read ahead, where the pipeline does so, before the first element is asked for."""
        self._assert_not_closed()
        self._stream.start_prefetch()

    def close(self) -> None:
        """Give back threads, processes and memory. Closing twice is fine; asking for an element then is an error."""
        self._closed = True
        self._let_go()
        self._elements = self._opened
        self._stream.close()
        self._reopen()
        self._elements = self._opened

    def _reopen(self) -> None:
        super()._reopen()
        if self._closed:
            self._opened = self._refusals()

    def _refusals(self) -> Iterator[T]:
        self._assert_not_closed()
        yield from ()


class _Empty(Cursor[Any]):
    """A cursor that has only its method `__next__`."""

    def __init__(self) -> None:
        self._track: Any = self
        self.source = self._pieces = None
        self._elements = iter(())

    def _alone(self, action: Callable[[], R]) -> R:
        return action()


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
