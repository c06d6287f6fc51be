"""An older revision of this package beside the present one: the same workloads, in the same run."""

from __future__ import annotations

import io
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from competing import ROOT, Contestant, compile_files, machine, say
from workloads import Workload

BAR = 0.97
# How often a row below the bar runs all its rounds again before it is judged.
EXTENSIONS = 2
# In any unit: a peak of memory may not grow at all, and then there is nothing to divide by.
LEAST = 1e-3
# What tells a few percent apart also where other programs run.
STEADIER = {"ns_per_element": "ns_per_element_at_best", "ms_per_item": "processor_ms_per_item"}


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", "-C", ROOT, *arguments], check=True, capture_output=True).stdout


def measure_of(workload: Workload) -> str:
    return workload.measure if workload.is_concurrent else STEADIER.get(workload.measure, workload.measure)


def full_hash(revision: str) -> str:
    try:
        found = _git("rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}")
    except (OSError, subprocess.CalledProcessError) as error:
        reason = getattr(error, "stderr", b"").decode().strip() or error
        sys.exit(f"error: --against {revision}: not a revision of {ROOT} ({reason})")
    return found.decode().strip()


def source_of(commit: str) -> Path:
    """The folder `src` of a revision under `.bench/revisions`, written there on first use."""
    folder = ROOT / ".bench" / "revisions" / commit
    if not folder.exists():
        try:
            archive = _git("archive", "--format=tar", commit, "src/grain")
        except subprocess.CalledProcessError as error:
            sys.exit(f"error: there is no src/grain in {commit} ({error.stderr.decode().strip()})")
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(dir=folder.parent))
        try:
            with tarfile.open(fileobj=io.BytesIO(archive)) as files:
                files.extractall(unfinished, filter="data")
            os.replace(unfinished, folder)  # All of it or nothing, should this be interrupted.
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return folder / "src"


@dataclass
class Duel:
    """One row: the present package and the older one at the same workload."""

    workload: Workload
    present: Contestant
    older: Contestant
    bar: float
    rounds: int = 0

    def run(self, rounds: int) -> None:
        """Runs all rounds, and all of them again, twice at most, while the ratio is below the bar."""
        for extension in range(EXTENSIONS + 1):
            if extension:
                say(f"{self.workload.name}: {self.ratio:.3f}x after {self.rounds} rounds, running {rounds} more")
            for _ in range(rounds):
                self._take_turns()
            if self.met is not False:
                return

    def _take_turns(self) -> None:
        if self.present.failed or self.older.failed:
            return
        pair = [self.present, self.older]
        for contestant in pair if self.rounds % 2 == 0 else reversed(pair):
            contestant.run(self.workload)
        self.rounds += 1

    @property
    def ratio(self) -> float | None:
        if self.present.failed or self.older.failed:
            return None
        # A process that is disturbed may also need less memory than usual, but never less time.
        judged = statistics.median if self.workload.unit == "MB" else min
        return max(judged(self.older.values), LEAST) / max(judged(self.present.values), LEAST)

    @property
    def met(self) -> bool | None:
        return None if self.ratio is None else self.ratio >= self.bar

    @property
    def failed(self) -> bool:
        """Whether something went wrong; what the older package never had is no failure."""
        return self.present.failed or (self.older.failed and not self.older.lacking)

    def table_row(self) -> str:
        result = "failed" if self.failed else "not there" if self.ratio is None else f"{self.ratio:.3f}x"
        met = {True: "yes", False: "**no**", None: "-"}[self.met]
        return f"| {self.workload.name:22} | {result:>9} | {f'at least {self.bar:g}x':15} | {met:6} |"

    def as_dict(self) -> dict[str, Any]:
        return {
            "workload": self.workload.name,
            "unit": self.workload.unit,
            "best": {"present": self.present.best, "older": self.older.best},
            "rounds": {"present": self.present.values, "older": self.older.values},
            "result": self.ratio,
            "bar": self.bar,
            "met": self.met,
        }


def summary(duels: list[Duel]) -> dict[str, Any]:
    ratios = {d.workload.name: d.ratio for d in duels if d.ratio is not None}
    if not ratios:
        return {}
    worst = min(ratios, key=ratios.__getitem__)
    return {"geometric_mean": statistics.geometric_mean(ratios.values()), "worst": worst, "least": ratios[worst]}


def compare(
    revision: str, workloads: list[Workload], python: str, rounds: int, bar: float, report: Path | None = None
) -> int:
    """Prints the table, and writes the measurements to `report`; the exit status is 1 if a contestant failed."""
    commit = full_hash(revision)
    present = _git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*").decode().strip()
    versions = {"present": present, "older": commit, "python": platform.python_version()}
    sources = {"present": ROOT / "src", "older": source_of(commit)}
    for source in sources.values():
        compile_files(python, source)
    duels: list[Duel] = []
    print(f"| {'workload':22} | {'ratio':>9} | {'bar':15} | {'met':6} |")
    print("|------------------------|----------:|-----------------|--------|", flush=True)
    for place, workload in enumerate(workloads, 1):
        measure = measure_of(workload)
        sides = {side: Contestant("ours", "ours", python, source, measure) for side, source in sources.items()}
        duel = Duel(workload, **sides, bar=bar)
        duel.run(rounds)
        told = ", ".join(f"{side} {'not there' if c.lacking else c.told(workload)}" for side, c in sides.items())
        say(f"[{place}/{len(workloads)}] {workload.name}: {told}")
        print(duel.table_row(), flush=True)
        duels.append(duel)
    told = ", ".join(f"{name} {version}" for name, version in versions.items())
    print(f"\nBest of {rounds} rounds; {told}; {machine()}.")
    if longer := [f"{d.workload.name} ({d.rounds})" for d in duels if d.rounds > rounds]:
        print(f"Below the bar after {rounds} rounds, and so run for more: {', '.join(longer)}.")
    result = summary(duels)
    print(
        "Geometric mean {geometric_mean:.3f}x; worst {worst}, {least:.3f}x.".format(**result) if result else "No ratio."
    )
    if report:
        contents = {"versions": versions, "machine": machine(), **result, "rows": [d.as_dict() for d in duels]}
        report.write_text(json.dumps(contents, indent=2) + "\n")
    return 1 if any(duel.failed for duel in duels) else 0
