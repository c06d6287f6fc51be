"""Finding out where a process is that says nothing: it writes the stacks of its threads when it is sent a signal."""

from __future__ import annotations

import faulthandler
import os
import signal
import time

from grain.runtime.workers.channel import File
from grain.runtime.workers.launching import Process
from grain.runtime.workers.slabs import anonymous_file
from grain.tracebacks import PACKAGE_FOLDER

_SIGNAL = signal.SIGUSR2
_SECONDS_TO_WRITE = 1.0
_LINES = 12


def report_file() -> File:
    """The file to which this process writes when it gets the signal, even if it is busy in C code."""
    file = anonymous_file(0)
    faulthandler.register(_SIGNAL, file, all_threads=True)
    return file


def stack_dump(process: Process, report: File | None) -> str:
    """The functions that `process` is in, the innermost first, without those of this package."""
    if report is None:
        return "  (it has not begun to work)"
    file = report.fileno()
    before = os.fstat(file).st_size
    process.signal(_SIGNAL)
    deadline = time.monotonic() + _SECONDS_TO_WRITE
    while os.fstat(file).st_size == before and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)  # it is written line by line
    text = os.pread(file, os.fstat(file).st_size - before, before).decode(errors="replace")
    lines = [line for line in text.splitlines() if line.startswith("  File") and PACKAGE_FOLDER not in line]
    return "\n".join(lines[:_LINES]) or "  (it does not answer)"
