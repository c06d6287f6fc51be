"""Streams that users begin a pipeline with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, overload

from grain.api.iter_dataset import NodeIterDataset, T
from grain.files.paths import PathLike, paths_of
from grain.ops.file_streams import Generated, streamed

# Formats are imported where they are used: `import grain` alone need not wait for them.

__all__ = [
    "GeneratorIterDataset",
    "JsonLinesIterDataset",
    "ParquetIterDataset",
    "TFRecordIterDataset",
    "WebDatasetIterDataset",
]


class SequenceIterDataset(NodeIterDataset[T]):
    """The records of files, one after the other; of several files in turn."""

    def __init__(self, path: PathLike | Sequence[PathLike], format: Any) -> None:
        from grain.files.streamed_files import StreamedFile  # only now: `import grain` is to be fast
        from grain.sources.sequences import SequenceStream

        self._path = path
        sources = [SequenceStream(StreamedFile(found), format) for found in paths_of(path)]
        super().__init__(streamed(sources, f"{format.name}IterDataset"))

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__iter__" in cls.__dict__:
            cls._wraps_node = False  # how a user's class iterates is its own affair


class TFRecordIterDataset(SequenceIterDataset[bytes]):
    """The records of TFRecord files, as bytes, with their checksums checked. Files may be compressed by gzip.

    A record that is damaged raises an error, and reading goes on after it. Paths may be globs and URLs.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "one.tfrecord")
    ...     _ = path.write_bytes(bytes.fromhex("01000000000000000175de4161786ee428"))
    ...     iterator = iter(TFRecordIterDataset(path))
    ...     next(iterator), iterator.get_state()
    (b'a', {'reader_offset': 17})
    """

    def __init__(self, path: PathLike | Sequence[PathLike]) -> None:
        from grain.sources.tfrecord import TFRecordFormat

        super().__init__(path, TFRecordFormat())


class JsonLinesIterDataset(SequenceIterDataset[Any]):
    """The values of JSON lines files, one for each line that is not blank. Files may be compressed by gzip.

    A line that is not JSON raises an error, and reading goes on after it. Paths may be globs and URLs.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "two.jsonl")
    ...     _ = path.write_text('{"text": "one"}\\n{"text": "two"}\\n')
    ...     list(JsonLinesIterDataset(path))
    [{'text': 'one'}, {'text': 'two'}]
    """

    def __init__(self, paths: PathLike | Sequence[PathLike]) -> None:
        from grain.sources.json_lines import JsonLinesFormat

        super().__init__(paths, JsonLinesFormat())


class WebDatasetIterDataset(SequenceIterDataset[dict[str, Any]]):
    """The samples of WebDataset shards, as `WebDatasetDataSource` has them. Shards may be compressed by gzip.

    With `decode`, files are what they stand for, and bytes otherwise. A sample that is damaged raises an error, and
    reading goes on after it. Paths may be globs and URLs.

    >>> import tempfile, tarfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "cat.txt").write_text("A cat.")
    ...     with tarfile.open(f"{folder}/shard.tar", "w") as shard:
    ...         shard.add(f"{folder}/cat.txt", "cat.txt")
    ...     list(WebDatasetIterDataset(f"{folder}/*.tar"))
    [{'__key__': 'cat', 'txt': b'A cat.'}]
    """

    def __init__(self, paths: PathLike | Sequence[PathLike], *, decode: bool = False) -> None:
        from grain.sources.webdataset import WebDatasetFormat

        super().__init__(paths, WebDatasetFormat(decode))


class GeneratorIterDataset(NodeIterDataset[T]):
    """What `function()` yields. It is called again to resume, and what was read before is made again and passed over.

    With `takes_start` it is called with the number of elements to leave out, and need not make them.

    >>> def squares(start):
    ...     return (number**2 for number in range(start, 5))
    >>> iterator = iter(GeneratorIterDataset(squares, takes_start=True))
    >>> next(iterator), iterator.get_state(), list(iterator)
    (0, {'next_index': 1}, [1, 4, 9, 16])
    """

    @overload
    def __init__(self, function: Callable[[], Iterable[T]], *, takes_start: Literal[False] = False) -> None: ...
    @overload
    def __init__(self, function: Callable[[int], Iterable[T]], *, takes_start: Literal[True]) -> None: ...
    def __init__(self, function: Callable[..., Iterable[T]], *, takes_start: bool = False) -> None:
        if not callable(function):
            raise TypeError(
                f"Expected a function that returns an iterable, got {function!r}: an iterator can be read only once, "
                "so there would be no way to resume. Pass the generator function itself, without calling it."
            )
        super().__init__(streamed([Generated(function, takes_start)], "GeneratorIterDataset"))


class ParquetIterDataset(NodeIterDataset[dict[str, Any]]):
    """The rows of Parquet files as dicts, of several files in turn; of the columns `columns`, or of all.

    Other arguments are passed on to `pyarrow.parquet.ParquetFile`. Values are those of `ParquetDataSource`.

    >>> import pyarrow, pyarrow.parquet, tempfile
    >>> with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
    ...     pyarrow.parquet.write_table(pyarrow.table({"x": [1, 2, 3], "name": ["a", "b", "c"]}), file.name)
    ...     list(ParquetIterDataset(file.name, columns=["name"]))
    [{'name': 'a'}, {'name': 'b'}, {'name': 'c'}]
    """

    def __init__(
        self, path: PathLike | Sequence[PathLike], columns: Sequence[str] | None = None, **kwargs: Any
    ) -> None:
        from grain.files.streamed_files import StreamedFile
        from grain.sources.parquet import ParquetFiles
        from grain.sources.parquet_streams import ParquetRows

        files = ParquetFiles(paths_of(path), columns, kwargs)
        super().__init__(
            streamed([ParquetRows(files, StreamedFile(path)) for path in files.paths], "ParquetIterDataset")
        )
