"""`grain.samplers`: in which order a DataLoader reads records."""

from __future__ import annotations

import abc
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from grain.elements.record import RecordMetadata
from grain.indices.arithmetic import integer
from grain.indices.permutation import shuffled
from grain.indices.rng import keyed_rng
from grain.sharding import NoSharding, ShardOptions, even_split

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Indices = TypeVar("Indices", int, npt.NDArray[np.int64])

__all__ = ["IndexSampler", "Sampler", "SequentialSampler"]

_SEED_BITS = 32


class Sampler(Protocol):
    """Says which record stands at each index. Without `__len__`, where the first IndexError is tells how many."""

    def __getitem__(self, index: int) -> RecordMetadata: ...


class Arithmetic(abc.ABC):
    """A sampler that can say what stands at a whole array of indices."""

    def __init__(self, num_records: int, shard_options: ShardOptions, seed: int | None, stop: int | None) -> None:
        self._num_records, self._shard_options, self._seed, self._max_index = num_records, shard_options, seed, stop

    def __len__(self) -> int:
        return sys.maxsize if self._max_index is None else self._max_index

    def __getitem__(self, index: int) -> RecordMetadata:
        if index < 0 or (self._max_index is not None and index >= self._max_index):
            raise IndexError(
                f"RecordMetadata object index is out of bounds; Got index {index}, "
                f"allowed indices should be in [0, {self._max_index}]"
            )
        index = int(index)
        return RecordMetadata(index, self.record_keys(index), self.rng_at(index))

    def rng_at(self, index: int) -> np.random.Generator | None:
        """The generator of the record at an index; None without a seed."""
        return None if self._seed is None else keyed_rng(self._seed + index)

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if type(self) is type(other) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), self._num_records, self._seed))

    @abc.abstractmethod
    def record_keys(self, indices: Indices) -> Indices:
        """The keys of the records at an index, or at an array of them, which need not be below the length."""

    @abc.abstractmethod
    def shard_length(self) -> int | None:
        """How many records the sampler's own shard has; None where it does not divide them itself."""


def _checked_count(num_records: int) -> int:
    if num_records <= 0:
        raise ValueError(
            f"Invalid number of records in Sampler. Got {num_records} records, "
            "but number of records must be greater than 0."
        )
    return integer("num_records", num_records)


class SequentialSampler(Arithmetic):
    """All `num_records` records in the order of the source, once. With a `seed` each has a random generator.

    >>> [SequentialSampler(3)[index].record_key for index in range(3)]
    [0, 1, 2]
    """

    def __init__(self, num_records: int, shard_options: ShardOptions = NoSharding(), seed: int | None = None) -> None:
        num_records = _checked_count(num_records)
        dropped = num_records % shard_options.shard_count if shard_options.drop_remainder else 0
        super().__init__(num_records, shard_options, seed, num_records - dropped)

    def record_keys(self, indices: Indices) -> Indices:
        return indices

    def shard_length(self) -> int | None:
        return None

    def __repr__(self) -> str:
        return f"SequentialSampler(num_records={self._num_records}, shard_options={self._shard_options!r})"


class IndexSampler(Arithmetic):
    """`num_records` records in order or, with `shuffle`, in a new order in each of `num_epochs` (None: endlessly many).

    With a `seed`, which shuffling needs, each has a random generator. Each shard is a contiguous block of the records,
    shuffled by itself. Indices count the records of all shards: those from i * shard_count on are the i-th of each.

    >>> sampler = IndexSampler(5, shuffle=True, num_epochs=2, seed=0)
    >>> [sampler[index].record_key for index in range(len(sampler))]
    [0, 4, 1, 2, 3, 1, 2, 3, 0, 4]
    """

    def __init__(
        self,
        num_records: int,
        shard_options: ShardOptions = NoSharding(),
        shuffle: bool = False,
        num_epochs: int | None = None,
        seed: int | None = None,
    ) -> None:
        num_records = _checked_count(num_records)
        if num_epochs is not None and num_epochs <= 0:
            raise ValueError(
                f"Invalid number of epochs in Index Sampler. Got {num_epochs} epochs, "
                "but number of epochs must be greater than 0."
            )
        self._shuffle, self._num_epochs = shuffle, num_epochs
        self._start, stop = (
            (0, num_records) if isinstance(shard_options, NoSharding) else even_split(num_records, shard_options)
        )
        self._count = stop - self._start
        max_index = None if num_epochs is None else num_epochs * num_records
        if max_index is not None and shard_options.drop_remainder:
            max_index = min(max_index, self._count * shard_options.shard_count * num_epochs)  # type: ignore[operator]
        super().__init__(num_records, shard_options, _checked_seed(seed, shuffle), max_index)

    def record_keys(self, indices: Indices) -> Indices:
        place = indices // self._shard_options.shard_count
        if self._shuffle:
            assert self._seed is not None
            place = shuffled(self._seed, self._count, place)
        return place % self._count + self._start

    def shard_length(self) -> int | None:
        if not self._count:
            return 0
        return sys.maxsize if self._num_epochs is None else self._count * self._num_epochs

    def __repr__(self) -> str:
        return (
            f"IndexSampler(num_records={self._num_records}, shard_options={self._shard_options!r}, "
            f"shuffle={self._shuffle}, num_epochs={self._num_epochs}, seed={self._seed})"
        )


def _checked_seed(seed: int | None, shuffle: bool) -> int | None:
    if shuffle and seed is None:
        raise ValueError("Shuffling requires specifying a seed.")
    if shuffle and not isinstance(seed, int):
        raise TypeError(f"Expected seed of int type. Got seed with type {type(seed)}")
    if seed is not None and not 0 <= seed < 2**_SEED_BITS:
        raise ValueError(f"Seed should be positive 32-bit integer. Got {seed}.")
    return seed


def arithmetic_of(sampler: Any) -> Arithmetic | None:
    """The sampler, where it can be asked for many records at once; a subclass may have its own idea of single ones."""
    return sampler if getattr(type(sampler), "__getitem__", None) is Arithmetic.__getitem__ else None


def length_of(sampler: Any) -> int:
    """How many indices a sampler has."""
    try:
        return len(sampler)
    except TypeError:
        return _first_missing(sampler.__getitem__)


def _first_missing(get: Callable[[int], Any]) -> int:
    """The first index at which there is an IndexError."""
    low, high = 0, sys.maxsize
    while low < high:
        middle = (low + high) // 2
        try:
            get(middle)
        except IndexError:
            high = middle
        else:
            low = middle + 1
    return low
