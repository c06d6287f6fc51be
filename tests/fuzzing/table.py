"""All formats by their names. A new one is a class that derives from `Format`, and a row here."""

from __future__ import annotations

from fuzzing.array_formats import NumpyArchive, NumpyFile, Pictures
from fuzzing.csv_format import Csv
from fuzzing.formats import Format
from fuzzing.kept_formats import Checkpoint, Index
from fuzzing.record_formats import ArrayRecord, Gzipped, JsonLines, TFRecord
from fuzzing.table_formats import Arrow, Parquet
from fuzzing.tar_format import WebDataset

FORMATS: dict[str, Format] = {
    format.name: format
    for format in (
        ArrayRecord(),
        TFRecord(),
        Gzipped(TFRecord()),
        Index(TFRecord()),
        JsonLines(),
        Gzipped(JsonLines()),
        Index(JsonLines()),
        WebDataset(),
        Gzipped(WebDataset()),
        Index(WebDataset()),
        Arrow("arrow", (None,)),
        Arrow("arrow.packed", ("lz4", "zstd")),
        Arrow("arrow.stream", (None,), is_stream=True),
        Parquet(),
        Csv(is_packed=False),
        Csv(is_packed=True),
        NumpyFile(),
        NumpyArchive(),
        Pictures(),
        Checkpoint(),
    )
}
