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

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet

from grain import (
    ArrayRecordDataSource,
    ArrowDataSource,
    GeneratorIterDataset,
    JsonLinesDataSource,
    JsonLinesIterDataset,
    MapDataset,
    NumpyDataSource,
    ParquetDataSource,
    ParquetIterDataset,
    TFRecordDataSource,
    TFRecordIterDataset,
    WebDatasetDataSource,
    WebDatasetIterDataset,
)
from grain.api.iter_dataset import NodeIterDataset
from grain.fields import Fields, Frozen
from grain.ops.file_streams import streamed
from grain.ops.worker_parts import sharded
from grain.sources import write
from support.record_files import tar, tfrecord, written


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


@functools.cache
def parquet(start: int, stop: int) -> str:
    """Rows in row groups of three."""
    path = f"{folder()}/{start}-{stop}.parquet"
    pa.parquet.write_table(table(start, stop), path, row_group_size=3)
    return path


@functools.cache
def arrow() -> str:
    """Rows in record batches of four."""
    path = f"{folder()}/rows.arrow"
    pa.feather.write_feather(table(0, 10), path, compression="uncompressed", chunksize=4)
    return path


def table(start: int, stop: int) -> pa.Table:
    return pa.table({"x": range(start, stop), "word": [f"row {number}" for number in range(start, stop)]})


MAP_PIPELINES = {
    "array records": lambda: MapDataset.source(array_records()).shuffle(seed=2).map(int).batch(3),
    "TFRecord source": lambda: MapDataset.source(TFRecordDataSource(folder() / "*.tfrecord", index_folder=folder())),
    "JSON lines source": lambda: (
        MapDataset.source(JsonLinesDataSource(folder() / "*.jsonl", index_folder=folder())).shuffle(seed=1).batch(2)
    ),
    "WebDataset source": lambda: MapDataset.source(
        WebDatasetDataSource(folder() / "*.tar", decode=True, index_folder=folder())
    ).map(operator.itemgetter("txt")),
    "arrays": lambda: (
        MapDataset.source(NumpyDataSource({"x": np.arange(10), "y": np.eye(10)})).shuffle(seed=1).batch(3)
    ),
    "arrow": lambda: MapDataset.source(ArrowDataSource(arrow())).shuffle(seed=1).batch(3),
    "parquet": lambda: MapDataset.source(ParquetDataSource([parquet(0, 7), parquet(7, 9)])).shuffle(seed=1),
    "parquet, batched": lambda: MapDataset.source(ParquetDataSource(parquet(0, 7))).repeat(2).batch(4),
}

ITER_PIPELINES = {
    "TFRecord file": lambda stream: TFRecordIterDataset(folder() / "0.tfrecord"),
    "compressed TFRecord file": lambda stream: TFRecordIterDataset(folder() / "packed.gz"),
    "JSON lines files": lambda stream: JsonLinesIterDataset(folder() / "*.jsonl").batch(3),
    "WebDataset shard": lambda stream: WebDatasetIterDataset(folder() / "0.tar").map(operator.itemgetter("txt")),
    "generator": lambda stream: GeneratorIterDataset(count_to_ten),
    "generator that skips": lambda stream: GeneratorIterDataset(count_from, takes_start=True).batch(3),
    "files in turn": lambda stream: NodeIterDataset(streamed([Numbers(0, 5), Numbers(10, 13), Numbers(20, 21)], "")),
    "parquet": lambda stream: ParquetIterDataset(parquet(0, 7)),
    "parquet files": lambda stream: ParquetIterDataset([parquet(0, 7), parquet(7, 9)], columns=["x"]).batch(2),
    "part of a parquet file": lambda stream: NodeIterDataset(sharded(ParquetIterDataset(parquet(0, 7))._node, 1, 2)),
    "part of a file": lambda stream: NodeIterDataset(sharded(streamed([Numbers(0, 9)], ""), 1, 2)),
}
