"""What type checkers say of an IterDataset and its methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict, TypeGuard, assert_type

import numpy as np

import grain
from grain import DatasetIterator, IterDataset, MapDataset

numbers = MapDataset.range(10).to_iter_dataset()
words = MapDataset.source(["a", "b"]).to_iter_dataset()
documents = MapDataset.source([{"tokens": np.arange(3)}]).to_iter_dataset()


class Document(TypedDict):
    tokens: list[int]


def name_of(number: int) -> str:
    return str(number)


def name_or_nothing(number: int) -> str | None:
    return str(number) if number else None


def noisy(number: int, rng: np.random.Generator) -> float:
    return number + float(rng.random())


def joined(values: Sequence[int]) -> bytes:
    return bytes(values)


def is_word(value: int | str) -> TypeGuard[str]:
    return isinstance(value, str)


def elements_are_known() -> None:
    assert_type(numbers, IterDataset[int])
    assert_type(iter(numbers), DatasetIterator[int])
    assert_type(next(iter(numbers)), int)
    assert_type(list(words), list[str])
    for word in words:
        assert_type(word, str)
    words[0]  # type: ignore[index]
    len(words)  # type: ignore[arg-type]


def functions(either: IterDataset[int | str]) -> None:
    assert_type(numbers.map(name_of), IterDataset[str])
    assert_type(numbers.map(lambda x: {"x": x}), IterDataset[dict[str, int]])
    assert_type(numbers.map(name_or_nothing), IterDataset[str | None])  # streams have no gaps
    assert_type(words.map_with_index(lambda index, word: (index, word)), IterDataset[tuple[int, str]])
    assert_type(numbers.random_map(noisy, seed=1), IterDataset[float])
    assert_type(numbers.filter(lambda x: x > 3), IterDataset[int])
    assert_type(either.filter(is_word), IterDataset[str])
    words.map(name_of)  # type: ignore[arg-type]
    words.random_map(noisy)  # type: ignore[arg-type]
    words.filter(3)  # type: ignore[call-overload]


def flat_map_gives_the_items() -> None:
    assert_type(words.flat_map(lambda word: [len(word)]), IterDataset[int])
    assert_type(words.flat_map(str.split), IterDataset[str])
    assert_type(words.flat_map(str.encode), IterDataset[int])
    assert_type(numbers.flat_map(np.arange), IterDataset[Any])
    numbers.flat_map(name_of).map(name_of)  # type: ignore[arg-type]
    numbers.flat_map(abs)  # type: ignore[arg-type]


def same_elements() -> None:
    assert_type(words.seed(1), IterDataset[str])
    assert_type(words.limit(3), IterDataset[str])
    assert_type(words.repeat(), IterDataset[str])
    assert_type(words.cache(), IterDataset[str])
    assert_type(words.window_shuffle(3, seed=1), IterDataset[str])
    assert_type(words.thread_prefetch(2), IterDataset[str])
    assert_type(words.mp_prefetch(), IterDataset[str])
    assert_type(words.mp_prefetch(grain.MultiprocessingOptions(num_workers=2)), IterDataset[str])
    assert_type(words.prefetch(grain.MultiprocessingOptions(num_workers=2)), IterDataset[str])
    assert_type(words.with_options(grain.experimental.DatasetOptions()), IterDataset[str])
    words.limit("3")  # type: ignore[arg-type]
    words.mp_prefetch(2)  # type: ignore[arg-type]
    words.with_options(grain.ReadOptions())  # type: ignore[arg-type]
    words.shuffle(seed=1)  # type: ignore[attr-defined]


def batches() -> None:
    assert_type(numbers.batch(2, batch_fn=joined), IterDataset[bytes])
    assert_type(numbers.batch(2), IterDataset[Any])
    assert_type(documents.padded_batch(2), IterDataset[Any])
    assert_type(numbers.batch(2, batch_fn=np.array).rebatch(3), IterDataset[np.ndarray[tuple[Any, ...], np.dtype[Any]]])
    assert_type(documents.unbatch(), IterDataset[Any])
    assert_type(words.bucket_by_length([2], [8, 4], length_fn=len), IterDataset[Any])
    assert_type(words.batch_by_cost(100, len), IterDataset[Any])
    assert_type(words.batch_by_cost(100, len, padding=grain.Padding()), IterDataset[Any])
    assert_type(words.batch_by_cost(100, len, batch_fn="".join), IterDataset[str])
    numbers.batch_by_cost(100, len)  # type: ignore[arg-type]
    numbers.bucket_by_length([2], [8, 4], length_fn=len)  # type: ignore[arg-type]
    words.batch_by_cost(100, len, batch_fn="".join, padding=grain.Padding())  # type: ignore[call-overload]


def packing(typed: IterDataset[Document]) -> None:
    assert_type(documents.pack_first_fit(length_struct={"tokens": 8}, num_packing_bins=2), IterDataset[dict[str, Any]])
    assert_type(typed.pack_best_fit(length_struct={"tokens": 8}, num_packing_bins=2), IterDataset[dict[str, Any]])
    rows = documents.concat_and_split(length_struct={"tokens": 8})
    assert_type(rows, IterDataset[dict[str, np.ndarray[Any, Any]]])
    numbers.pack_first_fit(length_struct={"tokens": 8}, num_packing_bins=2)  # type: ignore[misc]
    documents.pack_first_fit(length_struct={"tokens": 8})  # type: ignore[call-arg]
    documents.concat_and_split(length_struct={"tokens": 8}, bins=2)  # type: ignore[call-arg]


def devices(device: object) -> None:
    assert_type(documents.device_put(device), IterDataset[Any])


def what_is_read_is_covariant(either: IterDataset[int | str]) -> None:
    wider: IterDataset[object] = either
    narrower: IterDataset[str] = either  # type: ignore[assignment]
    del wider, narrower
