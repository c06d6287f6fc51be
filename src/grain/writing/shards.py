"""Files that hold the parts of one dataset."""

from __future__ import annotations

import os
import re
from itertools import pairwise

from grain.fields import Frozen


class Shard(Frozen):
    """One file: the records from number `start` on, as many as `count`, or all that there are."""

    path: str
    start: int
    count: int | None


def shards_of(target: str, shards: int, count: int | None) -> list[Shard]:
    """Files for `count` records in equal parts; one for all that there are, if that is not known.

    >>> shards_of("train.parquet", 2, 5)[1]
    Shard(path='train-00001-of-00002.parquet', start=2, count=3)
    """
    if count is None:
        return [Shard(shard_path(target, 0, 1), 0, None)]
    ends = [count * number // shards for number in range(shards + 1)]
    return [
        Shard(shard_path(target, number, shards), start, end - start)
        for number, (start, end) in enumerate(pairwise(ends))
    ]


def is_shard(path: str, target: str) -> bool:
    """Whether `path` is the name of a file that belongs to `target`, of whatever number of them.

    >>> is_shard("a-00000-of-00002.parquet", "a.parquet"), is_shard("b.parquet", "a.parquet")
    (True, False)
    """
    found = re.findall(r"(\d+)-of-(\d+)", os.path.basename(path))
    return path == target or any(path == shard_path(target, int(number), int(count)) for number, count in found)


def shard_path(target: str, number: int, shards: int) -> str:
    """The name of one of several files: numbers take the place of a `*`, or come before the extension.

    >>> shard_path("a-*.parquet", 0, 1), shard_path("a.parquet", 0, 2), shard_path("a.parquet", 0, 1)
    ('a-00000-of-00001.parquet', 'a-00000-of-00002.parquet', 'a.parquet')
    """
    folder, name = os.path.split(target)
    numbers = f"{number:05d}-of-{shards:05d}"
    if "*" in name:
        return os.path.join(folder, name.replace("*", numbers, 1))
    if shards == 1:
        return target
    stem, extension = os.path.splitext(name)
    return os.path.join(folder, f"{stem}-{numbers}{extension}")
