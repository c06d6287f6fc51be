"""A DataLoader's operations, on records.

1. Data alone are passed on, unless an operation further down needs more: the record's index, its generator, or the
   record itself. Up to the last such operation, records are passed on.
2. A record's generator is made when an operation takes it, and is the same for all operations on that record.
3. What is made of several records has the metadata of the last of them; what is made of a part of one has an index and
   a generator of its own.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, get_origin

from grain import transforms
from grain.elements.record import Record
from grain.elements.stacking import stacked
from grain.graph.functions import Function
from grain.graph.naming import transform_name
from grain.graph.node import IterNode, Parent, Stateless
from grain.ops.batching import BatchFunction, batch_node
from grain.ops.flattening import IterFlatMap
from grain.ops.mapping import IterFilter, IterMap
from grain.ops.operations import BatchOperation, Operation
from grain.ops.record_metadata import Family, ItemMetadata, Recorder

_METHODS: list[tuple[type, str]] = [
    (transforms.Map, "map"),
    (transforms.RandomMap, "random_map"),
    (transforms.TfRandomMap, "np_random_map"),
    (transforms.FlatMap, "flat_map"),
    (transforms.Filter, "filter"),
    (transforms.Batch, "batch"),
    (transforms.MapWithIndex, "map_with_index"),
]
_ON_DATA = {"map", "flat_map", "filter", "batch"}


class DataMap(IterMap):
    """A function of each element, also of those that are None."""

    maps_none = True


class Operated(IterNode[Stateless]):
    """What an operation on iterators makes of the records. It has no state: after restoring it is called anew."""

    parent: Any
    operation: Callable[[Iterator[Record[Any]]], Iterator[Record[Any]]]

    @property
    def parents(self) -> tuple[Any]:
        return (self.parent,)

    def run(self, state: Stateless, *parents: Parent) -> Iterator[Any]:
        yield from self.operation(iter(parents[0]))

    @property
    def held_back(self) -> str:
        return "whatever the operation keeps, which is lost when a state is restored"

    def __str__(self) -> str:
        return f"OperationIterDataset(operation={transform_name(self.operation)})"


class ItemsFunction(Function):
    """A user's function that makes several elements of one, whatever iterable it returns them in."""

    def __init__(self, transform: Any, method: str) -> None:
        super().__init__(transform, method)
        function = self.call
        self.call = lambda element: list(function(element))


class RecordFunction(Function):
    """A user's transformation, of the data of records."""

    def __init__(self, transform: Any, method: str) -> None:
        super().__init__(transform, method)
        self._of_data, self.call = self.call, getattr(self, f"_{method}")

    def _map(self, record: Record[Any]) -> Record[Any]:
        return Record(record.metadata, self._of_data(record.data))

    def _random_map(self, record: Record[Any]) -> Record[Any]:
        return Record(record.metadata, self._of_data(record.data, record.metadata.rng))

    _np_random_map = _random_map

    def _map_with_index(self, record: Record[Any]) -> Record[Any]:
        return Record(record.metadata, self._of_data(record.metadata.index, record.data))

    def _filter(self, record: Record[Any]) -> bool:
        return self._of_data(record.data)  # type: ignore[no-any-return]

    def _flat_map(self, record: Record[Any]) -> list[Record[Any]]:
        first, family = record.metadata.index * self.transform.max_fan_out, Family(record.metadata)
        items = enumerate(self._of_data(record.data), first)
        return [Record(ItemMetadata(index, family=family), item) for index, item in items]


class RecordBatch:
    """Makes one record of several."""

    def __init__(self, batch_fn: BatchFunction | None, keep_bytes: bool) -> None:
        self._batch_fn = batch_fn or functools.partial(stacked, keep_bytes=keep_bytes)

    def __call__(self, records: Sequence[Record[Any]]) -> Record[Any]:
        data = self._batch_fn([record.data for record in records])
        return Record(records[-1].metadata.remove_record_key(), data)


def method_of(operation: Any) -> str:
    """Which of the kinds an operation is: a method of `grain.transforms`, or "operation" for one on iterators."""
    for kind, method in _METHODS:
        if isinstance(operation, kind):
            return method
    if not callable(operation):
        raise TypeError(
            f"operations must be objects of grain.transforms or callable, got {operation!r} "
            f"({type(operation).__name__})."
        )
    return "operation" if _is_on_iterators(operation) else "map"


def _is_on_iterators(operation: Any) -> bool:
    """Whether it is called with an iterator of records, not with an element."""
    if Operation in type(operation).__mro__:
        return True
    function = operation if inspect.isroutine(operation) else type(operation).__call__
    return inspect.isgeneratorfunction(function) or any(map(_is_iterator, _annotations(function)))


def _annotations(function: Any) -> Iterator[Any]:
    """What a function says that it takes and returns; names that mean nothing where it was written are left out."""
    for annotation in getattr(function, "__annotations__", {}).values():
        if not isinstance(annotation, str):
            yield annotation
            continue
        with contextlib.suppress(Exception):
            yield eval(annotation, getattr(inspect.unwrap(function), "__globals__", {}))


def _is_iterator(annotation: Any) -> bool:
    kind = get_origin(annotation) or annotation
    return isinstance(kind, type) and issubclass(kind, Iterator)


def modern(operation: Any) -> Any:
    """The operation, or the transformation that has taken its place."""
    if type(operation) is BatchOperation:
        return transforms.Batch(operation.batch_size, operation.drop_remainder, operation.batch_fn)
    return operation


def count_on_records(operations: Sequence[Any]) -> int:
    """How many of the operations, from the first on, are given records."""
    needing = [position for position, each in enumerate(operations, 1) if method_of(each) not in _ON_DATA]
    return max(needing, default=0)


def operated(stream: IterNode[Any], operations: Sequence[Any], recorder: Recorder) -> IterNode[Any]:
    """`operations` in turn; `stream` is of records where an operation needs them."""
    on_records = count_on_records(operations)
    keeps = any(method_of(each) == "operation" for each in operations)
    for position, operation in enumerate(operations, 1):
        stream = _operated(stream, operation, position <= on_records)
        if position == on_records:  # an operation on iterators may go on using what it has handed out
            stream = DataMap(stream, Function(recorder.data if keeps else recorder.finished, "map"))
    return stream


def _operated(stream: IterNode[Any], operation: Any, on_records: bool) -> IterNode[Any]:
    method = method_of(operation)
    if method == "operation":
        return Operated(stream, operation)
    if method == "batch":
        size, drop_remainder, keep_bytes = operation.batch_size, operation.drop_remainder, operation.keep_bytes
        if not on_records:
            return batch_node(stream, size, drop_remainder, operation.batch_fn, keep_bytes)  # type: ignore[return-value]
        join = RecordBatch(operation.batch_fn, keep_bytes)
        return batch_node(stream, size, drop_remainder, join)  # type: ignore[return-value]
    if method == "flat_map":
        return IterFlatMap(stream, (RecordFunction if on_records else ItemsFunction)(operation, method))
    function = (RecordFunction if on_records else Function)(operation, method)
    return (IterFilter if method == "filter" else DataMap)(stream, function)


def count_made(count: int, operations: Sequence[Any]) -> int | None:
    """How many elements are made of `count` records; None where that depends on what is in them."""
    for operation in operations:
        method = method_of(operation)
        if method in ("filter", "flat_map", "operation"):
            return None
        if method == "batch":
            size = operation.batch_size
            count = count // size if operation.drop_remainder else -(-count // size)
    return count
