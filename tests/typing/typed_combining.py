"""What type checkers say of datasets that are made of several."""

from __future__ import annotations

from typing import assert_type

import grain
from grain import IterDataset, MapDataset

numbers = MapDataset.range(10)
words = MapDataset.source(["a", "b"])
halves = numbers.map(lambda x: x / 2)
flags = numbers.map(bool)
codes = words.map(str.encode)


class Alternating(grain.transforms.DatasetSelectionMap):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> tuple[int, int]:
        return index % 2, index // 2


def zips_of_tuples() -> None:
    assert_type(MapDataset.zip((numbers,)), MapDataset[tuple[int]])
    assert_type(MapDataset.zip((numbers, words)), MapDataset[tuple[int, str]])
    assert_type(MapDataset.zip((numbers, words, halves)), MapDataset[tuple[int, str, float]])
    assert_type(MapDataset.zip((numbers, words, halves, flags)), MapDataset[tuple[int, str, float, bool]])
    all_five = MapDataset.zip((numbers, words, halves, flags, codes))
    assert_type(all_five, MapDataset[tuple[int, str, float, bool, bytes]])
    assert_type(MapDataset.zip((numbers,) * 6), MapDataset[tuple[int, ...]])
    assert_type(MapDataset.zip((numbers, words)).map(lambda pair: pair[1] * pair[0]), MapDataset[str])
    first, second = MapDataset.zip((numbers, words))[0] or (0, "")
    assert_type(first, int)
    assert_type(second, str)


def zips_of_lists() -> None:
    assert_type(MapDataset.zip([numbers, numbers]), MapDataset[tuple[int, ...]])
    either: MapDataset[tuple[int | str, ...]] = MapDataset.zip([numbers, words])
    del either


def zips_of_streams() -> None:
    stream = words.to_iter_dataset()
    assert_type(IterDataset.zip((stream,)), IterDataset[tuple[str]])
    assert_type(IterDataset.zip((stream, numbers)), IterDataset[tuple[str, int]])
    assert_type(IterDataset.zip((stream, stream, halves)), IterDataset[tuple[str, str, float]])
    assert_type(IterDataset.zip((stream, flags, codes, halves)), IterDataset[tuple[str, bool, bytes, float]])
    all_five = IterDataset.zip((stream, numbers, halves, flags, codes), strict=False)
    assert_type(all_five, IterDataset[tuple[str, int, float, bool, bytes]])
    assert_type(IterDataset.zip([stream, stream]), IterDataset[tuple[str, ...]])


def mixtures() -> None:
    assert_type(MapDataset.mix([numbers, numbers], weights=[1, 2]), MapDataset[int])
    assert_type(MapDataset.mix([words, words], stop="renormalize"), MapDataset[str])
    assert_type(MapDataset.concatenate([words, words]), MapDataset[str])
    assert_type(MapDataset.select_from_datasets([words, words], Alternating()), MapDataset[str])
    either: MapDataset[int | str] = MapDataset.mix([numbers, words])
    both: MapDataset[int | str] = MapDataset.concatenate([numbers, words])
    del either, both


def mixtures_of_streams() -> None:
    stream = words.to_iter_dataset()
    assert_type(IterDataset.mix([stream, words], [1, 2]), IterDataset[str])
    assert_type(IterDataset.mix({"a": stream, "b": stream}, {"a": 1, "b": 2}), IterDataset[str])
    assert_type(IterDataset.mix([stream], with_counts=True, cost_fn=len), IterDataset[str])


def interleaves() -> None:
    assert_type(IterDataset.interleave([words, words], cycle_length=2), IterDataset[str])
    assert_type(IterDataset.interleave([words.to_iter_dataset()], cycle_length=2), IterDataset[str])
    assert_type(IterDataset.interleave(numbers.map(MapDataset.range), cycle_length=2), IterDataset[int])
    nested = words.map(lambda word: MapDataset.source([word.encode()]).to_iter_dataset())
    assert_type(IterDataset.interleave(nested, cycle_length=2), IterDataset[bytes])


def wrong_ones() -> None:
    stream = words.to_iter_dataset()
    MapDataset.zip((words, stream))  # type: ignore[arg-type]
    MapDataset.zip(words)  # type: ignore[call-overload]
    MapDataset.zip(numbers, words)  # type: ignore[call-overload]
    MapDataset.mix([stream])  # type: ignore[arg-type]
    MapDataset.mix([words], stop="never")  # type: ignore[arg-type]
    MapDataset.concatenate([words, ["a"]])  # type: ignore[arg-type]
    MapDataset.select_from_datasets([words], [(0, 0)])  # type: ignore[arg-type]
    MapDataset.zip((numbers, words)).map(lambda pair: pair[1] + pair[0])  # type: ignore[operator]
    IterDataset.interleave([words], 2)  # type: ignore[call-arg]
    IterDataset.interleave(words, cycle_length=2)  # type: ignore[arg-type]
    IterDataset.mix([words], cost_fn=abs)  # type: ignore[arg-type]
    words.zip((words, words))  # type: ignore[attr-defined]
    words.source([1])  # type: ignore[attr-defined]
