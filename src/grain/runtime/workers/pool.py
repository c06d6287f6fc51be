"""The worker processes of this process: started when first needed, and kept warm for the next iterator."""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import pickle
import queue
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

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
        self.is_reused = self.has_replied = False
        self.report: int | None = None
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
        if self.report is not None:
            os.close(self.report)
            self.report = None

    def end(self) -> None:
        """End the process now, whatever it is doing."""
        self.close()
        self.process.signal(signal.SIGKILL)

    @contextlib.contextmanager
    def _talking(self) -> Iterator[None]:
        if self.process.channel.broken:
            raise WorkerDiedError
        try:
            yield
        except (EOFError, OSError):
            self.process.wait(_SECONDS_TO_EXIT)
            raise WorkerDiedError from None


class Pool:
    """Workers that wait for work, and a thread that takes back those that have had some."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._retired: list[Launcher] = []
        """Those whose workers may still be at work, though new ones are not to be like them."""
        self._begin()

    def _begin(self) -> None:
        self._launcher: Launcher | None = None
        self._idle: list[Worker] = []
        self._returning: deque[Worker] = deque()
        """Those that were released and are not idle yet."""
        self._released: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._taking_back: threading.Thread | None = None

    def acquire(self, key: Any) -> Worker:
        """A worker that was given the same `key` before, or a new one."""
        with self._changed:
            usable = self._usable_launcher()
            self._forget_dead()
            deadline = time.monotonic() + _SECONDS_TO_RETURN
            while True:
                for worker in reversed(self._idle):  # the last one is the warmest
                    if worker.key == key:
                        self._idle.remove(worker)
                        return worker
                left = deadline - time.monotonic()
                if left <= 0 or all(worker.key != key for worker in list(self._returning)):
                    return Worker(usable.launch(), usable, key)
                self._changed.wait(left)

    def release(self, worker: Worker) -> None:
        """Take a worker back. As a garbage collection may call this in the middle of anything, it only takes notes."""
        self._returning.append(worker)
        self._released.put(worker)

    def _usable_launcher(self) -> Launcher:
        if self._launcher is not None and not self._launcher.is_usable:
            for worker in self._idle:
                worker.end()
            self._idle.clear()
            self._retired.append(self._launcher)
            self._launcher = None
        if self._launcher is None:
            self._launcher = launcher(self._work)
        if self._taking_back is None:
            self._taking_back = threading.Thread(target=self._take_back, name="grain-workers", daemon=True)
            self._taking_back.start()
        return self._launcher

    def _forget_dead(self) -> None:
        """Idle workers end by themselves after a while."""
        for worker in [worker for worker in self._idle if worker.process.wait(0)]:
            worker.close()
            self._idle.remove(worker)

    def _take_back(self) -> None:
        """Stop those that are released; those that do not in time are ended."""
        stopping: list[tuple[Worker, float]] = []
        while True:
            with contextlib.suppress(queue.Empty):
                worker = self._released.get(timeout=_SECONDS_BETWEEN_LOOKS if stopping else None)
                with contextlib.suppress(WorkerDiedError):
                    worker.ask_to_stop()
                stopping.append((worker, time.monotonic() + _SECONDS_TO_STOP))
            stopping = [waiting for waiting in stopping if not self._is_back(*waiting)]

    def _is_back(self, worker: Worker, deadline: float) -> bool:
        try:
            has_stopped = worker.has_stopped(_SECONDS_BETWEEN_LOOKS)
            if not has_stopped and time.monotonic() < deadline:
                return False
        except (WorkerDiedError, OSError):
            has_stopped = False
        if not has_stopped:
            worker.end()
            worker.process.wait(_SECONDS_TO_EXIT)
        with self._changed:
            self._returning.remove(worker)
            if has_stopped and worker.launcher is self._launcher:
                self._idle.append(worker)
            elif has_stopped:
                worker.end()
            self._changed.notify_all()
        return True

    def wait_for_released(self) -> None:
        """Wait until all workers that were released have stopped or ended."""
        with self._changed:
            self._changed.wait_for(lambda: not self._returning)

    def close(self) -> None:
        """End all workers."""
        with self._changed:
            for worker in self._idle:
                worker.close()
            for each in [*self._retired, self._launcher]:
                if each is not None:
                    each.close()
            self._retired, self._launcher, self._idle = [], None, []

    def abandon(self) -> None:
        """In a forked copy of this process: workers belong to the original."""
        for each in [*self._retired, self._launcher]:
            if each is not None:
                each.abandon()
        for worker in [*self._idle, *self._returning]:
            worker.close()
        self._retired = []
        self._begin()


def pool(work: Work) -> Pool:
    """The pool of this process for workers that do `work`."""
    if work not in _pools:
        _pools[work] = Pool(work)
        atexit.register(_pools[work].close)
        os.register_at_fork(after_in_child=_pools[work].abandon)
    return _pools[work]


_pools: dict[Work, Pool] = {}
