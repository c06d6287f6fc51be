"""Rows of the contract table that begin with files or generators."""

from __future__ import annotations

import atexit
import functools
import operator
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from making import tar, tfrecord, written

from grain import (
    ArrayRecordDataSource,
    GeneratorIterDataset,
    JsonLinesDataSource,
    JsonLinesIterDataset,
    MapDataset,
    TFRecordDataSource,
    TFRecordIterDataset,
    WebDatasetDataSource,
    WebDatasetIterDataset,
)
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
def folder():
    """A folder with a few files, which is there as long as this process, and so as its workers."""
    made = Path(tempfile.mkdtemp(prefix="grain-tests-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    for number in range(2):
        records = [b"%d-%d" % (number, record) for record in range(5 - number)]
        written(made / f"{number}.tfrecord", tfrecord(records))
        written(made / f"{number}.jsonl", b"\n".join(b'"%b"' % record for record in records))
        written(made / f"{number}.tar", tar([(f"{record}.txt", b"%d" % record) for record in range(4)]))
    written(made / "packed.gz", tfrecord(records))
    return made


@functools.cache
def array_records() -> ArrayRecordDataSource:
    """Ten numbers in three files."""
    return ArrayRecordDataSource(write([b"%d" % number for number in range(10)], folder() / "a.ar", shards=3))


MAP_PIPELINES = {
    "array records": lambda: MapDataset.source(array_records()).shuffle(seed=2).map(int).batch(3),
    "TFRecord source": lambda: MapDataset.source(TFRecordDataSource(folder() / "*.tfrecord", index_folder=folder())),
    "JSON lines source": lambda: (
        MapDataset.source(JsonLinesDataSource(folder() / "*.jsonl", index_folder=folder())).shuffle(seed=1).batch(2)
    ),
    "WebDataset source": lambda: MapDataset.source(
        WebDatasetDataSource(folder() / "*.tar", decode=True, index_folder=folder())
    ).map(operator.itemgetter("txt")),
}
ITER_PIPELINES = {
    "TFRecord file": lambda stream: TFRecordIterDataset(folder() / "0.tfrecord"),
    "compressed TFRecord file": lambda stream: TFRecordIterDataset(folder() / "packed.gz"),
    "JSON lines files": lambda stream: JsonLinesIterDataset(folder() / "*.jsonl").batch(3),
    "WebDataset shard": lambda stream: WebDatasetIterDataset(folder() / "0.tar").map(operator.itemgetter("txt")),
    "generator": lambda stream: GeneratorIterDataset(count_to_ten),
    "generator that skips": lambda stream: GeneratorIterDataset(count_from, takes_start=True).batch(3),
    "files in turn": lambda stream: NodeIterDataset(streamed([Numbers(0, 5), Numbers(10, 13), Numbers(20, 21)], "")),
    "part of a file": lambda stream: NodeIterDataset(sharded(streamed([Numbers(0, 9)], ""), 1, 2)),
}
