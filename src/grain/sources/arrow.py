"""Arrow files, mapped into memory: record batches as columns, and rows by their numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from grain.elements.stacking import Allocate
from grain.files.cache_folder import local_copy
from grain.files.paths import File, PathLike, described, files_of
from grain.sources.arrow_checks import check
from grain.sources.arrow_columns import has_nulls, ipc, is_number, nulls_change_type, pa, told, values_of
from grain.sources.columns import Column, Columns, Table, TableDataSource
from grain.sources.mapped_columns import is_inside, mapped_column
from grain.sources.schemas import schema_of
from grain.sources.table_chunks import CACHE_BYTES, Chunks

_STREAM = b"\xff" * 4
"""How a file in the streaming format begins."""
_COMPRESSED_STREAM = (
    "{!r} is compressed and in the streaming format, of which no part can be read by itself. Write it in the file "
    "format (pyarrow.ipc.new_file, or pyarrow.feather.write_feather), best without compression."
)


class ArrowDataSource(TableDataSource):
    """Rows of Arrow or Feather files by their numbers, as dicts; of the columns `columns`, or of all.

    Files are mapped into memory, which processes share, and nothing but the rows that are asked for is copied. Those
    that were written with compression cannot be mapped: up to `cache_bytes` of their decoded record batches are kept
    in each process.

    >>> import pyarrow, pyarrow.feather, tempfile
    >>> with tempfile.NamedTemporaryFile(suffix=".arrow") as file:
    ...     table = pyarrow.table({"x": [1, 2, 3], "name": ["a", "b", "c"]})
    ...     pyarrow.feather.write_feather(table, file.name, compression="uncompressed")
    ...     source = ArrowDataSource(file.name)
    ...     len(source), source[1]
    (3, {'x': np.int64(2), 'name': 'b'})
    """

    def __init__(
        self,
        paths: PathLike | Sequence[PathLike],
        columns: Sequence[str] | None = None,
        *,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        self._files = ArrowFiles(files_of(paths), columns)
        self._chunks = Chunks(self._files.lengths, self._files, cache_bytes)

    @property
    def paths(self) -> list[str]:
        """The files, in order."""
        return list(self._files.paths)

    def __len__(self) -> int:
        return len(self._chunks)

    def _record(self, key: int) -> dict[str, Any]:
        self._files.check(np.array([key]))
        return self._chunks.row(key)

    def _taken(self, keys: Any, allocate: Allocate | None = None) -> Table:
        self._files.check(keys)
        return self._chunks.taken(keys, allocate)

    def __repr__(self) -> str:
        return f"ArrowDataSource({described(self._files.paths)}, columns={list(self._files.schema.names)})"


class ArrowFiles:
    """Chunks of several files, numbered through: a file that is mapped is one, else each record batch of it."""

    def __init__(self, files: tuple[File, ...], columns: Sequence[str] | None) -> None:
        self.paths = paths = [file.path for file in files]
        self._files = files
        self._readers = {number: self._opened(number, columns) for number in range(len(paths))}
        schemas = [self._readers[number].schema for number in range(len(paths))]
        self.schema = schema_of(list(zip(paths, schemas, strict=True)), columns)
        self._with_nulls = {name for schema in schemas for name in self.schema.without_type_in(schema)}
        self._places: list[tuple[int, slice]] = []
        self.lengths: list[int] = []
        self._file_ends: list[int] = []
        for file, reader in self._readers.items():
            lengths = []
            for number in range(reader.count):
                batch = reader.batch(number)
                lengths.append(batch.num_rows)
                with told(f"Record batch {number} of {reader.path!r} cannot be read"):
                    batch.validate()  # its columns are as long as it is, and their buffers large enough
                    self._with_nulls.update(name for name in self.schema.names if _has_nulls(batch.column(name)))
            if reader.is_mapped:
                self._places.append((file, slice(reader.count)))
                self.lengths.append(sum(lengths))
            else:
                self._places += [(file, slice(number, number + 1)) for number in range(reader.count)]
                self.lengths += lengths
            self._file_ends.append(sum(self.lengths))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_readers": {}}  # another process maps the files by itself

    def check(self, keys: Any) -> None:
        """Raise an error where a file has changed: reading what is no longer there would end the process."""
        if len(self._files) == 1:
            self._check(self._files[0])
            return
        for number in np.unique(np.searchsorted(self._file_ends, keys, side="right")).tolist():
            self._check(self._files[number])

    @staticmethod
    def _check(file: File) -> None:
        if not file.is_remote:  # a copy stays what it is
            file.check()

    def __call__(self, number: int) -> Columns:
        file, places = self._places[number]
        reader = self._readers.get(file)
        if reader is None:
            reader = self._readers[file] = self._opened(file, self.schema.names)
        batches = {place: reader.batch(place) for place in range(reader.count)[places]}
        return {name: self._column(reader, batches, name) for name in self.schema.names}

    def _column(self, reader: _Reader, batches: Mapping[int, Any], name: str) -> Column:
        may_be_null = name in self._with_nulls

        def where(place: int) -> str:
            return f"Column {name!r} of record batch {place} of {reader.path!r}"

        def read(place: int) -> Any:
            with told(f"{where(place)} cannot be read"):
                check(batches[place].column(name))
                return self.schema.cast(batches[place], name)

        if reader.is_mapped:
            arrays = [batch.column(name) for batch in batches.values()]
            return mapped_column(reader.memory, arrays, may_be_null, read, where)
        (place,) = batches
        return values_of(read(place), may_be_null)

    def where(self, number: int) -> str:
        """What a chunk is called in errors."""
        file, places = self._places[number]
        is_mapped = places.start is None
        return repr(self.paths[file]) if is_mapped else f"record batch {places.start} of {self.paths[file]!r}"

    def _opened(self, number: int, columns: Sequence[str] | None) -> _Reader:
        reader = _Reader(self._files[number], columns)
        self._check(self._files[number])
        return reader


class _Reader:
    """The record batches of one file."""

    def __init__(self, file: File, columns: Sequence[str] | None) -> None:
        path = self.path = file.path
        copy = local_copy(file)
        with told(f"{path!r} is not an Arrow file, or is damaged"):
            self.memory = pa.memory_map(copy).read_buffer()
            is_stream = self.memory[: len(_STREAM)].to_pybytes() == _STREAM
            self._reader = ipc.open_stream(self.memory) if is_stream else ipc.open_file(self.memory)
            self.schema = self._reader.schema
            self.names = self.schema.names
            self._batches = list(self._reader) if is_stream else None
            self.count = len(self._batches) if self._batches is not None else self._reader.num_record_batches
        self.is_mapped = all(map(self._is_mapped, range(self.count)))
        if self.is_mapped:
            return
        if is_stream:
            raise ValueError(_COMPRESSED_STREAM.format(path))
        wanted = [place for place, name in enumerate(self.names) if columns is None or name in columns]
        self._reader = ipc.open_file(self.memory, options=ipc.IpcReadOptions(included_fields=wanted))

    def batch(self, number: int) -> Any:
        if self._batches is not None:
            return self._batches[number]
        with told(f"Record batch {number} of {self.path!r} cannot be read"):
            return self._reader.get_batch(number)

    def _is_mapped(self, number: int) -> bool:
        """Whether all of a record batch is where the file is in memory, rather than in a decompressed copy."""
        return all(is_inside(self.memory, column) for column in self.batch(number).columns)


def _has_nulls(array: Any) -> bool:
    if not nulls_change_type(array.type):
        return False
    if not is_number(array.type):
        check(array)
    return has_nulls(array)
