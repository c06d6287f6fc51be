"""What a consumer and its worker say to each other.

The consumer: START a job, an element was TAKEN, STOP. The worker: the job has BEGUN, here is a SLAB, an ELEMENT, an
ERROR in the place of one, the END, the job has FAILED before there were elements, it has STOPPED, its REPORT file.

1. A worker sends at most `window` elements more than were taken. It listens between any two elements.
2. An ERROR stands for an element: the worker goes on after it, and the state that comes with it is the one after it.
   But an interrupt, which is no `Exception`, stands for nothing. After END and FAILED the worker waits.
3. After STOP comes STOPPED, and then the worker is as good as new.
4. A job that begins at the start has BEGUN with the state there.
5. An ELEMENT, an ERROR and the END come with what has been counted since the one before, or None.
"""

from __future__ import annotations

import enum
import pickle
from collections.abc import Callable, Sequence
from typing import Any

from grain.fields import Fields
from grain.options import DatasetOptions
from grain.runtime.workers.channel import Channel
from grain.runtime.workers.pickling import packed, packed_error, pickled, unpacked
from grain.runtime.workers.slabs import Part, Shelf, Views, aligned

# A message with fewer bytes of arrays than this carries them itself.
_WORTH_A_SLAB = 1 << 15


class Say(enum.IntEnum):
    """The kinds of message."""

    START = 0
    TAKEN = 1
    STOP = 2
    SLAB = 3
    ELEMENT = 4
    ERROR = 5
    END = 6
    FAILED = 7
    STOPPED = 8
    REPORT = 9
    BEGUN = 10


class Job(Fields):
    """What a worker is to do. The pipeline comes in a parcel."""

    sizes: list[int]
    """Of the pieces of the parcel."""
    worker_index: int
    worker_count: int
    is_sequential: bool
    window: int
    state: bytes | None
    """Where to begin, pickled; None: at the start."""
    options: DatasetOptions
    open_stream: Callable[..., Any]
    """Makes a stream of a pipeline in a context."""
    init: bytes | None
    """A pickled function of the worker's index and their number, to be called once in a process."""
    directory: str | None
    path: list[str]
    environment: dict[str, str]


class Delivery:
    """The worker's way to send."""

    def __init__(self, channel: Channel) -> None:
        self.channel, self.shelf = channel, Shelf()
        self._known: set[int] = set()

    def element(self, state: Any, counted: Any, element: Any, min_shm_size: int) -> None:
        """Send an element, with the state after it."""
        body, buffers = packed(element)
        large = [buffer for buffer in buffers if buffer.nbytes >= min_shm_size]
        shared = dict(zip(map(id, large), self._shared(large), strict=False))
        places: list[Part | int] = [shared.get(id(buffer), buffer.nbytes) for buffer in buffers]
        carried = [body, *(buffer for buffer in buffers if id(buffer) not in shared)]
        self.channel.send(Say.ELEMENT, _with_padding([pickled((state, counted, [len(body), *places])), *carried]))

    def _shared(self, buffers: list[Any]) -> list[Part]:
        """Where in shared memory the consumer finds `buffers`; nowhere if that is not worth it, or not possible."""
        if sum(buffer.nbytes for buffer in buffers) < _WORTH_A_SLAB:
            return []
        try:
            parts = self.shelf.put(buffers)
        except OSError:  # no more memory or files of that kind
            return []
        for number in {number for number, _, _ in parts} - self._known:
            self._known = (self._known | {number}) & self.shelf.numbers()
            self.channel.send(Say.SLAB, [pickle.dumps((number, self._known))], self.shelf.file(number))
        return parts

    def error(self, state: Any, counted: Any, error: BaseException) -> None:
        """Send an error in the place of an element, with the state after it."""
        self.channel.send(Say.ERROR, _with_padding([pickled((state, counted, [])), packed_error(error)]))

    def begun(self, state: Any) -> None:
        """Tell the state at the start."""
        self.channel.send(Say.BEGUN, _with_padding([pickled((state, None, []))]))

    def failure(self, error: BaseException) -> None:
        """Say why there are no elements."""
        self.channel.send(Say.FAILED, _with_padding([pickled((None, None, [])), packed_error(error)]))

    def end(self, counted: Any) -> None:
        """Say that there are no more elements."""
        self.channel.send(Say.END, _with_padding([pickled((None, counted, []))]))


def _with_padding(parts: Sequence[Any]) -> list[Any]:
    """`parts` of a body so that each begins where arrays may; first of all, the length of the first."""
    padded = [len(parts[0]).to_bytes(aligned(1), "little")]
    for part in parts:
        size = memoryview(part).nbytes
        padded += [part, bytes(aligned(size) - size)]
    return padded


class Reply(Fields):
    """A BEGUN, ELEMENT, ERROR, END or FAILED, not yet unpacked."""

    kind: Say
    state: Any
    counted: Any
    places: list[Any]
    rest: memoryview

    def element(self, views: Views) -> Any:
        """The element, with its arrays where they are."""
        shared = iter(views.buffers([place for place in self.places if isinstance(place, tuple)]))
        pieces, start = [], 0
        for place in self.places:
            if isinstance(place, tuple):
                pieces.append(next(shared))
            else:
                pieces.append(self.rest[start : start + place])
                start += aligned(place)
        return unpacked(pieces[0], pieces[1:])


def reply_of(kind: int, body: memoryview) -> Reply:
    """What a worker has sent."""
    start = aligned(1)
    size = int.from_bytes(body[:start], "little")
    state, counted, places = pickle.loads(body[start : start + size])
    return Reply(Say(kind), state, counted, places, body[start + aligned(size) :])
