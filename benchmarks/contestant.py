"""Runs one contestant (second argument) of one workload (first argument) and prints what it measured as JSON."""

from __future__ import annotations

import importlib
import json
import sys

import measuring
from workloads import WORKLOADS


def main(name: str, contestant: str) -> None:
    workload = next(w for w in WORKLOADS if w.name == name)
    call = workload.call(contestant)
    result = getattr(importlib.import_module(call.module), call.function)(*call.args)
    value = result if isinstance(result, float) else getattr(measuring, workload.measure)(result, workload)
    library = importlib.import_module("grain" if call.environment == "ours" else call.environment)
    print(json.dumps({"value": value, "version": library.__version__}))


if __name__ == "__main__":
    main(*sys.argv[1:])
