"""Records: what a source returned, with what a sampler said about it."""

from __future__ import annotations

import dataclasses
from typing import Generic, TypeVar

import numpy as np

T = TypeVar("T")


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class RecordMetadata:
    """Where a record stands among all (`index`), where in the source (`record_key`), and its random generator.

    >>> RecordMetadata(index=3, record_key=7).remove_record_key()
    RecordMetadata(index=3, record_key=None, rng=None)
    """

    index: int
    record_key: int | None = None
    rng: np.random.Generator | None = None

    def remove_record_key(self) -> RecordMetadata:
        """The same for what was made of the record, which is in no source."""
        return self if self.record_key is None else RecordMetadata(self.index, None, self.rng)

    # Written out, because values that are worked out only when they are looked at are values too.

    def __repr__(self) -> str:
        return f"RecordMetadata(index={self.index}, record_key={self.record_key}, rng={self.rng})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RecordMetadata):
            return NotImplemented
        return (self.index, self.record_key, self.rng) == (other.index, other.record_key, other.rng)

    __hash__ = None  # type: ignore[assignment]


@dataclasses.dataclass(slots=True)
class Record(Generic[T]):
    """An element on its way through a DataLoader."""

    metadata: RecordMetadata
    data: T
