"""Files of every format in two versions, and the sources and streams that read them."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
from array_record.python.array_record_module import ArrayRecordWriter

import grain
from support.record_files import tar, tfrecord

COUNT = 4000
"""Of records: so many that no reader has fetched all of them with the first."""


class Kind(NamedTuple):
    """How a file of some format is made, and how it is read."""

    content: Callable[[str], bytes]
    """Of the version that is called by a letter."""
    source: Any
    stream: Any = None


def texts(version):
    return [f"{version}{number:07}" * 50 for number in range(COUNT)]


def _table(version):
    return pa.table({"text": texts(version)})


def _parquet(version):
    output = io.BytesIO()
    # As random as text can be, lest a version be smaller than what is read at once.
    pyarrow.parquet.write_table(_table(version), output, row_group_size=COUNT // 8, compression="none")
    return output.getvalue()


def _arrow(version, compression):
    output = io.BytesIO()
    pyarrow.feather.write_feather(_table(version), output, compression=compression, chunksize=COUNT // 8)
    return output.getvalue()


def _npy(version):
    output = io.BytesIO()
    np.save(output, np.array(texts(version)))
    return output.getvalue()


def _array_record(version):
    path = f"/dev/shm/grain-test-{os.getpid()}.arrayrecord"
    writer = ArrayRecordWriter(path, "group_size:1,uncompressed")
    for text in texts(version):
        writer.write(text.encode())
    writer.close()
    with open(path, "rb") as file:
        content = file.read()
    os.unlink(path)
    return content


KINDS = {
    "jsonl": Kind(
        lambda version: "".join(f'"{text}"\n' for text in texts(version)).encode(),
        grain.JsonLinesDataSource,
        grain.JsonLinesIterDataset,
    ),
    "tfrecord": Kind(
        lambda version: tfrecord([text.encode() for text in texts(version)]),
        grain.TFRecordDataSource,
        grain.TFRecordIterDataset,
    ),
    "tar": Kind(
        lambda version: tar([(f"{number}.txt", text.encode()) for number, text in enumerate(texts(version))]),
        grain.WebDatasetDataSource,
        grain.WebDatasetIterDataset,
    ),
    "parquet": Kind(_parquet, lambda path: grain.ParquetDataSource(path, cache_bytes=1), grain.ParquetIterDataset),
    "arrow": Kind(lambda version: _arrow(version, "uncompressed"), grain.ArrowDataSource),
    "arrow.lz4": Kind(lambda version: _arrow(version, "lz4"), grain.ArrowDataSource),
    "npy": Kind(_npy, grain.NumpyDataSource),
    "arrayrecord": Kind(_array_record, grain.ArrayRecordDataSource),
}
STREAMED = [name for name, kind in KINDS.items() if kind.stream is not None]
COPIED = ["arrow", "arrow.lz4", "npy", "arrayrecord"]
"""Formats whose files are copied to this machine before they are read."""


def letter(record):
    """Of which version a record is."""
    text = next(value for key, value in record.items() if key != "__key__") if isinstance(record, dict) else record
    return bytes(text).decode()[0] if isinstance(text, bytes) else str(text)[0]
