"""What a worker process does: runs its part of pipelines and sends the elements."""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import random
import sys
from typing import Any

import numpy as np

from grain.graph.node import Context, WorkerContext
from grain.ops.worker_parts import worker_part
from grain.runtime.workers.channel import Channel, File
from grain.runtime.workers.parcels import opened
from grain.runtime.workers.protocol import Delivery, Job, Say
from grain.runtime.workers.stack_dump import report_file
from grain.streams.cursor import Cursor
from grain.streams.stream import Stream

_SECONDS_IDLE = 60.0


def serve(channel: Channel) -> None:
    """Do one job after the other, until nobody has any."""
    random.seed()
    if "numpy.random" in sys.modules:  # it takes a while to import
        np.random.seed()  # noqa: NPY002 - a fork has the state of its parent
    channel.send(Say.REPORT, file=report_file())
    desk = Desk(channel)
    while (message := channel.receive(_SECONDS_IDLE)) is not None:
        if message.kind == Say.START and not desk.work(pickle.loads(message.body), message.file):
            return
        if message.kind == Say.STOP:
            channel.send(Say.STOPPED)


class Desk:
    """A worker's place: what it keeps from one job to the next."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._known_modules = set(sys.modules)
        self._dates: dict[str, float] = {}
        self._is_initialised = False

    def work(self, job: Job, file: File | None) -> bool:
        """Do a job until it is stopped; False: it is for another process, because modules here are out of date."""
        if any(_date_of(path) != date for path, date in self._dates.items()):
            return False
        delivery = Delivery(self._channel)
        try:
            stream = self._opened(job, file, delivery)
        except Exception as error:
            delivery.failure(error)
            return True
        finally:
            self._remember_modules()
        try:
            _Run(job, stream, delivery).until_stopped()
        finally:
            try:
                stream.close()
            except Exception:
                logging.getLogger("grain").exception("A dataset failed to close.")
        del stream, delivery
        self._channel.send(Say.STOPPED)
        return True

    def _opened(self, job: Job, file: File | None, delivery: Delivery) -> Stream:
        if file is None:
            raise OSError("Too many open files to receive a pipeline.")
        self._set_up(job)
        whole = opened(file, job.sizes)
        part = worker_part(whole, job.worker_index, job.worker_count, job.is_sequential)
        stream: Stream = job.open_stream(part.placed(delivery.shelf.place), Context(job.options, WorkerContext()))
        if job.state is None:
            delivery.begun(stream.save())
        else:
            stream.restore(pickle.loads(job.state))
        return stream

    def _set_up(self, job: Job) -> None:
        """Make this process like the consumer's. What a user's own function has set up stays."""
        if self._is_initialised and job.init is not None:
            return
        sys.path[:] = job.path
        if job.directory is not None:
            with contextlib.suppress(OSError):  # it may be gone
                os.chdir(job.directory)
        for name in os.environ.keys() - job.environment.keys():
            del os.environ[name]
        os.environ.update(job.environment)
        _prefix_logs("" if job.worker_count == 1 else f"[{job.worker_index}] ")
        if job.init is not None:
            pickle.loads(job.init)(job.worker_index, job.worker_count)
        self._is_initialised = True

    def _remember_modules(self) -> None:
        """Note how old the modules are that were imported for a job."""
        new = sys.modules.keys() - self._known_modules
        self._known_modules |= new
        for name in new:
            path = getattr(sys.modules.get(name), "__file__", None)
            if path is not None:
                self._dates[path] = _date_of(path)


def _date_of(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


class _Run:
    """One job at work."""

    def __init__(self, job: Job, stream: Stream, delivery: Delivery) -> None:
        self._job, self._stream, self._delivery = job, stream, delivery
        self._room, self._has_ended = job.window, False
        self._min_shm_size = stream.context.dataset_options.min_shm_size
        self._cursor = Cursor[Any](stream, None if job.state is None else pickle.loads(job.state))
        self._counters = stream.context.counters

    def until_stopped(self) -> None:
        """Send elements while there is room for them; listen in between."""
        receive = self._delivery.channel.receive
        while True:
            message = receive(None if self._has_ended or not self._room else 0)
            if message is None:
                self._room -= 1
                self._send_next()
            elif message.kind == Say.STOP:
                return
            else:
                self._room += 1
                self._delivery.shelf.take_back(pickle.loads(message.body))

    def _send_next(self) -> None:
        try:
            element = next(self._cursor)
        except StopIteration:
            self._has_ended = True
            self._delivery.end(self._counters.taken())
            return
        except SystemExit:  # a function that ends its process
            raise
        except BaseException as error:  # an interrupt is raised again where it is waited for: the state is as before
            self._delivery.error(self._cursor.get_state(), self._counters.taken(), error)
            return
        state, counted = self._cursor.get_state(), self._counters.taken()
        try:
            self._delivery.element(state, counted, element, self._min_shm_size)
        except Exception as error:
            if self._delivery.channel.broken or isinstance(error, BrokenPipeError | ConnectionResetError):
                raise
            error.add_note(
                f"An element of type {type(element).__qualname__} could not leave worker {self._job.worker_index}, a "
                "process: it must be picklable. Convert it in the pipeline, or use `num_workers=0`."
            )
            self._delivery.error(state, counted, error)


def _prefix_logs(prefix: str) -> None:
    """Begin each line that is logged here with `prefix`."""

    def record(*args: Any, **kwargs: Any) -> logging.LogRecord:
        made = logging.LogRecord(*args, **kwargs)
        made.msg = f"{prefix}{made.msg}"
        return made

    logging.setLogRecordFactory(record)
