"""Whether threads would get to run at all."""

from __future__ import annotations

import sys
import threading
import time

_SAMPLES = 9
_SLEEP_SECONDS = 1e-3


class Probe:
    """Finds out, from a thread of its own, whether the interpreter's lock (GIL) is let go now and then.

    A thread that wakes up and finds it held has to wait for a whole switch interval. The thread ends within a few of
    them, whatever happens.
    """

    def __init__(self) -> None:
        self.is_free: bool | None = None
        try:
            threading.Thread(target=self._run, name="grain-probe", daemon=True).start()
        except RuntimeError:  # the system has no more threads, or is about to exit
            self.is_free = False

    def _run(self) -> None:
        delays = []
        for _ in range(_SAMPLES):
            began = time.perf_counter()
            time.sleep(_SLEEP_SECONDS)
            delays.append(time.perf_counter() - began - _SLEEP_SECONDS)
        self.is_free = sorted(delays)[_SAMPLES // 2] < sys.getswitchinterval() / 2
