"""What can be measured of an iterable; a workload names one of the public functions."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Iterable, Iterator
from typing import Any

from processes import peak_memory
from workloads import Workload

WARM_UP_ELEMENTS = 1_000
WARM_UP_NS = 200_000_000
SLICE_NS = 3_000_000
MEMORY_SECONDS = 4
ITEMS = 5


def ns_per_element(stream: Iterable[Any], workload: Workload) -> float:
    """Iterates the stream, over and over if it is short, for as long as the workload asks."""
    items = _warmed_up(stream, workload)
    done, elapsed, chunk, clocked = 0, 0, 1, int(workload.seconds * 1e9)
    start = time.perf_counter_ns()
    while elapsed < clocked:
        for _ in itertools.islice(items, chunk):
            pass
        done += chunk
        elapsed = time.perf_counter_ns() - start
        chunk = max(1, min(done, done * (clocked - elapsed) // elapsed))
    return elapsed / done / workload.batch


def ns_per_element_at_best(stream: Iterable[Any], workload: Workload) -> float:
    """The same, of the fastest of many slices so short that even a busy machine leaves some of them undisturbed.

    A slice is a power of two of items, because some streams hand out 64 that they made at once.
    """
    items = _warmed_up(stream, workload)
    best, size = math.inf, 1
    enough = time.perf_counter_ns() + int(workload.seconds * 1e9)
    while best == math.inf or time.perf_counter_ns() < enough:
        start = time.perf_counter_ns()
        for _ in itertools.islice(items, size):
            pass
        elapsed = time.perf_counter_ns() - start
        if elapsed < SLICE_NS:
            size *= 2
        else:
            best = min(best, elapsed / size)
    return best / workload.batch


def _warmed_up(stream: Iterable[Any], workload: Workload) -> Iterator[Any]:
    items = itertools.chain.from_iterable(itertools.repeat(stream))
    next(items)  # Workers may take seconds to start: that is no warming up.
    enough = time.perf_counter_ns() + WARM_UP_NS
    for _ in itertools.islice(items, -(-WARM_UP_ELEMENTS // workload.batch)):
        if time.perf_counter_ns() > enough:
            break
    return items


def ms_per_item(stream: Iterable[Any], workload: Workload) -> float:
    """The best of five."""

    def once() -> float:
        start = time.perf_counter()
        next(items)
        return time.perf_counter() - start

    items = iter(stream)
    return min(once() for _ in range(ITEMS)) * 1e3


def processor_ms_per_item(stream: Iterable[Any], workload: Workload) -> float:
    """What the processes that an item starts, and ends, take of the processors; the median of five.

    Steadier than time by the clock, which also depends on whether a second processor happens to be idle.
    """
    from resource import RUSAGE_CHILDREN, getrusage  # Not on Windows.

    def taken() -> float:
        usage = getrusage(RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    totals = [taken(), *(taken() for _ in itertools.islice(stream, ITEMS))]
    return statistics.median(after - before for before, after in itertools.pairwise(totals)) * 1e3


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
