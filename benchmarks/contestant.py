"""Runs one contestant (second argument) of one workload (first argument) and prints what it measured as JSON.

A third argument names the function of measuring.py to use in place of the workload's own.
"""

from __future__ import annotations

import importlib
import json
import sys
import traceback
from typing import Any

import measuring
from workloads import WORKLOADS

# What a workload raises, before anything is measured, if the package does not have a name or a parameter that it uses.
LACKING = (AttributeError, ImportError, NotImplementedError, TypeError)


def main(name: str, contestant: str, measure: str | None = None) -> None:
    workload = next(w for w in WORKLOADS if w.name == name)
    call = workload.call(contestant)
    report: dict[str, Any] = {}
    try:
        result = getattr(importlib.import_module(call.module), call.function)(*call.args)
    except LACKING:
        report["lacks"] = traceback.format_exc()
    else:
        take = getattr(measuring, measure or workload.measure)
        report["value"] = result if isinstance(result, float) else take(result, workload)
    library = importlib.import_module("grain" if call.environment == "ours" else call.environment)
    print(json.dumps({**report, "version": library.__version__, "package": library.__file__}))


if __name__ == "__main__":
    main(*sys.argv[1:])
