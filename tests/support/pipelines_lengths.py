"""Rows of the contract table for elements of different lengths, and for mixtures beyond Grain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from grain import IterDataset, MapDataset
from grain.transforms import Padding

LENGTHS = [3, 9, 1, 4, 12, 2, 2, 7, 5, 3, 11, 1, 6, 2]


def document(length):
    return np.arange(100 * length, 101 * length, dtype=np.int32)


def labelled(length):
    return {"tokens": document(length), "label": length, "scores": np.full((length, 2), 0.5, np.float32)}


def documents():
    return MapDataset.source(LENGTHS).map(document)


def pieces(tokens):
    return [tokens[start : start + 4] for start in range(0, len(tokens), 4)]


def times(x):
    return [(x, number) for number in range(x % 4)]


def components():
    return [MapDataset.range(9).shuffle(seed=1), MapDataset.range(100, 103), MapDataset.range(-7, -2).shuffle(seed=2)]


def tokens_in(element):
    return len(element["tokens"])


MAP_PIPELINES: dict[str, Callable[[], MapDataset[Any]]] = {
    "flat_map with a table": lambda: documents().flat_map(pieces, fan_out=[-(-length // 4) for length in LENGTHS]),
    "flat_map with a table, shuffled": lambda: (
        MapDataset.range(9).flat_map(times, fan_out=np.arange(9) % 4).shuffle(seed=1).batch(4)
    ),
    "flat_map with a table of nothing": lambda: MapDataset.range(3).flat_map(times, fan_out=[0, 0, 0]),
    "mix to the longest": lambda: MapDataset.mix(components(), weights=[1, 2, 0.7], stop="longest"),
    "mix of all": lambda: MapDataset.mix(components(), weights=[3, 1, 2], stop="renormalize"),
    "padded_batch": lambda: documents().shuffle(seed=1).padded_batch(4),
    "padded_batch with masks": lambda: (
        MapDataset.source(LENGTHS)
        .map(labelled)
        .padded_batch(
            3, pad_to={"scores": 16}, multiple_of=4, pad_value={"tokens": -1}, masks=["tokens"], drop_remainder=True
        )
    ),
}

ITER_PIPELINES: dict[str, Callable[[Any], Any]] = {
    "mix with counts": lambda stream: IterDataset.mix(list(map(stream, components())), cost_fn=abs),
    "mix to the longest": lambda stream: IterDataset.mix(
        dict(zip("bca", map(stream, components()), strict=True)), weights={"a": 1, "b": 2, "c": 1}, stop="longest"
    ),
    "mix of all": lambda stream: IterDataset.mix(
        list(map(stream, components())), weights=[3, 1, 2], stop="renormalize", cost_fn=np.abs
    ).batch(3),
    "padded_batch": lambda stream: stream(documents()).padded_batch(4, multiple_of=8),
    "unbatch": lambda stream: stream(MapDataset.source(LENGTHS).batch(4)).unbatch(),
    "unbatch of records": lambda stream: stream(MapDataset.source([4] * 5).map(labelled)).batch(2).unbatch().batch(3),
    "bucket_by_length": lambda stream: stream(documents()).bucket_by_length([3, 8], [3, 2, 2]),
    "bucket_by_length of more than are read at once": lambda stream: stream(
        MapDataset.source(LENGTHS).repeat(6).shuffle(seed=3).map(document)
    ).bucket_by_length([1, 4, 12], [7, 5, 4], padding=Padding("boundary"), max_wait=40),
    "bucket_by_length without the rest": lambda stream: stream(
        MapDataset.source(LENGTHS).map(labelled)
    ).bucket_by_length(
        [3, 12],
        [2, 3],
        length_fn=tokens_in,
        padding=Padding({"tokens": "boundary"}, masks=["tokens"]),
        drop_remainder=True,
        max_wait=3,
    ),
    "batch_by_cost": lambda stream: stream(documents()).batch_by_cost(14, len, batch_fn=np.concatenate),
    "batch_by_cost, padded": lambda stream: stream(documents().shuffle(seed=2)).batch_by_cost(
        24, len, padding=Padding(multiple_of=2)
    ),
}
