"""What type checkers say of a DataLoader."""

from __future__ import annotations

from typing import Any, assert_type

import grain
from grain import DataLoader, DataLoaderIterator, MapDataset, RecordMetadata

sampler = grain.IndexSampler(3, num_epochs=1)


class Backwards:
    """A sampler of a user's own."""

    def __getitem__(self, index: int) -> RecordMetadata:
        return RecordMetadata(index, 2 - index)


def without_operations() -> None:
    loader = DataLoader(data_source=["a", "b", "c"], sampler=sampler)
    assert_type(loader, DataLoader[str])
    assert_type(iter(loader), DataLoaderIterator[str])
    assert_type(next(iter(loader)), str)
    assert_type(iter(loader).get_state(), bytes)
    assert_type(len(loader), int)
    for record in loader:
        assert_type(record, str)
    with iter(loader) as iterator:
        assert_type(list(iterator), list[str])


def with_operations() -> None:
    batches = DataLoader(data_source=["a", "b", "c"], sampler=sampler, operations=[str.upper, grain.Batch(2)])
    assert_type(batches, DataLoader[Any])
    assert_type(next(iter(batches)), Any)
    DataLoader(data_source=range(3), sampler=sampler, operations=[grain.MapOperation(str)])
    annotated: DataLoader[int] = DataLoader(data_source=range(3), sampler=sampler, operations=[abs])
    assert_type(next(iter(annotated)), int)


def loading() -> None:
    assert_type(grain.load(range(3)), DataLoader[int])
    assert_type(grain.load(["a"], shuffle=True, seed=1, num_epochs=2), DataLoader[str])
    assert_type(grain.load(range(3), batch_size=2), DataLoader[Any])
    assert_type(grain.load(range(3), transformations=[str]), DataLoader[Any])
    assert_type(grain.load(MapDataset.range(3).map(str)), DataLoader[str | None])
    grain.load(3)  # type: ignore[call-overload]
    grain.load(range(3), transformations=[3])  # type: ignore[list-item]


def samplers() -> None:
    DataLoader(data_source=["a"], sampler=Backwards(), shard_options=grain.NoSharding())
    assert_type(sampler[0], RecordMetadata)
    assert_type(sampler[0].record_key, int | None)
    assert_type(grain.SequentialSampler(3).record_keys(1), int)
    DataLoader(data_source=["a"], sampler=[0])  # type: ignore[list-item]
    DataLoader(data_source=3, sampler=sampler)  # type: ignore[call-overload]
    DataLoader(["a"], sampler)  # type: ignore[call-overload]
    grain.IndexSampler("3")  # type: ignore[arg-type]


def records() -> None:
    record = grain.Record(RecordMetadata(0), "a")
    assert_type(record, grain.Record[str])
    assert_type(record.data, str)
