"""Numbers of workers and buffer sizes that fit into a given memory."""

from __future__ import annotations

import dataclasses
import itertools
import math
import sys
from typing import Any

import numpy as np

from grain.api.dataset_iterator import NodeIterator
from grain.api.iter_dataset import IterDataset
from grain.graph.node import IterNode, ancestors
from grain.ops.custom import iter_node_of
from grain.ops.process_prefetch import available_cpus
from grain.options import MultiprocessingOptions, ReadOptions, warn

_MIB = 1 << 20
_LARGEST_BUFFER = 1000


@dataclasses.dataclass(slots=True)
class PerformanceConfig:
    """Options for workers and for reading."""

    multiprocessing_options: MultiprocessingOptions | None = None
    read_options: ReadOptions | None = None


def pick_performance_config(
    ds: IterDataset[object],
    *,
    ram_budget_mb: int,
    max_workers: int | None,
    max_buffer_size: int | None,
    samples_to_check: int = 5,
) -> PerformanceConfig:
    """As many workers, and as long a buffer of elements read ahead, as fit into `ram_budget_mb`.

    There are at most `max_workers` (None: one for each CPU) and `max_buffer_size` elements (None: 1000). The first
    `samples_to_check` elements of `ds` tell how large all are.

    >>> import grain
    >>> dataset = grain.MapDataset.range(100).map(lambda x: np.zeros(1 << 20, np.uint8)).to_iter_dataset()
    >>> pick_performance_config(dataset, ram_budget_mb=20, max_workers=2, max_buffer_size=None)
    PerformanceConfig(multiprocessing_options=MultiprocessingOptions(num_workers=2, per_worker_buffer_size=1, \
enable_profiling=False), read_options=ReadOptions(num_threads=16, prefetch_buffer_size=20))
    """
    if ram_budget_mb is None:
        raise TypeError("ram_budget_mb must be a number of MiB, got None.")
    node = iter_node_of(ds)
    workers = _how_many(ram_budget_mb, _mean_size(node, samples_to_check), _or(max_workers, available_cpus()))
    readers = [ancestor for ancestor in ancestors(node) if isinstance(ancestor, IterNode) and ancestor.reads_by_index]
    size = sum(_mean_size(reader, math.ceil(samples_to_check / len(readers))) for reader in readers)
    buffer_size = _how_many(ram_budget_mb, size, _or(max_buffer_size, _LARGEST_BUFFER))
    return PerformanceConfig(MultiprocessingOptions(num_workers=workers), ReadOptions(prefetch_buffer_size=buffer_size))


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _how_many(budget: float, size: float, at_most: int) -> int:
    return at_most if size == 0 else min(int(budget / size), at_most)


def _mean_size(node: IterNode[Any], count: int) -> float:
    """The mean size of the first `count` elements in MiB; 0, which is to say unknown, where there are fewer."""
    with NodeIterator[Any](node) as elements:
        sizes = [_bytes_of(element) for element in itertools.islice(elements, count)]
    if len(sizes) < count:
        warn("%s has %d elements, fewer than the %d by which their size is judged.", node, len(sizes), count)
        return 0.0
    return sum(sizes) / len(sizes) / _MIB


def _bytes_of(element: Any) -> int:
    if isinstance(element, dict):
        return sum(map(_bytes_of, element.values()))
    if isinstance(element, list | tuple):
        return sum(map(_bytes_of, element))
    return element.nbytes if isinstance(element, np.ndarray) else sys.getsizeof(element)
