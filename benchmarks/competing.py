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
    values: list[float] = field(default_factory=list)
    version: str = ""
    failed: bool = False

    def run(self, workload: Workload) -> None:
        if self.failed:
            return
        env = os.environ | {"JAX_PLATFORMS": "cpu"}
        if self.environment != "ours":
            env.pop("PYTHONPATH", None)  # It may well lead to our package.
        command = [self.python, str(HERE / "contestant.py"), workload.name, self.name]
        try:
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=True)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            self.failed = True
            say(f"{workload.name}: {self.name}: {error}\n{str(error.stderr)[-2000:]}")
            return
        report = json.loads(done.stdout.splitlines()[-1])
        self.values.append(report["value"])
        self.version = report["version"]

    @property
    def best(self) -> float | None:
        return None if self.failed else min(self.values)

    def told(self, workload: Workload) -> str:
        """Its best as people read it."""
        return "failed" if self.best is None else f"{number(self.best)} {workload.unit}"
