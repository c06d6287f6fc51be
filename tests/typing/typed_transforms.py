"""What type checkers make of transformation objects: what their methods say."""

from __future__ import annotations

import dataclasses
from typing import Any, assert_type

import numpy as np

import grain
from grain import IterDataset, MapDataset, transforms

numbers = MapDataset.range(10)
words = MapDataset.source(["a", "b"])


class Name(transforms.Map):
    def map(self, element: int) -> str:
        return str(element)


@dataclasses.dataclass
class Above(transforms.Map):
    """It leaves out elements."""

    least: int

    def map(self, number: int) -> int | None:
        return number if number > self.least else None


class Loose(transforms.Map):
    def map(self, element: Any) -> Any:
        return element


class Noise(transforms.RandomMap):
    def random_map(self, element: int, rng: np.random.Generator) -> float:
        return element + float(rng.random())


class Numbered(transforms.MapWithIndex):
    def map_with_index(self, index: int, element: str) -> tuple[int, str]:
        return index, element


class Even(transforms.Filter):
    def filter(self, element: int) -> bool:
        return element % 2 == 0


class Letters(transforms.FlatMap):
    max_fan_out = 3

    def flat_map(self, element: str) -> list[bytes]:
        return [letter.encode() for letter in element]


class EvenNames(transforms.Map, transforms.Filter):
    """Two kinds in one class."""

    def map(self, element: int) -> str:
        return str(element)

    def filter(self, element: int) -> bool:
        return element % 2 == 0


class NotAMap:
    """It has a method of that name, but nothing calls it."""

    def map(self, element: int) -> str:
        return str(element)


class WrongMap(transforms.Map):
    def map(self, element: int, more: int) -> str:  # type: ignore[override]
        return str(element + more)


def objects_of_a_map_dataset() -> None:
    assert_type(numbers.map(Name()), MapDataset[str])
    assert_type(numbers.map(Above(3)), MapDataset[int])
    assert_type(numbers.map(Loose()), MapDataset[Any])
    assert_type(numbers.random_map(Noise(), seed=1), MapDataset[float])
    assert_type(words.map_with_index(Numbered()), MapDataset[tuple[int, str]])
    assert_type(numbers.filter(Even()), MapDataset[int])
    assert_type(words.flat_map(Letters()), MapDataset[bytes])
    assert_type(words.flat_map(Letters(), fan_out=[1, 1]), MapDataset[bytes])
    assert_type(numbers.map(EvenNames()), MapDataset[str])
    assert_type(numbers.filter(EvenNames()), MapDataset[int])


def objects_of_an_iter_dataset() -> None:
    assert_type(numbers.to_iter_dataset().map(Name()), IterDataset[str])
    assert_type(numbers.to_iter_dataset().map(Above(3)), IterDataset[int | None])
    assert_type(numbers.to_iter_dataset().random_map(Noise()), IterDataset[float])
    assert_type(words.to_iter_dataset().map_with_index(Numbered()), IterDataset[tuple[int, str]])
    assert_type(numbers.to_iter_dataset().filter(Even()), IterDataset[int])
    assert_type(words.to_iter_dataset().flat_map(Letters()), IterDataset[bytes])


def apply() -> None:
    assert_type(numbers.apply(Name()), MapDataset[str])
    assert_type(numbers.apply(Name()).apply(Numbered()), MapDataset[tuple[int, str]])
    assert_type(numbers.apply(Noise()), MapDataset[float])
    assert_type(numbers.apply(Even()), MapDataset[int])
    assert_type(words.apply(Letters()), MapDataset[bytes])
    assert_type(numbers.apply(transforms.Batch(2)), MapDataset[Any])
    assert_type(numbers.apply([Name(), transforms.Batch(2)]), MapDataset[Any])
    assert_type(numbers.to_iter_dataset().apply(Name()), IterDataset[str])
    assert_type(numbers.to_iter_dataset().apply(Even()), IterDataset[int])
    assert_type(numbers.to_iter_dataset().apply([Even(), Name()]), IterDataset[Any])
    assert_type(grain.experimental.apply_transformations(numbers, [Name()]), MapDataset[Any])
    assert_type(grain.experimental.apply_transformations(numbers.to_iter_dataset(), Name()), IterDataset[Any])


def any_transformation(transform: transforms.Transformation, several: transforms.Transformations) -> None:
    numbers.apply(transform)
    assert_type(numbers.apply(several), MapDataset[Any])


def wrong_ones() -> None:
    words.map(Name())  # type: ignore[arg-type]
    words.filter(Even())  # type: ignore[arg-type]
    numbers.map(Even())  # type: ignore[arg-type]
    numbers.map(NotAMap())  # type: ignore[arg-type]
    numbers.map(WrongMap())  # type: ignore[arg-type]
    numbers.map(Name)  # type: ignore[arg-type]
    numbers.random_map(Name())  # type: ignore[arg-type]
    numbers.flat_map(Letters())  # type: ignore[arg-type]
    words.apply(Name())  # type: ignore[arg-type]
    numbers.apply(str)  # type: ignore[call-overload]
    transforms.Map()  # type: ignore[abstract]
    transforms.Batch("2")  # type: ignore[arg-type]
