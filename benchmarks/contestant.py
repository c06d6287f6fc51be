"""Runs one contestant (second argument) of one workload (first argument) and prints what it measured as JSON."""

from __future__ import annotations

import importlib
import itertools
import json
import sys
import time
from collections.abc import Iterable
from typing import Any

from workloads import WORKLOADS

WARM_UP_ELEMENTS = 1_000
WARM_UP_NS = 200_000_000
CLOCKED_NS = 250_000_000


def ns_per_item(stream: Iterable[Any], batch: int) -> float:
    """Iterates the stream, over and over if it is short, for as long as the clock asks."""
    items = itertools.chain.from_iterable(itertools.repeat(stream))
    enough = time.perf_counter_ns() + WARM_UP_NS
    for _ in itertools.islice(items, -(-WARM_UP_ELEMENTS // batch)):
        if time.perf_counter_ns() > enough:
            break
    done, elapsed, chunk = 0, 0, 1
    start = time.perf_counter_ns()
    while elapsed < CLOCKED_NS:
        for _ in itertools.islice(items, chunk):
            pass
        done += chunk
        elapsed = time.perf_counter_ns() - start
        chunk = max(1, min(done, done * (CLOCKED_NS - elapsed) // elapsed))
    return elapsed / done


def main(name: str, contestant: str) -> None:
    workload = next(w for w in WORKLOADS if w.name == name)
    call = workload.call(contestant)
    result = getattr(importlib.import_module(call.module), call.function)(*call.args)
    value = result if isinstance(result, float) else ns_per_item(result, workload.batch) / workload.batch
    library = importlib.import_module("torch" if call.environment == "torch" else "grain")
    print(json.dumps({"value": value, "version": library.__version__}))


if __name__ == "__main__":
    main(*sys.argv[1:])
