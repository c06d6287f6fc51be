"""A contestant as the driver sees it: the process it runs in, and what it measured there."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from workloads import Workload

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.2g}" if value < 1 else f"{value:.3g}"


def machine() -> str:
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs"


def compile_files(python: str, source: Path) -> None:
    """As an install does: `import` is not to be timed with a compiler in it."""
    subprocess.run([python, "-m", "compileall", "-q", source], check=True, stdout=sys.stderr)


@dataclass
class Contestant:
    """One side of one row, and what it measured in each round."""

    name: str
    environment: str
    python: str
    # The folder that `grain` has to come from, in place of the one that is installed.
    source: Path | None = None
    # What to measure in place of what the workload says.
    measure: str | None = None
    values: list[float] = field(default_factory=list)
    version: str = ""
    failed: bool = False
    # It failed because its package does not have what the workload uses.
    lacking: bool = False

    def run(self, workload: Workload) -> None:
        if self.failed:
            return
        who = f"{workload.name}: {self.name}" + (f" from {self.source}" if self.source else "")
        command = [self.python, str(HERE / "contestant.py"), workload.name, self.name, *filter(None, [self.measure])]
        # `python -c`, which a workload may start, looks for packages in the current folder first.
        cwd = HERE if self.source else None
        try:
            done = subprocess.run(
                command, env=self._variables(), cwd=cwd, capture_output=True, text=True, timeout=300, check=True
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            self.failed = True
            say(f"{who}: {error}\n{str(error.stderr)[-2000:]}")
            return
        report = json.loads(done.stdout.splitlines()[-1])
        if self.source and not Path(report["package"]).resolve().is_relative_to(self.source):
            sys.exit(f"{who}: error: measured {report['package']} instead")
        self.version = report["version"]
        if "lacks" in report:
            self.failed = self.lacking = True
            say(f"{who}: {report['lacks']}")
        else:
            self.values.append(report["value"])

    def _variables(self) -> dict[str, str]:
        variables = os.environ | {"JAX_PLATFORMS": "cpu"}
        if self.source:
            paths = [str(self.source), variables.get("PYTHONPATH", "")]
            variables["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        elif self.environment != "ours":
            variables.pop("PYTHONPATH", None)  # It may well lead to our package.
        return variables

    @property
    def best(self) -> float | None:
        return None if self.failed else min(self.values)

    def told(self, workload: Workload) -> str:
        """Its best as people read it."""
        return "failed" if self.best is None else f"{number(self.best)} {workload.unit}"
