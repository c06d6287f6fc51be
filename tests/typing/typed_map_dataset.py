"""What type checkers say of a MapDataset and its methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard, assert_type

import numpy as np
import numpy.typing as npt

import grain
from grain import DatasetIterator, IterDataset, MapDataset

numbers = MapDataset.range(10)
words = MapDataset.source(["a", "b"])


def name_of(number: int) -> str:
    return str(number)


def name_or_nothing(number: int) -> str | None:
    return str(number) if number else None


def rows(count: int) -> npt.NDArray[np.float32]:
    return np.zeros((count, 2), np.float32)


def noisy(number: int, rng: np.random.Generator) -> float:
    return number + float(rng.random())


def joined(values: Sequence[int]) -> bytes:
    return bytes(values)


def is_word(value: int | str) -> TypeGuard[str]:
    return isinstance(value, str)


def first_words(dataset: MapDataset[int], count: int) -> IterDataset[str]:
    return dataset[:count].map(name_of).to_iter_dataset()


def elements_are_known() -> None:
    assert_type(numbers, MapDataset[int])
    assert_type(words, MapDataset[str])
    assert_type(numbers[0], int | None)  # None where it was filtered out
    assert_type(numbers[2:], MapDataset[int])
    assert_type(len(numbers), int)
    assert_type(iter(numbers), DatasetIterator[int])
    assert_type(list(words), list[str])
    for word in words:
        assert_type(word, str)
    numbers["0"]  # type: ignore[call-overload]


def map_gives_what_the_function_returns() -> None:
    assert_type(numbers.map(name_of), MapDataset[str])
    assert_type(numbers.map(str), MapDataset[str])
    assert_type(numbers.map(lambda x: x * 0.5), MapDataset[float])
    assert_type(numbers.map(lambda x: (x, str(x))), MapDataset[tuple[int, str]])
    assert_type(numbers.map(lambda x: {"x": x}), MapDataset[dict[str, int]])
    assert_type(numbers.map(name_of).map(len).map(name_of), MapDataset[str])
    assert_type(numbers.map(name_or_nothing), MapDataset[str])
    assert_type(numbers.map(lambda x: x if x > 3 else None), MapDataset[int])
    assert_type(numbers.map(rows), MapDataset[npt.NDArray[np.float32]])
    numbers.map(len)  # type: ignore[arg-type]
    words.map(name_of)  # type: ignore[arg-type]
    numbers.map(name_of).map(name_of)  # type: ignore[arg-type]
    numbers.map(3)  # type: ignore[arg-type]


def functions_of_more_than_the_element() -> None:
    assert_type(words.map_with_index(lambda index, word: word * index), MapDataset[str])
    assert_type(words.map_with_index(lambda index, word: (index, word)), MapDataset[tuple[int, str]])
    assert_type(numbers.random_map(noisy), MapDataset[float])
    assert_type(numbers.random_map(lambda x, rng: rng.normal(size=x), seed=1).map(len), MapDataset[int])
    words.random_map(noisy)  # type: ignore[arg-type]
    numbers.random_map(name_of)  # type: ignore[arg-type]
    words.map_with_index(noisy)  # type: ignore[arg-type]


def filter_keeps_the_type_or_narrows_it(either: MapDataset[int | str]) -> None:
    assert_type(numbers.filter(lambda x: x > 3), MapDataset[int])
    assert_type(numbers.filter(lambda x: x % 2), MapDataset[int])
    assert_type(either.filter(is_word), MapDataset[str])
    assert_type(either.filter(lambda value: value != 3), MapDataset[int | str])
    words.filter(abs)  # type: ignore[arg-type]
    numbers.filter(3)  # type: ignore[call-overload]


def flat_map_gives_the_items() -> None:
    assert_type(words.flat_map(lambda word: word.split(), fan_out=[1, 1]), MapDataset[str])
    assert_type(words.flat_map(lambda word: [len(word)], fan_out=np.array([1, 1])), MapDataset[int])
    assert_type(words.flat_map(lambda word: (len(part) for part in word.split()), fan_out=[1, 1]), MapDataset[int])
    words.flat_map(str.split)  # type: ignore[call-overload]
    words.flat_map(str.split, fan_out="11")  # type: ignore[arg-type]


def order_does_not_change_the_type() -> None:
    assert_type(words.seed(1), MapDataset[str])
    assert_type(words.shuffle(seed=1), MapDataset[str])
    assert_type(words.window_shuffle(2, seed=1), MapDataset[str])
    assert_type(words.slice(slice(1)), MapDataset[str])
    assert_type(words.slice([1, 0]), MapDataset[str])
    assert_type(words.repeat(2), MapDataset[str])
    assert_type(words.repeat(2, reseed_each_epoch=False)[0], str | None)
    words.shuffle("1")  # type: ignore[arg-type]
    words.repeat(1.5)  # type: ignore[arg-type]
    words.window_shuffle(2)  # type: ignore[call-arg]


def batches() -> None:
    assert_type(numbers.batch(2, batch_fn=joined), MapDataset[bytes])
    assert_type(numbers.batch(2, batch_fn=list), MapDataset[list[int]])
    assert_type(numbers.batch(2, drop_remainder=True, batch_fn=lambda values: values[0]), MapDataset[int])
    assert_type(numbers.batch(2), MapDataset[Any])
    assert_type(numbers.batch(2, keep_bytes=True), MapDataset[Any])
    numbers.batch(2, keep_bytes="yes")  # type: ignore[call-overload]
    assert_type(numbers.batch(2, batch_fn=grain.Padding()), MapDataset[Any])
    assert_type(numbers.map(np.ones).padded_batch(2, pad_value=-1.0), MapDataset[Any])
    assert_type(numbers.map(np.ones).padded_batch(2, pad_value={"x": -1}, masks=["x"]), MapDataset[Any])
    words.batch(2, batch_fn=joined)  # type: ignore[arg-type]
    words.batch("2")  # type: ignore[call-overload]


def streams() -> None:
    assert_type(words.to_iter_dataset(), IterDataset[str])
    assert_type(words.to_iter_dataset(grain.ReadOptions(num_threads=0)), IterDataset[str])
    assert_type(words.to_iter_dataset(allow_nones=True), IterDataset[str | None])


def pipes() -> None:
    assert_type(numbers.pipe(first_words, 3), IterDataset[str])
    assert_type(numbers.pipe(first_words, count=3), IterDataset[str])
    assert_type(numbers.pipe(len), int)
    numbers.pipe(first_words, "3")  # type: ignore[arg-type]
    words.pipe(first_words, 3)  # type: ignore[arg-type]


def what_is_read_is_covariant(either: MapDataset[int | str]) -> None:
    wider: MapDataset[object] = either
    narrower: MapDataset[str] = either  # type: ignore[assignment]
    del wider, narrower
