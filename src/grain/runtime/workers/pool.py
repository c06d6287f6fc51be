"""The worker processes of this process: started when first needed, and kept warm for the next iterator."""

from __future__ import annotations

import _thread
import atexit
import contextlib
import errno
import os
import pickle
import queue
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from grain.runtime.workers.channel import File
from grain.runtime.workers.launching import Launcher, Process, Work, launcher
from grain.runtime.workers.parcels import Parcel
from grain.runtime.workers.pickling import pickled
from grain.runtime.workers.protocol import Job, Reply, Say, reply_of
from grain.runtime.workers.slabs import Views

# How long a worker may be busy with an element after it was asked to stop.
_SECONDS_TO_STOP = 2.0
# How long a worker that is about to stop is waited for rather than starting another, which takes as long.
_SECONDS_TO_RETURN = 0.05
_SECONDS_BETWEEN_LOOKS = 0.002
_SECONDS_TO_EXIT = 5.0


class WorkerDiedError(Exception):
    """The process has ended, or cannot be talked to any more."""


class Worker:
    """The consumer's end of a conversation with a worker process."""

    def __init__(self, process: Process, launcher: Launcher, key: Any) -> None:
        self.process, self.launcher, self.key = process, launcher, key
        self.owner = os.getpid()
        self.is_reused = self.has_replied = self._is_ended = False
        self.report: File | None = None
        """A file to which it writes where it is, when it is sent a signal."""
        self._views = Views()

    def start(self, job: Job, parcel: Parcel) -> None:
        """Begin a job."""
        with self._talking():
            self.process.channel.send(Say.START, [pickled(job)], parcel.file)

    def receive(self, timeout: float) -> Reply | None:
        """What the worker has to say next; None if it says nothing in time."""
        deadline = time.monotonic() + timeout
        while True:
            with self._talking():
                message = self.process.channel.receive(max(0.0, deadline - time.monotonic()))
                if message is None and self.process.wait(0):
                    message = self.process.channel.receive(0)  # what it sent at the very end
                    if message is None:
                        raise WorkerDiedError
            if message is None:
                return None
            if message.kind == Say.STOPPED:
                return Reply(Say.STOPPED, None, None, [], message.body)
            if message.kind not in (Say.SLAB, Say.REPORT):
                self.has_replied = True
                return reply_of(message.kind, message.body)
            if message.file is None:
                raise OSError(errno.EMFILE, "Too many open files to receive one from a worker process")
            if message.kind == Say.REPORT:
                self.report = message.file
            else:
                number, kept = pickle.loads(message.body)
                self._views.add(number, message.file, kept)

    def element(self, reply: Reply) -> Any:
        """The element of a reply."""
        return reply.element(self._views)

    def taken(self) -> None:
        """Tell the worker that there is room for another element, and which slabs are free."""
        numbers, returned = [], self._views.returned
        while returned:
            numbers.append(returned.popleft())
        with self._talking():
            self.process.channel.send(Say.TAKEN, [pickle.dumps(numbers)])

    def ask_to_stop(self) -> None:
        """Ask for the end of the job: the worker hears it before its next element."""
        with self._talking():
            self.process.channel.send(Say.STOP)

    def has_stopped(self, timeout: float) -> bool:
        """Whether the job has ended, and the worker is ready for another."""
        while (reply := self.receive(timeout)) is not None:
            if reply.kind == Say.STOPPED:
                self._views = Views()
                self.is_reused, self.has_replied = True, False
                return True
        return False

    def close(self) -> None:
        """Let go of a process that has ended, or will when it sees that nobody listens."""
        self.process.channel.close()
        self.report = None

    def end(self) -> None:
        """End the process now, whatever it is doing."""
        self.close()
        if not self._is_ended:
            self.process.signal(signal.SIGKILL)
            self._is_ended = True

    @contextlib.contextmanager
    def _talking(self) -> Iterator[None]:
        if self.process.channel.broken:
            raise WorkerDiedError
        try:
            yield
        except (EOFError, OSError):
            self.process.wait(_SECONDS_TO_EXIT)
            raise WorkerDiedError from None


class _Request:
    """A worker that somebody waits for."""

    def __init__(self, key: Any) -> None:
        self.key, self.deadline = key, time.monotonic() + _SECONDS_TO_RETURN
        self.answer: queue.SimpleQueue[Worker | BaseException] = queue.SimpleQueue()


