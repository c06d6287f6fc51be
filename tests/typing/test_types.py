"""Two type checkers agree with the files `typed_*.py` of this folder, which are not run.

Both check what `assert_type` says. A line with `type: ignore` is wrong on purpose, and an error if a checker finds
nothing wrong with it.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
SOURCES = ROOT / "src"
FILES = sorted(map(str, FOLDER.glob("typed_*.py")))


def run(module, *arguments):
    command = [sys.executable, "-m", module, *map(str, arguments)]
    environment = {**os.environ, "MYPYPATH": str(SOURCES)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_there_is_much_to_check():
    lines = [line for path in FILES for line in Path(path).read_text().splitlines()]
    assert sum("assert_type(" in line for line in lines) > 150
    assert sum("# type: ignore[" in line for line in lines) > 80


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
def test_mypy():
    assert f"no issues found in {len(FILES)} source files" in run("mypy", "--strict", *FILES)


@pytest.mark.skipif(importlib.util.find_spec("basedpyright") is None, reason="basedpyright is not installed")
def test_pyright(tmp_path):
    settings = {
        "include": FILES,
        "extraPaths": [str(SOURCES)],
        "typeCheckingMode": "strict",
        "enableTypeIgnoreComments": True,
        "reportUnnecessaryTypeIgnoreComment": "error",
    }
    project = tmp_path / "pyrightconfig.json"
    project.write_text(json.dumps(settings))
    report = run("basedpyright", "--project", project, "--pythonpath", sys.executable)
    assert "0 errors, 0 warnings" in report
