"""What can be measured of an iterable; a workload names one of the public functions."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable
from typing import Any

from processes import peak_memory
from workloads import Workload

WARM_UP_ELEMENTS = 1_000
WARM_UP_NS = 200_000_000
MEMORY_SECONDS = 4


def ns_per_element(stream: Iterable[Any], workload: Workload) -> float:
    """Iterates the stream, over and over if it is short, for as long as the workload asks."""
    items = itertools.chain.from_iterable(itertools.repeat(stream))
    next(items)  # Workers may take seconds to start: that is no warming up.
    enough = time.perf_counter_ns() + WARM_UP_NS
    for _ in itertools.islice(items, -(-WARM_UP_ELEMENTS // workload.batch)):
        if time.perf_counter_ns() > enough:
            break
    done, elapsed, chunk, clocked = 0, 0, 1, int(workload.seconds * 1e9)
    start = time.perf_counter_ns()
    while elapsed < clocked:
        for _ in itertools.islice(items, chunk):
            pass
        done += chunk
        elapsed = time.perf_counter_ns() - start
        chunk = max(1, min(done, done * (clocked - elapsed) // elapsed))
    return elapsed / done / workload.batch


def ms_to_first(stream: Iterable[Any], workload: Workload) -> float:
    """From asking for an iterator to holding its first item."""
    start = time.perf_counter()
    iterator = iter(stream)
    next(iterator)
    return (time.perf_counter() - start) * 1e3


def ms_to_first_again(stream: Iterable[Any], workload: Workload) -> float:
    """The same for a second iterator, after the first one is gone."""
    ms_to_first(stream, workload)
    return ms_to_first(stream, workload)


def peak_mb(stream: Iterable[Any], workload: Workload) -> float:
    """The most memory that this process and its descendants held at once while iterating."""
    enough = time.perf_counter() + MEMORY_SECONDS
    with peak_memory() as samples:
        for _ in stream:
            if time.perf_counter() > enough:
                break
    return max(samples)
