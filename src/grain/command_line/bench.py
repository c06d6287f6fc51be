"""`grain bench`: how fast records can be read, and in which way."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from typing import Any

from grain.api.map_dataset import MapDataset
from grain.command_line.describing import sizes_of_some
from grain.command_line.source_arguments import add_paths, at_least, console, opened, with_unit
from grain.options import MultiprocessingOptions, ReadOptions
from grain.sources import ColumnarDataSource

_INLINE = ReadOptions(num_threads=0, prefetch_buffer_size=0)


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "bench",
        help="records and bytes per second: sequential, shuffled, threads, processes",
        description="Measure how many records and bytes per second can be read: one after the other, shuffled, with "
        "threads and with worker processes. Each way is measured on its own, after its first batch.",
    )
    add_paths(parser)
    parser.add_argument(
        "--batch-size", type=at_least(1), default=128, metavar="N", help="records in a batch (default: 128)"
    )
    parser.add_argument("--seconds", type=seconds, default=2.0, help="how long to measure each way (default: 2)")
    parser.add_argument(
        "--workers", type=at_least(0), default=2, metavar="N", help="number of worker processes (default: 2)"
    )
    parser.set_defaults(run=run)


def seconds(text: str) -> float:
    """The type of an argument that is a time; argparse shows this name."""
    if not 0 < (found := float(text)) < math.inf:
        raise argparse.ArgumentTypeError(f"expected more than 0 seconds, got {text!r}")
    return found


def run(arguments: argparse.Namespace) -> None:
    from rich.table import Table

    output, source = console(), opened(arguments.paths, arguments.columns)
    if not len(source):
        raise ValueError(f"There are no records in {' '.join(arguments.paths)}.")
    batch_size = min(arguments.batch_size, len(source))
    sizes = sizes_of_some(source)
    record_size = sum(sizes) / len(sizes)
    table = Table(title=f"{len(source):,} records of {with_unit(record_size)}, in batches of {batch_size}")
    table.add_column("")
    for heading in ("records/s", "bytes/s", "first batch"):
        table.add_column(heading, justify="right")
    with console(stderr=True).status("") as status:
        for way, batches in _ways(source, batch_size, arguments.workers):
            status.update(f"{way} ...")
            rate, first = _measured(batches, batch_size, arguments.seconds)
            table.add_row(way, f"{rate:,.0f}", with_unit(rate * record_size), f"{first * 1000:,.1f} ms")
    output.print(table)


def _ways(source: Any, batch_size: int, workers: int) -> Iterator[tuple[str, Any]]:
    """Each way of reading, with its batches; they never end."""
    # Columns make batches of themselves; other records stay as they are.
    join: Any = None if isinstance(source, ColumnarDataSource) else list

    def batches(dataset: MapDataset[Any]) -> Any:
        return dataset.repeat().batch(batch_size, batch_fn=join)

    dataset = MapDataset.source(source)
    shuffled = batches(dataset.shuffle(seed=0))
    yield "sequential", batches(dataset).to_iter_dataset(_INLINE)
    yield "shuffled", shuffled.to_iter_dataset(_INLINE)
    yield "shuffled, threads", shuffled.to_iter_dataset()
    if workers:
        processes = shuffled.to_iter_dataset(_INLINE).mp_prefetch(MultiprocessingOptions(num_workers=workers))
        yield f"shuffled, {workers} processes", processes


def _measured(batches: Any, batch_size: int, seconds: float) -> tuple[float, float]:
    """Records per second, and the seconds until the first batch."""
    began = time.perf_counter()
    with iter(batches) as iterator:
        next(iterator)
        first = time.perf_counter() - began
        count, start, now = 0, time.perf_counter(), time.perf_counter()
        while now - start < seconds or not count:
            next(iterator)
            count, now = count + 1, time.perf_counter()
    return count * batch_size / (now - start), first
