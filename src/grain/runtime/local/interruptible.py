"""Threads that are waited for by one that may be interrupted.

Ctrl-C inside of a `threading.Condition` can leave its lock released that it is about to release, or taken for ever.
"""

from __future__ import annotations

import contextlib
import threading


class Bell:
    """What one thread waits for and any may ring, also while garbage is collected.

    It says that something may have changed: who waits looks again. A ring that nobody has waited for is kept, one.

    >>> bell = Bell()
    >>> bell.ring()
    >>> bell.wait(), bell.wait(seconds=0.001)
    (True, False)
    """

    def __init__(self) -> None:
        self._silence = threading.Lock()
        self._silence.acquire()

    def ring(self) -> None:
        """Wake up who waits, or will."""
        with contextlib.suppress(RuntimeError):  # it has been rung already
            self._silence.release()

    def wait(self, seconds: float | None = None) -> bool:
        """Until it rings, at most so long; whether it has."""
        return self._silence.acquire(timeout=-1 if seconds is None else seconds)


def start_thread(thread: threading.Thread) -> None:
    """Start a thread. An interrupt while that is waited for stays one; the thread may run then."""
    try:
        thread.start()
    except RuntimeError as error:
        if isinstance(error.__context__, KeyboardInterrupt) and "lock" in str(error):  # of the event waited for
            raise error.__context__ from None
        raise
