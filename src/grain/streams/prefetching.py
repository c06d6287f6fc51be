"""Streams that a thread reads ahead.

The thread owns the stream below while it runs; whoever wants to move, save or close that stream stops the thread first.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from grain.fields import Fields
from grain.graph.node import Context, IterNode, copied
from grain.graph.positions import split_anchored
from grain.observe.counters import Counters, Counts
from grain.runtime.local.interruptible import Bell, start_thread
from grain.streams.cursor import Cursor
from grain.streams.stream import Change, Stream

SECONDS_TO_STOP = 1.0
"""How long `close` waits for a function that does not return."""
_MOMENT_SECONDS = 1e-3


Item: TypeAlias = "tuple[Any, Any, int | None, Counts | None]"
"""An element, the state of the stream below after it, its index, and what was counted for it."""


class Position(Fields):
    """Where the stream below was after the last element that was handed out."""

    saved: Any = None
    """None: it has not been read from."""
    count: int | None = 0
    """How many elements came before; None: not known."""
    element_index: int | None = None


class Failure(Fields):
    """An error in place of an element, or the end (None)."""

    error: BaseException | None


class Run:
    """One life of a thread, which ends with a failure, the end, or when it is told to.

    `ready` is changed by both sides without a lock; who finds nothing to do announces that, looks again and waits.
    """

    def __init__(self, parent: Stream, position: Any, size: int, name: str) -> None:
        self.process = os.getpid()
        self.ready: deque[Item] = deque()
        self._parent, self._cursor, self._size = parent, Cursor[Any](parent, position), size
        self._is_stopped = self._is_full = self._is_awaited = self._is_urgent = False
        self._filled, self._has_room = Bell(), Bell()
        self._begun = threading.Lock()
        """Held by the thread that reads, of which there is one."""
        self._is_reading, self._has_ended = False, Bell()
        """Whether the thread may touch the stream below."""
        self._name = f"grain-thread-prefetch-{name}"
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Start the thread, unless it has begun: an interrupt, or a lack of memory, may have been in the way."""
        if not self._begun.locked():
            self._thread = threading.Thread(target=self._read, name=self._name, daemon=True)
            start_thread(self._thread)

    def _read(self) -> None:
        if self._begun.acquire(blocking=False):  # if two were started, only one reads
            self._is_reading = True
            try:
                if not self._is_stopped:
                    self._read_on()
            finally:
                self._is_reading = False
                self._has_ended.ring()

    def _read_on(self) -> None:
        parent, cursor, counters = self._parent, self._cursor, self._parent.context.counters
        failure, saved = Failure(None), None
        try:
            while True:
                element = next(cursor)
                if not self._hand_over((element, cursor.get_state(), parent.element_index, counters.taken())):
                    return
        except StopIteration:
            pass
        except BaseException as error:
            failure = Failure(error)
            with contextlib.suppress(Exception):  # the first error is the one to tell
                saved = cursor.get_state()
        self._hand_over((failure, saved, None, counters.taken()))

    def _hand_over(self, item: Item) -> bool:
        """Add an item, and wait for room; False where nobody wants more."""
        ready, size = self.ready, self._size
        ready.append(item)
        if self._is_awaited and (self._is_urgent or 2 * len(ready) >= size or type(item[0]) is Failure):
            self._filled.ring()
        while len(ready) > size and not self._is_stopped:
            self._is_full = True
            if len(ready) > size and not self._is_stopped:
                self._has_room.wait()
            self._is_full = False
        return not self._is_stopped

    def wait(self) -> None:
        """Until something is ready; in the first moment, until half the buffer is: waking up for each costs more."""
        self._is_awaited = True
        if not self.ready and not self._is_stopped:
            self._filled.wait(_MOMENT_SECONDS)
        self._is_urgent = True
        while not self.ready and not self._is_stopped:
            self._filled.wait()
        self._is_awaited = self._is_urgent = False

    def make_room(self) -> None:
        """Wake the thread up when enough was taken to be worth it."""
        if self._is_full and 2 * len(self.ready) <= self._size:
            self._has_room.ring()

    def stop(self) -> None:
        """Let the thread end after the element that it is working on."""
        self._is_stopped = True
        self._has_room.ring()
        self._filled.ring()

    def wait_until_stopped(self, seconds: float | None) -> None:
        """Wait until the thread does not touch the stream below any more, at most so long."""
        if self._thread is not threading.current_thread():
            while self._is_reading and self._has_ended.wait(seconds):
                continue
            if self._thread is not None and self._thread.ident is not None:
                self._thread.join(seconds)


def _stop(latest: list[weakref.ref[Run]]) -> None:
    """Stop the latest run, unless it is gone; if finalizers knew the run itself, users' functions would live on."""
    for run in latest:
        found = run()
        if found is not None:
            found.stop()


