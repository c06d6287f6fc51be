"""Starting and ending worker processes: forked from a server that is warm, or started anew where there is none."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import TypeAlias

from grain.runtime.workers.channel import Channel
from grain.runtime.workers.forkserver import EVENT, Order

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

    def launch(self) -> Process:
        """A new process."""
        raise NotImplementedError

    def close(self) -> None:
        """End all processes that it has started."""
        raise NotImplementedError

    def abandon(self) -> None:
        """In a forked copy of their owner: let go of processes that are not its own."""
        raise NotImplementedError

    def _run(self, call: str, end: socket.socket) -> subprocess.Popen[bytes]:
        """A new interpreter that makes `call(end, work)`. It has SIGINT blocked, until it knows what to do with it."""
        program = (
            "import sys; file = int(sys.argv[1]); sys.path[:] = sys.argv[2:]; sys.argv[1:] = []; "
            "from grain.runtime.workers import forkserver; "
            f"from {self._module} import {self._function} as work; forkserver.{call}(file, work)"
        )
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return subprocess.Popen(
                [sys.executable, *flags, "-c", program, str(end.fileno()), *sys.path],
                pass_fds=[end.fileno()],
                stdin=subprocess.DEVNULL,
                env=worker_environment(),
                cwd=working_directory() or os.sep,
            )
        finally:
            end.close()
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


class _Forked(Process):
    def __init__(self, channel: Channel, server: ForkServer, number: int) -> None:
        super().__init__(channel)
        self._server, self._number = server, number

    def signal(self, number: int) -> None:
        self._server.signal(self._number, number)

    def wait(self, timeout: float) -> bool:
        return self._server.wait(self, timeout)


class ForkServer(Launcher):
    """Launches by asking a server process, which has imported everything already, to fork."""

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self._lock = threading.Lock()
        self._limits = _thread_limits()
        self._control, end = Channel.pair()
        self._server = self._run("serve_forks", end)
        self._numbers = itertools.count()
        self._running: dict[int, _Forked] = {}

    @property
    def is_usable(self) -> bool:
        """Whether it runs, with the limits that the environment asks for now."""
        is_running = self._server.poll() is None and not self._control.broken
        return is_running and self._limits == _thread_limits()

    def launch(self) -> Process:
        channel, end = Channel.pair()
        with self._lock, end:
            number = next(self._numbers)
            process = self._running[number] = _Forked(channel, self, number)
            self._control.send(Order.FORK, [EVENT.pack(number, 0)], end.fileno())
        return process

    def signal(self, process: int, number: int) -> None:
        """Pass on a signal; the server knows whether the process is still there."""
        with self._lock, contextlib.suppress(OSError):
            self._control.send(Order.SIGNAL, [EVENT.pack(process, number)])

    def wait(self, process: _Forked, timeout: float) -> bool:
        """Whether a process has ended, or ends in that time."""
        deadline = time.monotonic() + timeout
        with self._lock:
            while process.exit_code is None and process.refusal is None:
                try:
                    message = self._control.receive(max(0.0, deadline - time.monotonic()))
                except (EOFError, OSError):
                    return True  # the server is gone, and took it along
                if message is None:
                    return False
                number, value = EVENT.unpack(message.body)
                ended = self._running.pop(number)
                if message.kind == Order.EXITED:
                    ended.exit_code = value
                else:
                    ended.refusal = os.strerror(value) if value else "Too many open files"
        return True

    def close(self) -> None:
        """The server sees that its owner is gone, ends all workers and then itself."""
        self._control.close()
        try:
            self._server.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()

    def abandon(self) -> None:
        self._control.close()
        self._server.returncode = 0  # it is not a child of this process: do not ask for it


class _Spawned(Process):
    def __init__(self, channel: Channel, child: subprocess.Popen[bytes]) -> None:
        super().__init__(channel)
        self.child = child

    def signal(self, number: int) -> None:
        self.child.send_signal(number)

    def wait(self, timeout: float) -> bool:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.exit_code = self.child.wait(timeout)
        return self.exit_code is not None


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
            process.child.returncode = 0


def launcher(work: Work) -> Launcher:
    """The fastest way that this system has."""
    if os.name != "posix":
        raise NotImplementedError(
            f"Worker processes need a POSIX system, and this one is {sys.platform}. "
            "Use `num_workers=0`, or threads: `grain.experimental.multithread_prefetch`."
        )
    return ForkServer(work) if sys.platform == "linux" else Spawning(work)
