"""Rows of the contract table that begin with files or generators."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterator
from typing import Any

from grain import ArrayRecordDataSource, GeneratorIterDataset, MapDataset
from grain.fields import Fields, Frozen
from grain.iter_dataset import NodeIterDataset
from grain.ops.sharding import sharded
from grain.ops.streaming import streamed
from grain.sources import write


def count_to_ten():
    yield from range(10)


def count_from(start):
    yield from range(start, 10)


class Numbers(Frozen):
    """A stream source, of which some records cannot be read."""

    start: int
    stop: int
    bad: tuple[int, ...] = ()

    class State(Fields):
        offset: int = 0

    def read(self, state: Any) -> Iterator[int]:
        while self.start + state.offset < self.stop:
            state.offset += 1
            number = self.start + state.offset - 1
            if number in self.bad:
                raise ValueError(f"record {number} is damaged")
            yield number


@functools.cache
def folder() -> tempfile.TemporaryDirectory[str]:
    """Where the rows have their files while the tests run."""
    return tempfile.TemporaryDirectory()


@functools.cache
def array_records() -> ArrayRecordDataSource:
    """Ten numbers in three files."""
    return ArrayRecordDataSource(write([b"%d" % number for number in range(10)], f"{folder().name}/a.ar", shards=3))


MAP_PIPELINES = {
    "array records": lambda: MapDataset.source(array_records()).shuffle(seed=2).map(int).batch(3),
}

ITER_PIPELINES = {
    "generator": lambda stream: GeneratorIterDataset(count_to_ten),
    "generator that skips": lambda stream: GeneratorIterDataset(count_from, takes_start=True).batch(3),
    "files in turn": lambda stream: NodeIterDataset(streamed([Numbers(0, 5), Numbers(10, 13), Numbers(20, 21)], "")),
    "part of a file": lambda stream: NodeIterDataset(sharded(streamed([Numbers(0, 9)], ""), 1, 2)),
}
