"""What /proc tells about processes: who descends from whom, and what each one holds. Linux only."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
SHARED_MEMORY = Path("/dev/shm")
# What reading about a process that has just ended may raise; a zombie's files are not readable for everybody.
GONE = (FileNotFoundError, ProcessLookupError, PermissionError)


def _pids() -> list[int]:
    return [int(name) for name in os.listdir(PROC) if name.isdigit()]


def descendants(pid: int) -> list[int]:
    """The children of a process, their children, and so on."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for other in _pids():
        with contextlib.suppress(*GONE):
            after_name = (PROC / str(other) / "stat").read_text().rpartition(")")[2].split()
            children[int(after_name[1])].append(other)
    found = [pid]
    for parent in found:
        found += children[parent]
    return found[1:]


def marked(mark: str) -> list[int]:
    """The living processes with this text in the environment they were started with, whoever their parent is now."""
    found = []
    for pid in _pids():
        with contextlib.suppress(*GONE):
            if mark.encode() in (PROC / str(pid) / "environ").read_bytes():  # A zombie's is empty.
                found.append(pid)
    return found


def shared_memory() -> set[str]:
    return set(os.listdir(SHARED_MEMORY))


@dataclass
class Holdings:
    """What some processes hold together."""

    mb: float = 0
    fds: int = 0
    threads: int = 0

    @classmethod
    def of(cls, *pids: int) -> Holdings:
        total = cls()
        for pid in pids:
            with contextlib.suppress(*GONE):
                fields = dict(line.split(":", 1) for line in (PROC / str(pid) / "status").read_text().splitlines())
                total.fds += len(os.listdir(PROC / str(pid) / "fd"))
                total.threads += int(fields["Threads"])
                total.mb += int(fields.get("VmRSS", "0 kB").split()[0]) / 1024  # A zombie has none.
        return total


def proportional_mb(pids: list[int]) -> float:
    """The memory of the processes together, in which a page that several of them map counts once (PSS)."""
    total = 0
    for pid in pids:
        with contextlib.suppress(*GONE):
            lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


@contextlib.contextmanager
def peak_memory(every: float = 0.02) -> Iterator[list[float]]:
    """Samples the memory of this process and its descendants, from a thread; the list ends up holding the samples."""
    samples: list[float] = []
    done = threading.Event()

    def watch() -> None:
        while not done.wait(every):
            samples.append(proportional_mb([os.getpid(), *descendants(os.getpid())]))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield samples
    finally:
        done.set()
        watcher.join()
