"""Runs small programs as users would, and looks at what they leave behind."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from pathlib import Path

MARK = "GRAIN_TEST_PROGRAM"
SHARED_MEMORY = Path("/dev/shm")


class Program:
    """A running program; everything that descends from it carries its mark, whoever becomes its parent."""

    def __init__(self, arguments, text=None, cwd=None, **environment):
        self.mark = uuid.uuid4().hex
        self.shared_before = shared_memory()
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.PIPE if text is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cwd,
            # Newer Pythons warn of forks where there are threads, as there are here on purpose.
            env={**os.environ, MARK: self.mark, "PYTHONWARNINGS": "ignore::DeprecationWarning", **environment},
        )
        if text is not None:
            self.process.stdin.write(text)
            self.process.stdin.close()
            self.process.stdin = None

    @property
    def pid(self):
        return self.process.pid

    def read_line(self):
        return self.process.stdout.readline().strip()

    def finish(self, timeout=60):
        """Exit code, output and errors, once it has ended."""
        try:
            output, errors = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.kill_all()
            output, errors = self.process.communicate()
            raise AssertionError(f"It did not end. Output:\n{output}\nErrors:\n{errors}") from None
        return self.process.returncode, output, errors

    def descendants(self):
        """The processes that it has started, and those have, in the order of their numbers."""
        marked = f"{MARK}={self.mark}".encode()
        found = []
        for folder in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if folder.name.isdigit() and marked in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
        return sorted(pid for pid in found if pid != self.pid and is_alive(pid))

    def kill_all(self):
        for pid in [self.pid, *self.descendants()]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def assert_nothing_left(self, seconds=3.0):
        """No process, and no shared memory with a name, `seconds` after it has ended."""
        self.process.wait(30)
        for stream in (self.process.stdout, self.process.stderr):
            stream.close()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            left, shared = self.descendants(), shared_memory() - self.shared_before
            shared = shared and shared - in_use()  # of this program nobody is left to use any
            if not left and not shared:
                return
            time.sleep(0.02)
        self.kill_all()
        assert not left, f"processes {left} are still there"
        assert not shared, f"{shared} are still in shared memory"


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def shared_memory():
    """The named shared memory that there is; of others too, so only names that grain or Python would give count."""
    return {path.name for path in SHARED_MEMORY.iterdir() if path.name.startswith(("psm_", "grain", "sem.mp"))}


def in_use():
    """The shared memory that living processes have mapped, and are still to remove themselves."""
    names = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            names.update(re.findall(rf"{SHARED_MEMORY}/(\S+)", maps.read_text(errors="replace")))
    return names


def program(source, *, how="file", folder=None, **environment):
    """Start `source` as a script, with `-c`, or from standard input."""
    source = textwrap.dedent(source)
    if how == "-c":
        return Program(["-c", source], **environment)
    if how == "-":
        return Program(["-"], source, **environment)
    path = Path(folder) / "program.py"
    path.write_text(source)
    return Program([str(path)], **environment)
