"""`grain.sharding`: which share of the records falls to which process."""

from __future__ import annotations

import dataclasses

from grain.files.state_files import jax_process
from grain.indices import arithmetic
from grain.options import warn

__all__ = ["NoSharding", "ShardByJaxProcess", "ShardOptions"]


@dataclasses.dataclass(frozen=True)
class ShardOptions:
    """Shard `shard_index` of `shard_count`; with `drop_remainder` all have the same number of records.

    >>> ShardOptions(0, 2)
    ShardOptions(shard_index=0, shard_count=2, drop_remainder=False)
    """

    shard_index: int
    shard_count: int
    drop_remainder: bool = False

    def __post_init__(self) -> None:
        if self.shard_count <= 0:
            raise ValueError(f"Number of shards must be a positive integer but got {self.shard_count}.")
        if not 0 <= self.shard_index < self.shard_count:
            raise ValueError(
                "Shard shard_index must be in [0, shard_count - 1], "
                f"shard_count was {self.shard_count} and shard_index was {self.shard_index}."
            )


class NoSharding(ShardOptions):
    """All records in one shard.

    >>> NoSharding()
    NoSharding(shard_index=0, shard_count=1, drop_remainder=False)
    """

    def __init__(self) -> None:
        super().__init__(0, 1)


class ShardByJaxProcess(ShardOptions):
    """One shard for each JAX process; one for all in a program that has not imported JAX.

    >>> ShardByJaxProcess(drop_remainder=True)
    ShardByJaxProcess(shard_index=0, shard_count=1, drop_remainder=True)
    """

    def __init__(self, drop_remainder: bool = False) -> None:
        super().__init__(*jax_process(), drop_remainder)


def even_split(num_examples: int, options: ShardOptions) -> tuple[int, int]:
    """The first record of a contiguous shard, and the one after its last.

    >>> [even_split(10, ShardOptions(index, 4)) for index in range(4)]
    [(0, 3), (3, 6), (6, 8), (8, 10)]
    """
    count = options.shard_count
    remainder = num_examples % count
    if not options.drop_remainder or not remainder:
        return arithmetic.even_split(num_examples, options.shard_index, count)
    warn("Dropping %d examples of %d examples (shard %d).", remainder, num_examples, count)
    return arithmetic.even_split(num_examples - remainder, options.shard_index, count)
