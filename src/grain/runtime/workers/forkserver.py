"""The process from which workers are forked. It has imported what they need, and nothing of the user's.

It ends when the process that it works for does, and takes all workers with it.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import gc
import os
import select
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

from grain.runtime.workers.channel import Channel

_SECONDS_BETWEEN_LOOKS = 1.0
_PR_SET_PDEATHSIG = 1
ORDER = struct.Struct("<qqq")
"""What to do, with the process of which number, which its owner chose, and a signal."""
EVENT = struct.Struct("<qq")
"""What has become of a process, and its exit code or an error's number."""

Work = Callable[[Channel], Any]


class Order(enum.IntEnum):
    """What is asked of the server: one packet each."""

    FORK = 0
    """With two files: a pipe by which to tell what becomes of the process, and its end of a channel."""
    SIGNAL = 1


class Event(enum.IntEnum):
    """What the server tells."""

    EXITED = 0
    REFUSED = 1


class _Running(NamedTuple):
    pid: int
    telling: int
    """The pipe to tell by."""


def serve_forks(file: int, work: Work) -> None:
    """Fork a process that runs `work` whenever asked to over the socket `file`, and tell when one ends."""
    owner = os.getppid()
    _prepare()
    gc.collect()
    gc.freeze()  # what is there now stays shared with the workers
    control = socket.socket(fileno=file)
    _Server(control, work).serve(owner)
    control.close()
    os._exit(0)


def work_alone(file: int, work: Work) -> None:
    """Do `work` in a process that no server looks after: it sees for itself when its owner ends."""
    owner = os.getppid()
    _prepare()

    def watch() -> None:
        while os.getppid() == owner:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        os._exit(1)

    threading.Thread(target=watch, name="grain-watch", daemon=True).start()
    _work_and_end(file, work)


def _prepare() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the user's process, which closes what it has to
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):  # it may be closed, or something else
            # Line by line even where output is not to be buffered: or lines of several workers would be mixed up.
            stream.reconfigure(line_buffering=True, write_through=False)  # type: ignore[union-attr]


class _Server:
    def __init__(self, control: socket.socket, work: Work) -> None:
        self._control, self._work = control, work
        self._children: dict[int, _Running] = {}
        """By what the owner calls them."""
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)

    def serve(self, owner: int) -> None:
        """Do as told, until `owner` ends; then end all children."""
        watched = select.poll()
        watched.register(self._control, select.POLLIN)
        watched.register(self._woken, select.POLLIN)
        with contextlib.suppress(EOFError, OSError):
            while os.getppid() == owner:
                ready = dict(watched.poll(_SECONDS_BETWEEN_LOOKS * 1000))
                if self._woken in ready:
                    os.read(self._woken, 4096)
                    self._report_ended()
                if self._control.fileno() in ready:
                    self._obey()
        for child in self._children.values():
            os.kill(child.pid, signal.SIGKILL)
        for child in self._children.values():
            os.waitpid(child.pid, 0)

    def _obey(self) -> None:
        packet, files, _, _ = socket.recv_fds(self._control, ORDER.size, 2)
        if not packet:
            raise EOFError("The owner has ended.")
        order, number, value = ORDER.unpack(packet)
        if order == Order.SIGNAL:
            if number in self._children:
                os.kill(self._children[number].pid, value)
        elif len(files) == 2:
            telling, end = files
            self._fork(number, telling, end)
            os.close(end)
        else:  # there was no room for them; that the pipe is closed tells as much
            for file in files:
                os.close(file)

    def _fork(self, number: int, telling: int, end: int) -> None:
        server = os.getpid()
        try:
            child = os.fork()
        except OSError as error:
            _tell(telling, Event.REFUSED, error.errno or errno.EAGAIN)
            return
        if not child:
            _die_with_parent()
            if os.getppid() != server:
                os._exit(1)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            others = [other.telling for other in self._children.values()]
            for inherited in (self._control.fileno(), self._woken, self._wake, telling, *others):
                os.close(inherited)
            _work_and_end(end, self._work)
        self._children[number] = _Running(child, telling)

    def _report_ended(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                number = next(number for number, child in self._children.items() if child.pid == ended[0])
                _tell(self._children.pop(number).telling, Event.EXITED, os.waitstatus_to_exitcode(ended[1]))


def _tell(pipe: int, event: Event, value: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # the owner does not want to know
        os.write(pipe, EVENT.pack(event, value))
    os.close(pipe)


def _work_and_end(file: int, work: Work) -> None:
    channel, code = Channel(socket.socket(fileno=file)), 0
    try:
        work(channel)
    except SystemExit as request:
        code = request.code if isinstance(request.code, int) else int(request.code is not None)
        if request.code is not None and not isinstance(request.code, int):
            print(request.code, file=sys.stderr)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the consumer is gone
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        channel.close()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(code & 0xFF)


def _die_with_parent() -> None:
    """Have the kernel end this process when its parent ends, however that happens and whatever this one is doing."""
    with contextlib.suppress(AttributeError, OSError):  # Linux alone has it; elsewhere the server's own kill must do
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
