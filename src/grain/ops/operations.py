"""Operations of older programs: objects that are given an iterator of records and return another.

Use the classes of `grain.transforms` instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from grain.elements.record import Record
from grain.elements.trees import map_structure
from grain.fields import Fields

__all__ = ["BatchOperation", "FilterOperation", "MapOperation", "Operation", "RandomMapOperation"]

In = TypeVar("In")
Out = TypeVar("Out")


class Operation(Protocol):
    """What a DataLoader calls with an iterator of records; derive from it to be recognised."""

    def __call__(self, input_iterator: Iterator[Record[Any]]) -> Iterator[Record[Any]]: ...


def _called(function: Callable[..., Out], kind: str, *args: Any) -> Out:
    try:
        return function(*args)
    except Exception as error:
        raise ValueError(f"PyGrain encountered an error when calling {kind} function.") from error


def _deprecated(operation: str, replacement: str) -> None:
    import logging  # only now: `import grain` is to be fast

    logging.getLogger("grain").error("%s is deprecated: use grain.transforms.%s.", operation, replacement)


class MapOperation(Fields, Generic[In, Out]):
    """`map_function` of each record's data. Use `grain.transforms.Map`."""

    map_function: Callable[[In], Out]

    def __call__(self, input_iterator: Iterator[Record[In]]) -> Iterator[Record[Out]]:
        """The changed records."""
        _deprecated("MapOperation", "Map")
        for record in input_iterator:
            yield Record(record.metadata.remove_record_key(), _called(self.map_function, "map", record.data))


class RandomMapOperation(Fields, Generic[In, Out]):
    """`random_map_function` of each record's data and generator. Use `grain.transforms.RandomMap`."""

    random_map_function: Callable[[In, np.random.Generator], Out]

    def __call__(self, input_iterator: Iterator[Record[In]]) -> Iterator[Record[Out]]:
        """The changed records."""
        _deprecated("RandomMapOperation", "RandomMap")
        for record in input_iterator:
            data = _called(self.random_map_function, "random map", record.data, record.metadata.rng)
            yield Record(record.metadata.remove_record_key(), data)


class FilterOperation(Fields, Generic[In]):
    """The records whose data meet a condition. Use `grain.transforms.Filter`."""

    condition_function: Callable[[In], bool]

    def __call__(self, input_iterator: Iterator[Record[In]]) -> Iterator[Record[In]]:
        """The records that are kept."""
        _deprecated("FilterOperation", "Filter")
        for record in input_iterator:
            if _called(self.condition_function, "condition", record.data):
                yield Record(record.metadata.remove_record_key(), record.data)


class BatchOperation(Fields, Generic[In, Out]):
    """Batches of records' data. Use `grain.transforms.Batch`."""

    batch_size: int
    drop_remainder: bool
    batch_fn: Callable[[Sequence[In]], Out]

    def __init__(
        self, batch_size: int, drop_remainder: bool = False, batch_fn: Callable[[Sequence[In]], Out] | None = None
    ) -> None:
        if batch_size <= 0:
            raise ValueError(f"batch_size must be a positive integer. Got {batch_size}.")
        super().__init__(batch_size, drop_remainder, batch_fn or _stacked)

    def __call__(self, input_iterator: Iterator[Record[In]]) -> Iterator[Record[Out]]:
        """The batches, each with the metadata of its last record."""
        _deprecated("BatchOperation", "Batch")
        records: list[Record[In]] = []
        for record in input_iterator:
            records.append(record)
            if len(records) == self.batch_size:
                yield self._joined(records)
                records = []
        if records and not self.drop_remainder:
            yield self._joined(records)

    def _joined(self, records: list[Record[In]]) -> Record[Out]:
        return Record(records[-1].metadata.remove_record_key(), self.batch_fn([record.data for record in records]))


def _stacked(values: Sequence[Any]) -> Any:
    structures = [map_structure(lambda leaf: "*", value) for value in values]
    differing = [position for position, structure in enumerate(structures) if structure != structures[0]]
    if differing:
        raise TypeError(
            f"Record structures do not match. Record at position 0 has structure {structures[0]}, while records at "
            f"positions {differing} have structures {[structures[position] for position in differing]}."
        )
    return map_structure(lambda *leaves: np.stack(leaves), *values)
