"""Streams whose elements a worker process makes."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from grain.fields import Fields
from grain.graph.node import Context, Node, copied
from grain.graph.positions import anchored
from grain.ops.process_prefetch import Distribution, ProcessPrefetch
from grain.options import warn
from grain.runtime.workers.launching import worker_environment, working_directory
from grain.runtime.workers.parcels import Parcel, pickled_pieces
from grain.runtime.workers.pickling import pickled_by_value, unpacked_error
from grain.runtime.workers.pool import Worker, WorkerDiedError, pool
from grain.runtime.workers.protocol import Job, Reply, Say
from grain.runtime.workers.stack_dump import stack_dump
from grain.streams.interleave import OpenStream
from grain.streams.serving import serve
from grain.streams.stream import Change, Stream

T = TypeVar("T")

_START = anchored(None, 0, 0)
_SECONDS_BETWEEN_LOOKS = 0.25
SECONDS_UNTIL_STUCK = 60.0


class RemoteStream(Stream):
    """A worker's elements.

    Its state is that of the worker's pipeline after the element that was returned last. So whenever there is doubt
    about the worker - it is gone, a call was interrupted, this is a fork of the process that had it - it is given up,
    and another goes on from the state.
    """

    operator: ProcessPrefetch

    def __init__(self, operator: ProcessPrefetch, context: Context, open_stream: OpenStream) -> None:
        super().__init__(operator, context)
        self._open_stream = open_stream
        self._state: Any = None
        """None: it is at the start, and has not moved."""
        self._first: Any = None
        """The state at the start, once it is known."""
        self._model: Stream | None = None
        self._worker: Worker | None = None
        self._giving_back: weakref.finalize[..., RemoteStream] | None = None
        self._has_ended = self._is_closed = self._is_asked = False
        self._is_busy = self._is_in_doubt = False

    def __iter__(self) -> RemoteStream:
        return self

    def _run(self) -> RemoteStream:
        return self

    def __next__(self) -> Any:
        if self._has_ended:
            raise StopIteration
        element, error = self._undisturbed(self._next_outcome)
        if error is not None:
            raise error
        return element

    def _undisturbed(self, talk: Callable[[], T]) -> T:
        """Talk to the worker; if that is not done to the end, the worker is given up: what it said then is lost.

        `close`, perhaps called by another thread, leaves the worker to this thread in the meantime. There is no lock:
        an interrupt could leave it locked. But nothing can come between an exception and what is set because of it.
        """
        try:
            self._is_busy = True
            if self._is_closed:
                self._refuse()
            if self._is_in_doubt:
                self._lose_worker()
            self._is_in_doubt = True
            outcome = talk()
            self._is_in_doubt = False
        finally:
            self._is_busy = False
            if self._is_closed:
                self._give_back()
        return outcome

    def _next_outcome(self) -> tuple[Any, BaseException | None]:
        """The next element, or what is raised in its place."""
        reply = self._next_reply()
        if reply.kind in (Say.END, Say.FAILED):
            self._give_back()
            self.context.counters.add(reply.counted)
            self._has_ended = reply.kind == Say.END
            return None, StopIteration() if self._has_ended else unpacked_error(reply.rest)
        element, error = self._outcome(reply)
        self._state = reply.state
        self.context.counters.add(reply.counted)
        return element, error

    def _first_state(self) -> Any:
        """What the worker says at the start."""
        self._start(is_asked=False)
        reply = self._received()
        if reply.kind == Say.FAILED:
            self._give_back()
            raise unpacked_error(reply.rest)
        return reply.state

    def _next_reply(self) -> Reply:
        """The next element, error or end."""
        self._start()
        reply = self._received()
        if reply.kind == Say.BEGUN:
            self._first = reply.state
            reply = self._received()
        return reply

    def _received(self) -> Reply:
        assert self._worker is not None
        began, warning = time.monotonic(), SECONDS_UNTIL_STUCK
        try:
            while (reply := self._worker.receive(_SECONDS_BETWEEN_LOOKS)) is None:
                if self._is_closed:
                    self._give_back()
                    self._refuse()
                if time.monotonic() - began >= warning:
                    self._warn_of_waiting(warning)
                    warning *= 2
            return reply
        except WorkerDiedError:
            worker = self._worker
            self._lose_worker()
            if worker.is_reused and not worker.has_replied:  # it has ended, idle, before it got the job
                self._start(is_asked=self._is_asked)
                return self._received()
            raise RuntimeError(self._obituary(worker)) from None

    def _outcome(self, reply: Reply) -> tuple[Any, BaseException | None]:
        """The element, or the error in its place; and tell the worker that it was taken."""
        assert self._worker is not None
        element = error = None
        try:
            if reply.kind == Say.ERROR:
                error = unpacked_error(reply.rest)
            else:
                element = self._worker.element(reply)
        except Exception as failure:
            failure.add_note(f"Raised when an element of {self._name()}, a process, was unpickled in this one.")
            error = failure
        with contextlib.suppress(WorkerDiedError):  # which is of interest when all that it has sent has been received
            self._worker.taken()
        return element, error

    def _obituary(self, worker: Worker) -> str:
        process = worker.process
        if process.refusal is not None:
            return f"{self._name()} could not be started: {process.refusal}. Use fewer workers, or raise the limit."
        how = "for an unknown reason" if process.exit_code is None else f"with exit code {process.exit_code}"
        with contextlib.suppress(ValueError, TypeError):  # not a signal, or one without a name
            how += f" ({signal.Signals(-process.exit_code).name})"  # type: ignore[operator]
        return (
            f"Worker process was terminated unexpectedly {how}. Search the logs above for the source of the crash. "
            f"It was {self._name()}, {self._place()}, from where the next call starts it anew. "
            "If it ends again, run the pipeline without `mp_prefetch` to see why. SIGKILL often means: out of memory."
        )

    def _warn_of_waiting(self, seconds: float) -> None:
        assert self._worker is not None
        warn(
            "%s has given no element for %.0f seconds, %s. It is in:\n%s",
            self._name(),
            seconds,
            self._place(),
            stack_dump(self._worker.process, self._worker.report),
        )

    def _name(self) -> str:
        return f"worker {self.operator.index} of {self.operator.distribution.count}"

    def _place(self) -> str:
        """Where it is, without asking the worker."""
        return "at the start" if self._state is None else f"after the state {self._state}"

    def start_prefetch(self) -> None:
        """Let a worker begin, if none has."""
        if not self._has_ended:
            self._undisturbed(self._start)

    def _start(self, *, is_asked: bool = True) -> None:
        """Let a worker begin; it makes no elements before it is asked to."""
        if self._worker is not None and self._worker.owner != os.getpid():
            self._lose_worker()
        if self._worker is not None and is_asked and not self._is_asked:
            self._is_asked = True
            with contextlib.suppress(WorkerDiedError):  # it is found dead when an element is received
                for _ in range(self._window):
                    self._worker.taken()
        if self._worker is not None or self._has_ended:
            return
        parcel, job = _parcel_for(self.operator), self._job()
        key = None if job.init is None else (job.init, job.worker_index, job.worker_count, job.path, job.environment)
        workers = pool(serve)
        worker = workers.acquire(key)
        self._giving_back = weakref.finalize(self, workers.release, worker)
        self._giving_back.atexit = False  # the pool itself is closed then
        with contextlib.suppress(WorkerDiedError):  # it is found dead when an element is asked for
            worker.start(job.replaced(sizes=parcel.sizes, window=self._window if is_asked else 0), parcel)
        self._worker, self._is_asked = worker, is_asked

    @property
    def _window(self) -> int:
        """How many elements a worker may make ahead."""
        return self.operator.distribution.buffer_size + 1

    def _refuse(self) -> None:
        raise ValueError(f"Trying to advance a closed iterator: {self._name()} was closed, perhaps by another thread.")

    def _job(self) -> Job:
        distribution = self.operator.distribution
        return Job(
            sizes=[],
            worker_index=self.operator.index,
            worker_count=distribution.count,
            is_sequential=distribution.is_sequential,
            window=0,
            state=None if self._state is None else pickled_by_value(self._state),
            options=self.context.dataset_options,
            open_stream=self._open_stream,
            init=_pickled_init(distribution),
            directory=working_directory(),
            path=list(sys.path),
            environment=worker_environment(),
        )

    def _lose_worker(self) -> None:
        """Give up a worker that cannot be talked to any more."""
        if self._giving_back is not None:
            self._giving_back.detach()
        if self._worker is not None:
            (self._worker.end if self._worker.owner == os.getpid() else self._worker.close)()
        self._worker = self._giving_back = None

    def _give_back(self) -> None:
        """Let others have the worker."""
        if self._giving_back is not None:
            self._giving_back()
        self._worker = self._giving_back = None

    def _stream_here(self) -> Stream:
        """The worker's pipeline in this process: it is never read, only asked what states mean."""
        if self._model is None:
            self._model = self._open_stream(self.operator.part(), self.context)
        return self._model

    def _saved(self) -> Any:
        if self._state is not None:
            return copied(self._state)
        if self._first is None:
            self._first = self._stream_here().save() if self._is_closed else self._undisturbed(self._first_state)
        return copied(self._first)

    def mark(self) -> Any:
        return _START if self._state is None else copied(self._state)

    def _loaded(self, saved: Any) -> list[Change]:
        if saved == _START:
            return [self.reset]
        self._stream_here().loaded(saved)  # only to see that it fits
        state = copied(saved)
        return [lambda: self._become(state)]

    loaded = _loaded

    def _become(self, state: Any) -> None:
        if self._is_in_doubt:
            self._lose_worker()
        self._give_back()
        self._state, self._first, self._has_ended = state, None, False

    def _reset(self, keeps_caches: bool) -> None:
        self._become(None)

    def get_next_index(self) -> int:
        """The number of elements before the next one, where the pipeline knows it."""
        here = self._stream_here()
        here.restore(self.save())
        return here.get_next_index()

    def set_next_index(self, index: int) -> None:
        """Go to an element by its number."""
        here = self._stream_here()
        here.set_next_index(index)
        self._become(here.save())

    def adopt_context(self, context: Context) -> None:
        """Take part in a larger pipeline; a worker that has begun keeps the options that it began with."""
        self.context = context

    def close(self) -> None:
        """Give the worker back; if another thread is waiting for an element, it does so."""
        self._is_closed = True
        if not self._is_busy:
            self._give_back()
            if self._model is not None:
                self._model.close()


