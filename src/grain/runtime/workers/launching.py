"""Starting and ending worker processes: forked from a server that is warm, or started anew where there is none."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

from grain.runtime.workers.channel import Channel, File, is_readable
from grain.runtime.workers.forkserver import EVENT, ORDER, Event, Order

# Each worker has a core at best: more threads in its linear algebra would only be in each other's way.
_THREAD_LIMITS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
_SECONDS_TO_END = 5.0
_SECONDS_TO_DIE = 1.0
_SECONDS_BETWEEN_LOOKS = 0.001


def worker_environment() -> dict[str, str]:
    """The environment of this process as workers see it."""
    return dict.fromkeys(_THREAD_LIMITS, "1") | dict(os.environ)


def working_directory() -> str | None:
    """The folder that this process is in; None if it is gone."""
    try:
        return os.getcwd()
    except OSError:
        return None


def _thread_limits() -> list[str]:
    environment = worker_environment()
    return [environment[name] for name in _THREAD_LIMITS]


class Process:
    """A worker process, as seen by the one that started it."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.exit_code: int | None = None
        self.refusal: str | None = None
        """Why it could not be started."""

    def signal(self, number: int) -> None:
        """Send it a signal, if it is still there."""
        raise NotImplementedError

    def wait(self, timeout: float) -> bool:
        """Whether it has ended, or ends in that time."""
        raise NotImplementedError


Work: TypeAlias = Callable[[Channel], None]


class Launcher:
    """Starts processes that run `work`, a function that can be imported by its name, over a channel."""

    def __init__(self, work: Work) -> None:
        self._module, self._function = work.__module__, work.__qualname__

    @property
    def is_usable(self) -> bool:
        """Whether it can start what is needed now."""
        return True

    def has_ended(self, timeout: float = 0.0) -> bool:
        """Whether it cannot start anything any more, or will not in that time."""
        return False

    def launch(self) -> Process:
        """A new process; one that could not be started is as one that has ended."""
        raise NotImplementedError

    def close(self) -> None:
        """End all processes that it has started."""
        raise NotImplementedError

    def abandon(self) -> None:
        """In a forked copy of their owner: let go of processes that are not its own."""
        raise NotImplementedError

    def _run(self, call: str, end: socket.socket) -> Child:
        """A new interpreter that makes `call(end, work)`. It has SIGINT blocked, until it knows what to do with it."""
        program = (
            "import sys; file = int(sys.argv[1]); sys.path[:] = sys.argv[2:]; sys.argv[1:] = []; "
            "from grain.runtime.workers import forkserver; "
            f"from {self._module} import {self._function} as work; forkserver.{call}(file, work)"
        )
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return Child(
                subprocess.Popen(
                    [sys.executable, *flags, "-c", program, str(end.fileno()), *sys.path],
                    pass_fds=[end.fileno()],
                    stdin=subprocess.DEVNULL,
                    env=worker_environment(),
                    cwd=working_directory() or os.sep,
                )
            )
        finally:
            end.close()
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


class Child:
    """A child of this process.

    `Popen` starts it, but does not look after it: it would do so under a lock, which an interrupt can leave locked.
    """

    def __init__(self, started: subprocess.Popen[bytes]) -> None:
        self._owner, self._pid = os.getpid(), started.pid
        self._has_ended = False
        self.exit_code: int | None = None
        """Not known while it runs, nor where somebody else has asked for it."""
        started.returncode = 0  # so that `Popen` does not ask

    def has_ended(self, timeout: float = 0.0) -> bool:
        """Whether it has ended, or ends in that time. In a fork of this process it counts as ended."""
        deadline = time.monotonic() + timeout
        while not self._has_ended and self._owner == os.getpid():
            try:
                pid, status = os.waitpid(self._pid, os.WNOHANG)
                if pid:
                    self.exit_code = os.waitstatus_to_exitcode(status)
                self._has_ended = bool(pid)
            except ChildProcessError:
                self._has_ended = True
            if not self._has_ended:
                if time.monotonic() >= deadline:
                    return False
                time.sleep(_SECONDS_BETWEEN_LOOKS)
        return True

    def signal(self, number: int) -> None:
        """Send it a signal, if it is still there."""
        if not self.has_ended():
            os.kill(self._pid, number)

    def end(self, seconds: float) -> None:
        """Kill it, unless it ends by itself in that time."""
        if not self.has_ended(seconds):
            self.signal(signal.SIGKILL)
            self.has_ended(seconds)