class Pool:
    """Workers that wait for work.

    They belong to a thread, which no signal interrupts, and which takes orders from others. So there is no lock that an
    interrupt could leave locked: what others do is to put something in a queue, or to wait for it.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self._begin()

    def _begin(self) -> None:
        self._launchers: list[Launcher] = []
        """The last one is for new workers; those of others may still be at work, though new ones are not like them."""
        self._idle: list[Worker] = []
        self._stopping: list[tuple[Worker, float]] = []
        """Those that were released and are not idle yet, and until when they may work on."""
        self._requests: list[_Request] = []
        self._watchers: list[queue.SimpleQueue[None]] = []
        """Of those who wait until nothing is stopping."""
        self._orders: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._has_thread = threading.Lock()
        """Locked, by the thread that obeys, for good."""

    def acquire(self, key: Any) -> Worker:
        """A worker that was given the same `key` before, or a new one."""
        request = _Request(key)
        if not self._has_thread.locked():
            # Starting a `Thread` has locks that an interrupt can leave locked.
            _thread.start_new_thread(self._obey_forever, (self._has_thread, self._orders))
        self._orders.put(partial(self._requests.append, request))
        try:
            answer = request.answer.get()
        except BaseException:
            self._orders.put(partial(self._forget, request))
            raise
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def release(self, worker: Worker) -> None:
        """Take a worker back. As a garbage collection may call this in the middle of anything, it only takes notes."""
        if worker.owner == os.getpid():
            self._orders.put(partial(self._stop, worker))
        else:
            worker.close()

    def wait_for_released(self) -> None:
        """Wait until all workers that were released have stopped or ended."""
        if self._has_thread.locked():
            watcher: queue.SimpleQueue[None] = queue.SimpleQueue()
            self._orders.put(partial(self._watchers.append, watcher))
            watcher.get()

    def _obey_forever(self, has_thread: threading.Lock, orders: queue.SimpleQueue[Callable[[], None]]) -> None:
        if not has_thread.acquire(blocking=False):
            return  # an interrupt has made others start one more
        while True:
            if self._requests:
                _wait_for_any([worker for worker, _ in self._stopping])
            with contextlib.suppress(queue.Empty):
                orders.get(not self._requests, _SECONDS_BETWEEN_LOOKS if self._stopping else None)()
            self._stopping = [waiting for waiting in self._stopping if not self._is_back(*waiting)]
            self._requests[:] = [request for request in self._requests if not self._is_answered(request)]
            while self._watchers and not self._stopping:
                self._watchers.pop().put(None)

    def _is_answered(self, request: _Request) -> bool:
        try:
            worker = self._found(request)
        except BaseException as error:  # it is raised where the worker is waited for
            request.answer.put(error)
            return True
        if worker is not None:
            request.answer.put(worker)
        return worker is not None

    def _found(self, request: _Request) -> Worker | None:
        """A worker, unless one is about to return."""
        usable, key = self._usable_launcher(), request.key
        self._forget_dead()
        for worker in reversed(self._idle):  # the last one is the warmest
            if worker.key == key:
                self._idle.remove(worker)
                return worker
        if time.monotonic() < request.deadline and any(worker.key == key for worker, _ in self._stopping):
            return None
        return Worker(usable.launch(), usable, key)

    def _forget(self, request: _Request) -> None:
        """Nobody waits for the worker any more."""
        if request in self._requests:
            self._requests.remove(request)
        with contextlib.suppress(queue.Empty):
            answer = request.answer.get_nowait()
            if isinstance(answer, Worker):
                self._idle.append(answer)

    def _usable_launcher(self) -> Launcher:
        if not self._launchers or not self._launchers[-1].is_usable:
            while self._idle:
                self._idle.pop().end()
            for each in [each for each in self._launchers if each.has_ended()]:
                each.close()
                self._launchers.remove(each)
            self._launchers.append(launcher(self._work))
        return self._launchers[-1]

    def _forget_dead(self) -> None:
        """Idle workers end by themselves after a while."""
        for worker in [worker for worker in self._idle if worker.process.wait(0)]:
            worker.close()
            self._idle.remove(worker)

    def _stop(self, worker: Worker) -> None:
        """Have a worker stop; one that does not in time is ended."""
        with contextlib.suppress(WorkerDiedError):
            worker.ask_to_stop()
        self._stopping.append((worker, time.monotonic() + _SECONDS_TO_STOP))

    def _is_back(self, worker: Worker, deadline: float) -> bool:
        """Whether a worker is idle again, or has been ended."""
        now = time.monotonic()
        with contextlib.suppress(Exception):  # it has ended, or what it says cannot be understood
            has_stopped = worker.has_stopped(0)
            if has_stopped and worker.launcher in self._launchers[-1:]:
                self._idle.append(worker)
                return True
            if not has_stopped and now < deadline:
                return False
        worker.end()
        return worker.process.wait(0) or now > deadline + _SECONDS_TO_EXIT

    def close(self) -> None:
        """End all workers."""
        for worker in list(self._idle):
            worker.close()
        for each in list(self._launchers):
            each.close()

    def abandon(self) -> None:
        """In a forked copy of this process: workers belong to the original."""
        for each in self._launchers:
            each.abandon()
        for worker in [*self._idle, *(worker for worker, _ in self._stopping)]:
            worker.close()
        self._begin()


def _wait_for_any(workers: Sequence[Worker]) -> None:
    """Wait until one of them has something to say, but not for long."""
    poll = select.poll()
    for worker in workers:
        if not worker.process.channel.broken:
            poll.register(worker.process.channel, select.POLLIN)
    poll.poll(_SECONDS_BETWEEN_LOOKS * 1000)


def pool(work: Work) -> Pool:
    """The pool of this process for workers that do `work`."""
    if work not in _pools:
        made = Pool(work)
        atexit.register(made.close)
        os.register_at_fork(after_in_child=made.abandon)
        _pools[work] = made
    return _pools[work]


_pools: dict[Work, Pool] = {}
