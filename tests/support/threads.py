"""What tests of threads need: functions that remember their calls or wait, and a look at who is running."""

import subprocess
import sys
import threading
import time

LONG = 20.0
"""Seconds after which something that should happen is taken to hang."""


def until(claim):
    """Wait for `claim()` to be true; there is no event for what is looked for."""
    ends = time.monotonic() + LONG
    while not claim():
        assert time.monotonic() < ends, "it did not happen"
        time.sleep(0.001)


def grain_threads():
    """The library's threads that are alive, but for the one that takes workers back, which stays."""
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith("grain-") and name != "grain-workers"]


def no_threads():
    """Wait for all of the library's threads to be gone."""
    until(lambda: not grain_threads())


class Watched:
    """A function that remembers what it was called with; some arguments fail, or wait for an event."""

    def __init__(self, fails=(), waits=(), error=ValueError):
        self.calls, self.threads = [], set()
        self.fails, self.waits, self.error = set(fails), set(waits), error
        self.waiting, self.go_on = threading.Event(), threading.Event()

    def __call__(self, x):
        self.calls.append(x)
        self.threads.add(threading.current_thread().name)
        if x in self.waits:
            self.waiting.set()
            assert self.go_on.wait(LONG)
        if x in self.fails:
            raise self.error(f"no {x}")
        return x


def run_script(text):
    """What a script prints; it must end by itself, quickly and without complaint."""
    # Newer Pythons warn of forks where there are threads, as there are here on purpose.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", text]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONG, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
