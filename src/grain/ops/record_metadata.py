"""What a DataLoader knows about its records, made when something asks for it."""

from __future__ import annotations

from typing import Any

from grain.elements.record import Record, RecordMetadata
from grain.indices.rng import KeyedRngPool, Lent, keyed_rng


class SampledMetadata(RecordMetadata):
    """What a sampler says about an index, found out when it is looked at."""

    __slots__ = ("_key", "_recorder", "lent")

    def __init__(self, index: int, record_key: Any = None, rng: Any = None, recorder: Recorder | None = None) -> None:
        self.index, self._key, self._recorder = index, record_key, recorder
        self.lent: Any = None if rng is None else (rng, None)

    @property
    def record_key(self) -> Any:  # type: ignore[override]
        if self._key is None and self._recorder is not None:
            self._key = self._recorder.sampler.record_keys(self.index)
        return self._key

    @property
    def rng(self) -> Any:  # type: ignore[override]
        if self.lent is None and self._recorder is not None:
            self.lent = self._recorder.lend(self.index)
        return None if self.lent is None else self.lent[0]


class Family:
    """What the items of one record have in common: a number that the record's generator has drawn."""

    __slots__ = ("_key", "_record")

    def __init__(self, record: RecordMetadata) -> None:
        self._record, self._key = record, -1

    def rng(self, index: int) -> Any:
        """The generator of the item with this index; nothing where the record has none."""
        rng = self._record.rng
        if rng is None:
            return None
        if self._key < 0:
            self._key = int(rng.integers(2**63))
        return keyed_rng(self._key + index)


class ItemMetadata(RecordMetadata):
    """What is known about one of the items made of a record."""

    __slots__ = ("_family", "_rng")

    def __init__(self, index: int, record_key: Any = None, rng: Any = None, family: Family | None = None) -> None:
        self.index, self.record_key, self._rng, self._family = index, record_key, rng, family

    @property
    def rng(self) -> Any:  # type: ignore[override]
        if self._rng is None and self._family is not None:
            self._rng = self._family.rng(self.index)
        return self._rng


class Recorder:
    """Makes records of the pairs of index and data that a sampler has chosen, and data of records."""

    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler
        self._pool = KeyedRngPool()

    def record(self, pair: tuple[int, Any]) -> Record[Any]:
        """The record of a pair."""
        index, data = pair
        return Record(SampledMetadata(index, recorder=self), data)

    def lend(self, index: int) -> Lent | None:
        """The generator of the record at an index."""
        seed = self.sampler._seed
        return None if seed is None else self._pool.acquire(seed + index)

    def data(self, record: Record[Any]) -> Any:
        """The data of a record."""
        return record.data

    def finished(self, record: Record[Any]) -> Any:
        """The data of a record that nobody needs any more."""
        metadata = record.metadata
        if type(metadata) is SampledMetadata and metadata.lent is not None:
            self._pool.release(metadata.lent)
        return record.data
