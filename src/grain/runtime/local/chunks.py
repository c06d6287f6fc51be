"""Work for threads: chunks of consecutive indices, claimed and taken in their order."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from itertools import islice
from types import FrameType
from typing import Any

import numpy as np

from grain.graph.node import IterNode
from grain.options import warn
from grain.plan.kinds import Boundary, reads_many
from grain.runtime.local.inline import Block, Reads, weight
from grain.runtime.local.interruptible import Bell, start_thread
from grain.runtime.local.pacing import resized
from grain.tracebacks import is_own_file

SECONDS_BEFORE_WARNING = 60.0
_BLOCK_SIZE = 2048


class Piece:
    """Elements from `start` on, and after them an error, where there was one; `stop` is where to go on."""

    __slots__ = ("elements", "error", "start", "stop")

    def __init__(self, start: int) -> None:
        self.start = self.stop = start
        self.elements: list[Any] = []
        self.error: BaseException | None = None

    def has(self, index: int) -> bool:
        """Whether the element at `index`, or the error in its place, is here."""
        return self.start <= index < self.start + len(self.elements) + (self.error is not None)


class Chunk:
    """Consecutive indices that one thread has claimed, and what it makes of them."""

    __slots__ = ("is_done", "pieces", "start", "stop", "thread")

    def __init__(self, start: int, stop: int) -> None:
        self.start, self.stop = start, stop
        self.pieces: list[Piece] = []
        self.is_done = False
        self.thread = threading.get_ident()

    def compute(self, block: Block, block_start: int, together: int) -> None:
        """Fill in the pieces: one, and another after each element that fails."""
        start = self.start
        while start < self.stop:
            piece, count = Piece(start), self.stop - start
            self.pieces.append(piece)
            reads = Reads([together] * -(-count // together)) if together > 1 else None
            try:
                piece.elements.extend(islice(block.elements(start - block_start, reads), count))
                piece.stop = self.stop
            except BaseException as error:
                piece.error = error
                done = len(piece.elements)
                passed = (done // together + 1) * together if reads is not None and reads.has_failed else done + 1
                piece.stop = min(start + passed, self.stop)
            start = piece.stop


class Work:
    """What threads and the consumer share. Threads know only this, so that a reader can be forgotten while they run."""

    def __init__(self, boundary: Boundary, buffer_size: int) -> None:
        self.process = os.getpid()
        self.level = 0
        """How many threads may work."""
        self.size = self.together = boundary.read_together if reads_many(boundary.access) else 1
        """How many elements to claim at once."""
        self._operator, self._plan, self._length = boundary.operator, boundary.access, boundary.length
        self._buffer_size = buffer_size
        self._blocks = _Blocks(boundary, self.together)
        self._threads: dict[int, threading.Thread] = {}
        self._is_stopped = False
        # Reentrant: when garbage is collected by a thread that holds it, `stop` may be called.
        self._lock = threading.RLock()
        self._has_room = threading.Condition(self._lock)  # for threads, which are not interrupted
        self._is_ready = Bell()  # for the consumer
        self._chunks: deque[Chunk] = deque()
        """What was claimed and has not been taken, in the order of indices."""
        self._claimed = self._limit = 0
        """Up to where indices are claimed, and up to where they may be."""

    # ---- what threads do

    def serve(self, number: int) -> None:
        """Compute chunks while there are some for thread `number`."""
        while (claim := self._claim(number)) is not None:
            chunk, block, start = claim
            began = time.perf_counter()
            chunk.compute(block, start, self.together)
            seconds = time.perf_counter() - began
            with self._lock:
                chunk.is_done = True
                self.resize(chunk.stop - chunk.start, seconds)
                if self._chunks and self._chunks[0] is chunk:
                    self._is_ready.ring()
            del claim, chunk, block  # nothing is kept while it waits

    def _claim(self, number: int) -> tuple[Chunk, Block, int] | None:
        with self._lock:
            while number < self.level and self._claimed < self._length and not self._is_stopped:
                start = self._claimed
                if not self.is_full:
                    try:
                        block, block_start, block_stop = self._blocks.at(start)
                    except Exception:  # the consumer will meet it too, in its place
                        self._length = start
                        break
                    chunk = Chunk(start, min(start + self.size, block_stop))
                    self._claimed = chunk.stop
                    self._chunks.append(chunk)
                    self._has_room.notify(1 if self._claimed < self._length else len(self._threads))
                    return chunk, block, block_start
                self._has_room.wait()
            self._threads.pop(number, None)
            self._is_ready.ring()
            return None

    # ---- what the consumer does

    def resize(self, count: int, seconds: float) -> None:
        """Now that `count` elements took `seconds`: let chunks last equally long, two for each thread."""
        most = max(1, (self._buffer_size + 1) // max(1, 2 * self.level))
        size = min(resized(self.size, count, seconds), most)
        self.size = whole_groups(size, self.together)

    @property
    def is_idle(self) -> bool:
        """Whether no thread is at work, and nothing is ahead."""
        return not (self._threads or self._chunks)

    @property
    def is_full(self) -> bool:
        """Whether threads have to wait."""
        return self._claimed + self.size > self._limit

    @property
    def ahead(self) -> int:
        """How many elements are claimed and not yet taken."""
        return self._claimed - self._chunks[0].start if self._chunks else 0

    def go(self, start: int, level: int, asked: int = 1) -> None:
        """Let `level` threads work on what comes after `start`, of which `asked` elements were asked for."""
        with self._lock:
            while self._chunks and self._chunks[0].stop <= start:
                self._chunks.popleft()
            if not self._chunks or start < self._chunks[0].start:
                self._chunks.clear()
                self._claimed = start
            self._limit = start + max(self._buffer_size + asked, self.together)
            if level != self.level:
                self.level = level
                self._has_room.notify_all()
            self._has_room.notify()
            numbers = range(level if self._claimed < self._length and not self._is_stopped else 0)
            missing = {number: self._thread(number) for number in numbers if self._is_missing(number)}
            self._threads.update(missing)
        for number, thread in missing.items():
            try:
                start_thread(thread)
            except RuntimeError:  # the system has no more of them, or is about to exit: do with fewer
                self._threads.pop(number, None)

    def _is_missing(self, number: int) -> bool:
        """Whether a thread is to be started: also where an interrupt has come in between."""
        return number not in self._threads or self._threads[number].ident is None

    def _thread(self, number: int) -> threading.Thread:
        return threading.Thread(target=self.serve, args=(number,), name=f"grain-prefetch-{number}", daemon=True)

    def take(self) -> Chunk | None:
        """The next chunk, when it is done; None where no thread has claimed it."""
        patience = SECONDS_BEFORE_WARNING
        while not self._is_stopped:
            with self._lock:
                if self._chunks and self._chunks[0].is_done:
                    return self._chunks.popleft()
                if not self._chunks and not (self.level and self._threads):
                    return None
            if not self._is_ready.wait(patience):
                chunks = list(self._chunks)
                if chunks:
                    _warn_of_waiting(chunks[0], patience, self._operator)
                    patience *= 2
        raise ValueError(f"{self._operator} was closed while an element was waited for.")

    def stop(self) -> list[threading.Thread]:
        """Let the threads end, which are returned. After a fork they are not there, and may have held the lock."""
        if self.process != os.getpid():
            return []
        with self._lock:
            self._is_stopped = True
            self._chunks.clear()
            self._has_room.notify_all()
            self._is_ready.ring()
            return [thread for number, thread in self._threads.items() if not self._is_missing(number)]


def whole_groups(count: int, together: int) -> int:
    """About `count` elements in whole groups of those that are read together."""
    return max(1, count // together) * together


class _Blocks:
    """The index arithmetic for a few chunks at a time: for each of them it would cost too much."""

    def __init__(self, boundary: Boundary, together: int) -> None:
        self._plan, self._length = boundary.access, boundary.length
        self._size = whole_groups(_BLOCK_SIZE // weight(boundary.access), together)
        self._present: tuple[Block, int, int] | None = None

    def at(self, start: int) -> tuple[Block, int, int]:
        """A block that has index `start`, and the range of its indices."""
        if self._present is None or not self._present[1] <= start < self._present[2]:
            stop = min(start + self._size, self._length)
            self._present = Block(self._plan, np.arange(start, stop)), start, stop
        return self._present


def _warn_of_waiting(chunk: Chunk, seconds: float, operator: IterNode[Any]) -> None:
    frame: FrameType | None = sys._current_frames().get(chunk.thread)
    while frame is not None and is_own_file(frame.f_code.co_filename):
        frame = frame.f_back
    index = chunk.pieces[-1].start + len(chunk.pieces[-1].elements) if chunk.pieces else chunk.start
    where = f", now in {frame.f_code.co_qualname} ({frame.f_code.co_filename}:{frame.f_lineno})" if frame else ""
    warn(
        "Nothing has come for %g s: a thread is still computing the element at index %d for %s%s.",
        *(seconds, index, operator, where),
    )
