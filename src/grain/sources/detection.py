"""Which format a file has, and the source that reads it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from grain.files.opened_files import opened
from grain.files.paths import PathLike, paths_of
from grain.files.systems import is_remote
from grain.sources.file_sources import FILE_SOURCES
from grain.sources.random_access import RandomAccessDataSource

FORMATS = {
    # format: its source in `grain.sources`, how names end, how content begins
    "ArrayRecord": ("ArrayRecordDataSource", (".arrayrecord", ".array_record", ".riegeli"), None),
    "Arrow": ("ArrowDataSource", (".arrow", ".feather"), b"ARROW1"),
    "CSV": ("CsvDataSource", (".csv",), None),
    "JSON lines": ("JsonLinesDataSource", (".jsonl", ".ndjson", ".jsonlines"), None),
    "NumPy": ("NumpyDataSource", (".npy", ".npz"), b"\x93NUMPY"),
    "Parquet": ("ParquetDataSource", (".parquet",), b"PAR1"),
    "TFRecord": ("TFRecordDataSource", (".tfrecord", ".tfrecords", ".tfrec"), None),
    "WebDataset": ("WebDatasetDataSource", (".tar",), None),
    "folder of images": ("ImageFolderDataSource", (), None),
}
_SHARD_NUMBERS = "-of-"


def format_of(path: str) -> str:
    """The name of the format of a file or folder, by how its name ends, or else by how it begins.

    >>> format_of("train-00000-of-00010.tfrecord"), format_of("s3://bucket/train.tfrecord-00000-of-00010")
    ('TFRecord', 'TFRecord')
    """
    name = path.rstrip("/").rpartition("/")[2].lower().removesuffix(".gz")
    unnumbered = name.partition(_SHARD_NUMBERS)[0].rstrip("0123456789").rstrip("-_")
    for format, (_, suffixes, _) in FORMATS.items():
        if suffixes and (name.endswith(suffixes) or unnumbered.endswith(suffixes)):
            return format
    if not is_remote(path) and os.path.isdir(path):
        return "folder of images"
    return _format_by_content(path)


def _format_by_content(path: str) -> str:
    with opened(path) as file:
        start = file.read(512)
    for format, (_, _, mark) in FORMATS.items():
        if mark is not None and start.startswith(mark):
            return format
    if start[257:262] == b"ustar":
        return "WebDataset"
    if start.lstrip()[:1] == b"{":
        return "JSON lines"
    known = "; ".join(f"{name} ({', '.join(suffixes)})" for name, (_, suffixes, _) in FORMATS.items() if suffixes)
    raise ValueError(
        f"The format of {path!r} is not known. Known are: {known}; and a folder of images, in sub-folders by "
        "their labels."
    )


def open_source(paths: PathLike | Sequence[PathLike], **options: Any) -> RandomAccessDataSource[Any]:
    """The files at `paths` as the source that their format has in `grain.sources`, which takes the options.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pathlib.Path(folder, "cat").mkdir()
    ...     _ = pathlib.Path(folder, "cat", "1.png").write_bytes(b"")
    ...     source = open_source(folder)
    >>> type(source).__name__, source.classes
    ('ImageFolderDataSource', ('cat',))
    """
    found = paths_of(paths)
    formats = {path: format_of(path) for path in found}
    if len(set(formats.values())) > 1:
        first = {format: path for path, format in reversed(formats.items())}
        raise ValueError(f"Expected files of one format, got several: {first}.")
    kind = FILE_SOURCES[FORMATS[formats[found[0]]][0]]()
    source: RandomAccessDataSource[Any] = kind(found[0] if len(found) == 1 else found, **options)
    return source