class _Forked(Process):
    def __init__(self, channel: Channel, server: ForkServer, number: int, status: File) -> None:
        super().__init__(channel)
        self._server, self._number, self._status = server, number, status
        self._has_ended = False

    def signal(self, number: int) -> None:
        with contextlib.suppress(OSError):  # the server is gone, and took it along; or it has not listened for long
            self._server.order(Order.SIGNAL, self._number, number, flags=socket.MSG_DONTWAIT)

    def wait(self, timeout: float) -> bool:
        if not self._has_ended and is_readable(self._status, timeout):
            told = os.read(self._status.fileno(), EVENT.size)
            if told:
                kind, value = EVENT.unpack(told)
                if kind == Event.EXITED:
                    self.exit_code = value
                else:
                    self.refusal = os.strerror(value)
            elif not self._server.has_ended(_SECONDS_TO_DIE):  # the server could not even receive what to tell it by
                self.refusal = os.strerror(errno.EMFILE)
            self._has_ended = True
        return self._has_ended


class ForkServer(Launcher):
    """Asks a server, which has imported everything already, to fork.

    Threads may use it at the same time, and be interrupted at any time: each order is one packet, and each process has
    a pipe of its own by which the server tells how it has ended.
    """

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self._limits = _thread_limits()
        self._control, end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._server = self._run("serve_forks", end)
        self._numbers = itertools.count()

    @property
    def is_usable(self) -> bool:
        """Whether it runs, with the limits that the environment asks for now."""
        return not self.has_ended() and self._limits == _thread_limits()

    def has_ended(self, timeout: float = 0.0) -> bool:
        return self._server.has_ended(timeout)

    def launch(self) -> Process:
        status, telling = (File(int, number) for number in os.pipe())
        channel, end = Channel.pair()
        number = next(self._numbers)
        try:
            self.order(Order.FORK, number, 0, [telling.fileno(), end.fileno()])
        except ConnectionError:
            pass  # the server is gone: so the process counts as one that has ended
        except BaseException:
            channel.close()
            raise
        finally:
            end.close()
        return _Forked(channel, self, number, status)

    def order(self, order: Order, process: int, value: int, files: Sequence[int] = (), flags: int = 0) -> None:
        """Tell the server what to do."""
        socket.send_fds(self._control, [ORDER.pack(order, process, value)], list(files), flags)

    def close(self) -> None:
        """The server sees that its owner is gone, ends all workers and then itself."""
        self._control.close()
        self._server.end(_SECONDS_TO_END)

    def abandon(self) -> None:
        self._control.close()


class _Spawned(Process):
    def __init__(self, channel: Channel, child: Child) -> None:
        super().__init__(channel)
        self._child = child

    def signal(self, number: int) -> None:
        self._child.signal(number)

    def wait(self, timeout: float) -> bool:
        has_ended = self._child.has_ended(timeout)
        self.exit_code = self._child.exit_code
        return has_ended


class Spawning(Launcher):
    """Launches a new interpreter for each process."""

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self._processes: list[_Spawned] = []

    def launch(self) -> Process:
        channel, end = Channel.pair()
        process = _Spawned(channel, self._run("work_alone", end))
        self._processes = [*(process for process in self._processes if not process.wait(0)), process]
        return process

    def close(self) -> None:
        for process in self._processes:
            process.signal(signal.SIGKILL)
            process.wait(_SECONDS_TO_END)

    def abandon(self) -> None:
        for process in self._processes:
            process.channel.close()


def launcher(work: Work) -> Launcher:
    """The fastest way that this system has."""
    if os.name != "posix":
        raise NotImplementedError(
            f"Worker processes need a POSIX system, and this one is {sys.platform}. "
            "Use `num_workers=0`, or threads: `grain.experimental.multithread_prefetch`."
        )
    return ForkServer(work) if sys.platform == "linux" else Spawning(work)