def wait_for_workers() -> None:
    """Wait until the workers of closed iterators do nothing any more."""
    pool(serve).wait_for_released()


class _Shipment(Fields):
    """A pipeline as it was when an iterator began, and the workers of that iterator that have it."""

    parcel: Parcel
    receivers: set[int]


_shipments: weakref.WeakKeyDictionary[Distribution, _Shipment] = weakref.WeakKeyDictionary()


def _parcel_for(operator: ProcessPrefetch) -> Parcel:
    """The pipeline as it is now, pickled once for all workers of an iterator: they start one after the other."""
    distribution = operator.distribution
    shipment = _shipments.get(distribution)
    if shipment is None or operator.index in shipment.receivers:
        try:
            pieces = pickled_pieces(distribution.whole)
        except Exception as error:
            error.add_note(f"Dataset: {_unpicklable(distribution.whole)} cannot be pickled!")
            error.add_note("Workers get the pipeline by pickling it, with cloudpickle: see what it holds on to.")
            raise
        shipment = _shipments[distribution] = _Shipment(Parcel(pieces), set())
    shipment.receivers.add(operator.index)
    return shipment.parcel


def _unpicklable(node: Node) -> Node:
    """The first node, from the sources on, that cannot be pickled."""
    for parent in node.parents:
        try:
            pickled_by_value(parent)
        except Exception:
            return _unpicklable(parent)
    return node


def _pickled_init(distribution: Distribution) -> bytes | None:
    if distribution.worker_init_fn is None:
        return None
    try:
        return pickled_by_value(distribution.worker_init_fn)
    except Exception as error:
        error.add_note(f"Raised when worker_init_fn {distribution.worker_init_fn!r} was pickled for the workers.")
        raise