class ReadAhead:
    """What a stream and its generator share: the stream below, and the thread that reads it, if there is one now."""

    def __init__(self, parent: Stream, context: Context, size: int, name: str, reopen: Callable[[], Stream]) -> None:
        self.context = context
        self.parent, self._size, self._name, self._reopen = parent, size, name, reopen
        self.position = Position()
        self._run: Run | None = None
        self._latest: list[weakref.ref[Run]] = []
        """The last run, for the finalizer, of which there is one however many runs there are."""
        weakref.finalize(self, _stop, self._latest)

    def join_context(self, context: Context) -> None:
        """Run in `context`, with counters of its own: what the thread counts ahead belongs to elements to come."""
        self.context = context
        self.parent.adopt_context(context.replaced(counters=Counters()))

    def start(self) -> Run:
        """The run that goes on, or a new one."""
        self._mind_a_fork()
        if self._run is None:
            if self.position.saved is None:
                self.position.saved = self.parent.save()
            run = Run(self.parent, self.position.saved, self._size, self._name)
            self._latest[:] = [weakref.ref(run)]
            self._run = run
        self._run.begin()
        return self._run

    def _mind_a_fork(self) -> None:
        """The thread is not here then, and what it was doing can neither be waited for nor gone on with."""
        if self._run is not None and self._run.process != os.getpid():
            self._run, self.parent = None, self._reopen()
            self.join_context(self.context)
            self.parent.restore(self.position.saved)

    def elements(self) -> Iterator[Any]:
        """The elements after the position, which is moved along."""
        position, run = self.position, self.start()
        while True:
            if not run.ready:
                run.wait()
                if not run.ready:  # it was stopped
                    self._run = None
                    run = self.start()
                continue
            element, saved, element_index, counts = run.ready.popleft()
            run.make_room()
            self.context.counters.add(counts)
            if type(element) is Failure:
                self._run = None
                if saved is not None:
                    position.saved = saved
                if element.error is None:
                    return
                try:
                    raise element.error
                finally:
                    del element  # the error knows this frame: they would keep each other alive
            position.saved, position.element_index = saved, element_index
            if position.count is not None:
                position.count += 1
            yield element
            if run.process != os.getpid():
                run = self.start()

    def pause(self, seconds: float | None = None) -> None:
        """Stop the thread, and wait for that at most so long. What it has read stays ready."""
        self._mind_a_fork()
        if self._run is not None:
            self._run.stop()
            self._run.wait_until_stopped(seconds)

    def go(self, position: Position) -> None:
        """What was read ahead is of no use: the stream below is taken to `position`."""
        self.pause()
        self.parent.context.counters.taken()
        self._run, self.position = None, position


class PrefetchStream(Stream):
    """A stream that is read ahead: its state is that of the stream below as of the last element handed out."""

    def __init__(
        self,
        operator: IterNode[Any],
        context: Context,
        size: int,
        reopen: Callable[[], Stream],
        parent: Stream | None = None,
    ) -> None:
        super().__init__(operator, context)
        self._ahead = ReadAhead(parent or reopen(), context, size, operator.name, reopen)
        self._ahead.join_context(context)

    def _run(self) -> Iterator[Any]:
        return self._ahead.elements()

    def _saved(self) -> Any:
        saved = self._ahead.position.saved
        return self._ahead.parent.save() if saved is None else copied(saved)

    def _holds(self) -> bool:
        """Whether the stream below did as of the last element, and its state is an anchor and what has come since."""
        return split_anchored(self._ahead.position.saved)[0] is not self._ahead.position.saved

    def _loaded(self, saved: Any) -> list[Change]:
        self._ahead.pause()
        return [lambda: self._go(Position(count=None)), *self._ahead.parent.loaded(saved)]

    def loaded(self, saved: Any) -> list[Change]:
        return self._loaded(saved)  # what is to be passed over is the parent's business, as all of its state is

    def _go(self, position: Position) -> None:
        """Go on from where the stream below is taken."""
        self._ahead.go(position)
        self._elements = self._to_pass = None

    def _reset(self, keeps_caches: bool) -> None:
        self._go(Position())
        self._ahead.parent.reset(keeps_caches=keeps_caches)

    @property
    def element_index(self) -> int | None:
        return self._ahead.position.element_index

    def get_next_index(self) -> int:
        """How many elements were handed out; after `restore` the stream below is asked, and what is ahead is lost."""
        if self._ahead.position.count is None:
            self.restore(self.save())
            self._ahead.position.count = self._ahead.parent.get_next_index()
        return self._ahead.position.count

    def set_next_index(self, index: int) -> None:
        self._ahead.pause()
        self._ahead.parent.set_next_index(index)
        self._go(Position(count=index))

    def adopt_context(self, context: Context) -> None:
        self.context = context
        self._ahead.join_context(context)

    def start_prefetch(self) -> None:
        self._ahead.start()

    def close(self) -> None:
        """Stop the thread; a function that does not return is left behind."""
        self._ahead.pause(SECONDS_TO_STOP)
        self._elements = None
        self._ahead.parent.close()
        self._ahead.pause(SECONDS_TO_STOP)  # it may have waited for what is closed now
