"""A TFRecord iterator that users derive from, to open files in a way of their own.

Such classes set `_reader`, and call no `__init__` but that of `DatasetIterator`.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from typing import IO, Any

from grain.api.dataset_iterator import DatasetIterator
from grain.files.opened_files import opened
from grain.files.paths import PathLike
from grain.sources.byte_streams import Reading
from grain.sources.sequences import SequenceStream, records_from
from grain.sources.tfrecord import TFRecordFormat


class _TFRecordReader:
    """The records of an open file."""

    _reader: IO[bytes]

    def __init__(self, path: PathLike) -> None:
        self._reader = opened(os.fsdecode(path))
        weakref.finalize(self, self._reader.close)

    def records(self, state: Any) -> Iterator[bytes]:
        """The records from `state` on, as a stream source has them."""
        format, name = TFRecordFormat(), getattr(self._reader, "name", None)
        return records_from(Reading(self._reader, str(name), format.is_compressed), format, state)


class _TFRecordDatasetIterator(DatasetIterator[bytes]):
    """The records of a reader, with the states of `TFRecordIterDataset`."""

    _reader: _TFRecordReader
    _state: Any = None
    _records: Iterator[bytes] | None = None

    def __init__(self, path: PathLike) -> None:
        super().__init__()
        self._reader = _TFRecordReader(path)

    def __next__(self) -> bytes:
        self._assert_not_closed()
        if self._records is None:
            self._state = self._state or SequenceStream.State()
            self._records = self._reader.records(self._state)
        try:
            return next(self._records)
        except BaseException:
            self._records = None  # the state tells how to go on
            raise

    def get_state(self) -> dict[str, Any]:
        return {"reader_offset": self._state.reader_offset if self._state else 0}

    def set_state(self, state: dict[str, Any]) -> None:
        self._state, self._records = SequenceStream.State(state["reader_offset"]), None
