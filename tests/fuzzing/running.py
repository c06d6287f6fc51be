"""Many damaged files in processes of their own, and what was found."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from fuzzing.cases import Case
from fuzzing.table import FORMATS

_WORKER = "fuzzing.worker"
_AT_ONCE = 500
"""Files that one process reads: what a process has lived through must not hide what a fresh one shows."""
_KEPT_OF_A_KIND = 3
_FOLDER = "/dev/shm" if os.path.isdir("/dev/shm") else None
"""Where files are written that are read once: in memory, if that can be had."""
_SURROUNDINGS = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",  # or each thread reserves much memory that it does not use
    "PYTHONHASHSEED": "0",
}


@dataclasses.dataclass(frozen=True)
class Limits:
    """Of what one file may take."""

    seconds: float = 20
    megabytes: int = 512


@dataclasses.dataclass
class Tally:
    """What came of the files of one format."""

    files: int = 0
    given: int = 0
    refused: int = 0
    findings: Counter[str] = dataclasses.field(default_factory=Counter)
    """How often each kind of problem was met."""


class Run:
    """Files of several formats, read by `jobs` processes at a time; what fails is kept in `folder`."""

    def __init__(self, formats: Iterable[str], seed: int, folder: Path | None, limits: Limits = Limits()) -> None:
        self.tallies = {name: Tally() for name in formats}
        self._seed, self._folder, self._limits = seed, folder, limits
        self._lock = threading.Lock()
        self.problems: list[str] = []
        """One line for each kind of problem: the first that was met."""

    def read(self, files: int | None, seconds: float | None, jobs: int) -> None:
        """Read `files` of each format, or as many as can be read in `seconds`."""
        deadline = time.time() + (seconds if seconds is not None else 10**9)
        portions = self._portions(files, deadline)
        with ThreadPoolExecutor(jobs) as threads:
            for done in [threads.submit(self._work, portions, deadline) for _ in range(jobs)]:
                done.result()

    def _portions(self, files: int | None, deadline: float) -> Iterator[tuple[str, int, int]]:
        first = 0
        while (files is None or first < files) and time.time() < deadline:
            stop = first + _AT_ONCE if files is None else min(first + _AT_ONCE, files)
            yield from ((name, first, stop) for name in self.tallies)
            first = stop

    def _work(self, portions: Iterator[tuple[str, int, int]], deadline: float) -> None:
        while True:
            with self._lock:
                portion = next(portions, None)
            if portion is None or time.time() > deadline:
                return
            name, first, stop = portion
            while first < stop and time.time() < deadline:
                first = self._process(name, first, stop, deadline)

    def _process(self, name: str, first: int, stop: int, deadline: float) -> int:
        """Read files in one process, and return the number of the one after the last."""
        arguments = [name, self._seed, first, stop, deadline, self._limits.seconds, self._limits.megabytes]
        with tempfile.TemporaryFile("w+") as errors, tempfile.TemporaryDirectory(dir=_FOLDER) as folder:
            process = subprocess.Popen(
                [sys.executable, "-m", _WORKER, *map(str, arguments)],
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **_SURROUNDINGS, "TMPDIR": folder},
            )
            number, view = first - 1, "starting"
            assert process.stdout is not None
            with process.stdout:
                for line in process.stdout:
                    message = json.loads(line)
                    number, view = message["number"], message["view"]
                    if message.get("is_done"):
                        view = ""
                        self._done(name, message)
            code = process.wait()
            if code == 0:
                return stop
            errors.seek(0)
            text = errors.read()
        if view == "" or number < first:
            raise RuntimeError(f"The process for {name} ended with {code} beside its files:\n{text}")
        kind = "hang" if "Timeout" in text else f"crash ({-code})" if code < 0 else f"end ({code})"
        self._done(name, {"number": number, "view": view, "problem": f"{kind}: {_last_frames(text)}"})
        return number + 1

    def _done(self, name: str, message: dict[str, Any]) -> None:
        with self._lock:
            tally = self.tallies[name]
            tally.files += 1
            tally.given += message.get("given", 0)
            tally.refused += message.get("refused", 0)
            problem = message["problem"]
            if problem is None:
                return
            kind = f"{message['view']}: {_kind(problem)}"
            tally.findings[kind] += 1
            if tally.findings[kind] > _KEPT_OF_A_KIND:
                return
            kept = self._kept(Case(FORMATS[name], self._seed, message["number"]))
            if tally.findings[kind] == 1:
                self.problems.append(f"{name}, {message['view']}: {problem}\n    {kept}")

    def _kept(self, case: Case) -> str:
        """The command that reads a file again."""
        damaged = case.damaged()
        if self._folder is None:
            return f"file {case.number} with seed {case.seed}, {damaged.mutation}"
        folder = self._folder / case.format.name
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{case.seed}-{case.number}-{damaged.mutation}{case.format.suffix}"
        path.write_bytes(damaged.content)
        return f"scripts/fuzz --replay {path}"


def _kind(problem: str) -> str:
    """A problem without what belongs to one file only."""
    words = re.split(r" is |: number|: [{']", problem)[0] if problem.startswith(("wrong", "differs")) else problem
    return re.sub(r"[0-9]+", "N", re.sub(r"'/[^']*'|/\S*grain-fuzz-[^)\s]*|0x[0-9a-f]+", "...", words))[:100]


def _last_frames(text: str) -> str:
    """Where a process was when it ended, in a few words."""
    frames = re.findall(r'File "[^"]*/([^"/]+)", line (\d+) in (\w+)', text)
    return " < ".join(f"{file}:{line} {function}" for file, line, function in frames[:5]) or text[-200:]


def parsed_name(path: Path) -> tuple[Case, str]:
    """The case whose file is kept at `path`, and its mutation."""
    found = re.match(r"(\d+)-(\d+)-([a-z]+)\.", path.name)
    if found is None or path.parent.name not in FORMATS:
        raise ValueError(f"Expected a path like tfrecord/SEED-NUMBER-MUTATION.tfrecord, got {str(path)!r}.")
    return Case(FORMATS[path.parent.name], int(found[1]), int(found[2])), found[3]
