"""The records that a DataLoader's sampler chooses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grain.elements.record import Record
from grain.errors import add_place
from grain.fields import Frozen
from grain.graph.node import MapNode
from grain.graph.parts import Part
from grain.indices.arithmetic import divided
from grain.ops.sourcing import Source
from grain.plan.index_steps import Affine, RecordKeys
from grain.plan.kinds import Join, Read
from grain.plan.reads import Indices
from grain.samplers import Arithmetic, arithmetic_of, length_of
from grain.sharding import ShardOptions


class Sampled(MapNode):
    """Of a sampler's indices `start`, `start + stride`... the records, each with its index where `with_index`."""

    parent: MapNode
    start: int
    stride: int
    count: int
    sampler: Arithmetic | None
    """Says which record of the parent stands at an index; None: that of the same index."""
    with_index: bool

    @property
    def parents(self) -> tuple[MapNode]:
        return (self.parent,)

    @property
    def length(self) -> int:
        return self.count

    def own_part(self, part: Part) -> Sampled:
        positions = range(self.count)[part.stride]
        start = self.start + part.index * self.stride
        return self.replaced(start=start, stride=self.stride * part.count, count=len(positions))

    def lower(self, parent: Any) -> Any:
        index = Affine(self.stride, self.start)
        records = parent.then(index) if self.sampler is None else parent.then(RecordKeys(self.sampler), index)
        return Join((Read(Indices(), (index,)), records)) if self.with_index else records

    @property
    def call(self) -> str:
        return f"sampled({'' if self.sampler is None else f'{self.sampler}, '}start={self.start}, stride={self.stride})"

    def __str__(self) -> str:
        return f"SampledMapDataset(start={self.start}, stride={self.stride})"


class Chosen(Frozen):
    """A source seen through a sampler that can only be asked for one index after the other, each once."""

    source: Any
    sampler: Any
    with_metadata: bool

    def __getitem__(self, index: int) -> Any:
        metadata = self.sampler[index]
        _, key = divided(metadata.record_key, len(self.source))
        try:
            data = self.source[key]
        except Exception as error:
            add_place(error, f"{type(self.source).__name__}.__getitem__", key)
            raise
        return Record(metadata, data) if self.with_metadata else data


class ChosenTogether(Chosen):
    """The same, of a source that reads many records in one call."""

    def __getitems__(self, indices: list[int]) -> Sequence[Any]:
        found, length = [self.sampler[index] for index in indices], len(self.source)
        records: Sequence[Any] = self.source.__getitems__([divided(each.record_key, length)[1] for each in found])
        return [Record(*pair) for pair in zip(found, records, strict=True)] if self.with_metadata else records


def sampled(source: Any, sampler: Any, shard: ShardOptions, with_metadata: bool) -> Sampled:
    """The data of a shard; `with_metadata` in pairs with their indices, or in records where the sampler makes them."""
    start, stride, count = shard.shard_index, shard.shard_count, shard_length(sampler, shard)
    known = arithmetic_of(sampler)
    if known is not None:
        return Sampled(Source(source), start, stride, count, known, with_metadata)
    kind = ChosenTogether if hasattr(type(source), "__getitems__") else Chosen
    return Sampled(Source(kind(source, sampler, with_metadata)), start, stride, count, None, False)


def shard_length(sampler: Any, shard: ShardOptions) -> int:
    """How many records of a sampler fall to `shard`.

    Where the sampler itself divides the records like this, it knows best: with several epochs of shards that are not
    equally long, no share of all its indices would be right.
    """
    known = arithmetic_of(sampler)
    own = None if known is None else known.shard_length()
    if own == 0 or (own is not None and _places(known._shard_options) == _places(shard)):  # type: ignore[union-attr]
        return own
    each, left = divmod(length_of(sampler), shard.shard_count)
    return each + (shard.shard_index < left and not shard.drop_remainder)


def _places(shard: ShardOptions) -> tuple[int, int, bool]:
    return shard.shard_index, shard.shard_count, shard.drop_remainder
