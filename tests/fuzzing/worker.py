"""A process that reads damaged files, and says on its standard output which, and what came of it.

It lives within limits: what takes too long, or too much memory, ends it or is an error that is found.
"""

from __future__ import annotations

import dataclasses
import faulthandler
import json
import os
import resource
import sys
import time
import warnings
from pathlib import Path

from fuzzing.cases import Case, judged
from fuzzing.table import FORMATS

MOST_ASKED_FOR = 4096
"""Megabytes that may be asked for and not used: an error then, which must name the file like any other."""


def limit_memory() -> None:
    """Let this process ask for so much more memory than it has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MOST_ASKED_FOR * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


class Memory:
    """How much this process has used since it was last asked."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")  # which forgets the peak
        self._before = self._peak()

    def megabytes(self) -> int:
        return (self._peak() - self._before) // 1024

    @staticmethod
    def _peak() -> int:
        status = Path("/proc/self/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0])


def main(name: str, seed: str, first: str, stop: str, deadline: str, seconds: str, megabytes: str) -> None:
    """Read the files of a format with numbers from `first` to `stop`, as long as the clock is before `deadline`."""
    faulthandler.enable()
    warnings.simplefilter("ignore")
    format = FORMATS[name]
    judged(Case(format, 0, 0), Case(format, 0, 0).damaged())  # all modules are imported now
    limit_memory()
    memory = Memory()
    for number in range(int(first), int(stop)):
        if time.time() > float(deadline):
            break
        faulthandler.dump_traceback_later(float(seconds), exit=True)
        _say(number=number, view="making")
        case = Case(format, int(seed), number)
        damaged = case.damaged()
        memory.restart()
        verdict = judged(case, damaged, lambda view, number=number: _say(number=number, view=view))
        if memory.megabytes() > int(megabytes) and verdict.problem is None:
            verdict = dataclasses.replace(verdict, problem=f"memory: {memory.megabytes()} MB were used", view="all")
        faulthandler.cancel_dump_traceback_later()
        _say(number=number, is_done=True, **dataclasses.asdict(verdict))


def _say(**message: object) -> None:
    os.write(1, json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
