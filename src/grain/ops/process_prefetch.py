"""Running a pipeline in worker processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from grain.fields import Frozen
from grain.graph.node import IterNode
from grain.graph.specs import element_spec
from grain.indices.arithmetic import integer
from grain.ops.worker_parts import Sharded, in_turn, multithread_prefetch_node, worker_part
from grain.options import MultiprocessingOptions, warn
from grain.plan.kinds import Remote

_DEFAULT_WORKERS = 10


class Distribution(Frozen):
    """A pipeline and how it is divided between workers."""

    whole: IterNode[Any]
    count: int
    is_sequential: bool
    buffer_size: int
    worker_init_fn: Callable[[int, int], None] | None


class ProcessPrefetch(IterNode[None]):
    """The elements that one worker process makes of its part of a pipeline."""

    distribution: Distribution
    index: int
    starts_early = True

    def lower(self, *parents: Any) -> Remote:
        return Remote(self)

    def part(self) -> Sharded:
        """What the worker runs."""
        distribution = self.distribution
        return worker_part(distribution.whole, self.index, distribution.count, distribution.is_sequential)

    def element_spec(self) -> Any:
        return element_spec(self.distribution.whole)

    def __str__(self) -> str:
        return f"ProcessPrefetchIterDataset(buffer_size={self.distribution.buffer_size})"


def mp_prefetch_node(
    whole: IterNode[Any],
    options: MultiprocessingOptions | None,
    worker_init_fn: Callable[[int, int], None] | None,
    is_sequential: bool,
) -> IterNode[Any]:
    """`whole`, divided between processes; `whole` itself where there are to be none."""
    options = options or MultiprocessingOptions(_DEFAULT_WORKERS)
    count = available_cpus() if options.num_workers is None else integer("num_workers", options.num_workers)
    buffer_size = integer("per_worker_buffer_size", options.per_worker_buffer_size)
    if count < 0:
        raise ValueError(f"num_workers must be 0 (none) or more, or None (one for each CPU), got {count}.")
    if count == 0:
        return whole
    if buffer_size <= 0:
        raise ValueError(f"`buffer_size` must be greater than 0, got {buffer_size} as per_worker_buffer_size.")
    if worker_init_fn is not None and not callable(worker_init_fn):
        raise TypeError(f"worker_init_fn must be callable with (worker_index, worker_count), got {worker_init_fn!r}.")
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        if worker_init_fn is not None:
            warn("worker_init_fn is not called: without a GIL, `mp_prefetch` uses threads.")
        return multithread_prefetch_node(whole, count, buffer_size, is_sequential)
    distribution = Distribution(whole, count, is_sequential, buffer_size, worker_init_fn)
    asked = f"mp_prefetch(num_workers={count}, per_worker_buffer_size={buffer_size})"
    parts = [ProcessPrefetch(distribution, index) for index in range(count)]
    place = "1 worker process" if count == 1 else f"{count} worker processes"
    return in_turn(whole, parts, asked, place, buffer_size, is_sequential)


def available_cpus() -> int:
    """The CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
