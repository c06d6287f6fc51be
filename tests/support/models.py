"""A small model of the Dataset API, written from its specification: an index has an element, a stream is a list.

It shares nothing with the library but `index_shuffle`, which has tests of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from grain.experimental import index_shuffle

Seeds = tuple[tuple[int, int], ...]
"""The nearest seed on every path, with its distance, in the order of a search by breadth."""


@dataclasses.dataclass(frozen=True)
class MapModel:
    """The element at any index, None for a gap."""

    length: int
    at: Callable[[int], Any]
    seeds: Seeds = ()


@dataclasses.dataclass(frozen=True)
class IterModel:
    """All elements of a stream."""

    elements: list[Any]
    seeds: Seeds = ()


def farther(*models: MapModel | IterModel) -> Seeds:
    """The seeds as seen by an operator on `models`."""
    found = [(seed, distance + 1) for model in models for seed, distance in model.seeds]
    return tuple(sorted(found, key=lambda pair: pair[1]))


def default_seed(seeds: Seeds) -> int:
    """What a random operator without a seed of its own uses, given what it sees."""
    return int(np.random.SeedSequence([number for pair in seeds for number in pair]).generate_state(1, np.uint32)[0])


def generator(seed: int, index: int) -> np.random.Generator:
    key = np.random.SeedSequence(seed).generate_state(2, np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=np.array([0, 0, 0, index], np.uint64)))


def permuted(index: int, count: int, seed: int) -> int:
    return index_shuffle(index, max_index=count - 1, seed=seed % 2**32, rounds=4)


def integer_weights(weights: Sequence[float] | None, count: int) -> list[int]:
    if weights is None:
        return [1] * count
    scale = 100 / min(weights)
    return [int(weight * scale) for weight in weights]


def choice(weights: Sequence[int], index: int) -> tuple[int, int]:
    """(component, index in it) of an index of a mixture."""
    left, start, stop = sum(weights), index, index + 1
    for component, weight in enumerate(weights):
        start_rest, stop_rest = start * (left - weight) // left, stop * (left - weight) // left
        if stop - stop_rest != start - start_rest:
            return component, stop - stop_rest - 1
        left, start, stop = left - weight, start_rest, stop_rest
    raise AssertionError("every index belongs to a component")


def stacked(values: Sequence[Any]) -> Any:
    if isinstance(values[0], tuple):
        return tuple(stacked(column) for column in zip(*values, strict=True))
    return np.stack(values)


def chunks(values: Sequence[Any], size: int, drop_remainder: bool) -> list[Any]:
    pieces = [values[start : start + size] for start in range(0, len(values), size)]
    return [piece for piece in pieces if len(piece) == size or not drop_remainder]


# ---------------------------------------------------------------- random access


def source(records: Sequence[Any]) -> MapModel:
    return MapModel(len(records), lambda index: records[index % len(records)])


def seeded(model: Any, seed: int) -> Any:
    return dataclasses.replace(model, seeds=((seed, 0),))


def reordered(model: MapModel, length: int, below: Callable[[int], int]) -> MapModel:
    return MapModel(length, lambda index: model.at(below(index)), farther(model))


def shuffled(model: MapModel, seed: int) -> MapModel:
    def below(index: int) -> int:
        epoch, place = divmod(index, model.length)
        return permuted(place, model.length, seed + epoch) + epoch * model.length

    return reordered(model, model.length, below)


def window_shuffled(model: MapModel, size: int, seed: int) -> MapModel:
    def below(index: int) -> int:
        window, place = divmod(index, size)
        return window * size + permuted(place, size, seed + window)

    return reordered(model, model.length, below)


def reindexed(model: MapModel, indices: Sequence[int]) -> MapModel:
    """Also the model of slices, with their indices in the first epoch."""

    def below(index: int) -> int:
        epoch, place = divmod(index, len(indices))
        return indices[place] + epoch * model.length

    return reordered(model, len(indices), below)


def repeated(model: MapModel, epochs: int, reseed: bool) -> MapModel:
    return reordered(model, epochs * model.length, lambda index: index if reseed else index % model.length)


def mapped(model: MapModel, function: Callable[[int, Any], Any]) -> MapModel:
    """Elements changed by a function of index and element; gaps stay."""

    def at(index: int) -> Any:
        element = model.at(index)
        return None if element is None else function(index, element)

    return MapModel(model.length, at, farther(model))


def flattened(model: MapModel, function: Callable[[Any], Sequence[Any]], fan_out: int) -> MapModel:
    def at(index: int) -> Any:
        parent, place = divmod(index, fan_out)
        element = model.at(parent)
        items = [] if element is None else function(element)
        return items[place] if place < len(items) else None

    return MapModel(model.length * fan_out, at, farther(model))


def batched(model: MapModel, size: int, drop_remainder: bool) -> MapModel:
    groups = chunks(range(model.length), size, drop_remainder)

    def at(index: int) -> Any:
        epoch, place = divmod(index, len(groups))
        return stacked([model.at(below + epoch * model.length) for below in groups[place]])

    return MapModel(len(groups), at, farther(model))


def mixed(models: Sequence[MapModel], weights: Sequence[float] | None) -> MapModel:
    integers = integer_weights(weights, len(models))
    total = sum(integers)
    length = int(min(model.length / (weight / total) for model, weight in zip(models, integers, strict=True)))

    def at(index: int) -> Any:
        component, below = choice(integers, index)
        return models[component].at(below)

    return MapModel(length, at, farther(*models))


def concatenated(models: Sequence[MapModel]) -> MapModel:
    places = [(model, place) for model in models for place in range(model.length)]

    def at(index: int) -> Any:
        epoch, place = divmod(index, len(places))
        model, below = places[place]
        return model.at(below + epoch * model.length)

    return MapModel(len(places), at, farther(*models))


def zipped(models: Sequence[MapModel]) -> MapModel:
    return MapModel(models[0].length, lambda index: tuple(model.at(index) for model in models), farther(*models))


# ---------------------------------------------------------------- streams


def streamed(model: MapModel, allow_nones: bool) -> IterModel:
    elements = [model.at(index) for index in range(model.length)]
    return IterModel([element for element in elements if allow_nones or element is not None], farther(model))


def with_elements(model: IterModel, elements: list[Any]) -> IterModel:
    return IterModel(elements, farther(model))


def iter_mapped(model: IterModel, function: Callable[[int, Any], Any]) -> IterModel:
    """Elements changed by a function of their number and themselves; Nones stay."""
    elements = [None if x is None else function(number, x) for number, x in enumerate(model.elements)]
    return with_elements(model, elements)


def iter_window_shuffled(model: IterModel, size: int, seed: int) -> IterModel:
    result = []
    for window, elements in enumerate(chunks(model.elements, size, drop_remainder=False)):
        count = len(elements)
        result += [elements[permuted(count - 1 - place, count, seed + window)] for place in range(count)]
    return with_elements(model, result)


def iter_rebatched(model: IterModel, size: int, drop_remainder: bool) -> IterModel:
    rows = [row for batch in model.elements for row in batch]
    return with_elements(model, [np.stack(group) for group in chunks(rows, size, drop_remainder)])


def in_buckets(
    values: Sequence[Any],
    length: Callable[[Any], int],
    boundaries: Sequence[int],
    sizes: Sequence[int],
    max_wait: int,
    drop_remainder: bool,
) -> list[list[Any]]:
    """What bucket_by_length makes batches of."""
    buckets: list[list[int]] = [[] for _ in sizes]
    batches: list[list[Any]] = []

    def hand_out(bucket: list[int], is_full: bool) -> None:
        if bucket and (is_full or not drop_remainder):
            batches.append([values[number] for number in bucket])
        bucket.clear()

    for number, value in enumerate(values):
        chosen = sum(length(value) > boundary for boundary in boundaries)
        buckets[chosen].append(number)
        if len(buckets[chosen]) == sizes[chosen]:
            hand_out(buckets[chosen], True)
        for bucket in buckets:
            if bucket and number + 1 - bucket[0] > max_wait:
                hand_out(bucket, False)
    for bucket in buckets:
        hand_out(bucket, False)
    return batches


def by_cost(
    values: Sequence[Any], cost: Callable[[Any], int], max_cost: int, is_padded: bool = False
) -> list[list[Any]]:
    """What batch_by_cost makes batches of."""
    batches: list[list[Any]] = []
    for value in values:
        costs = [cost(other) for other in [*batches[-1], value]] if batches else [max_cost + 1]
        if (max(costs) * len(costs) if is_padded else sum(costs)) <= max_cost:
            batches[-1].append(value)
        else:
            batches.append([value])
    return batches


def iter_mixed(models: Sequence[IterModel], weights: Sequence[float] | None) -> IterModel:
    integers = integer_weights(weights, len(models))
    waiting, result, index = [iter(model.elements) for model in models], [], 0
    end = object()
    while (element := next(waiting[choice(integers, index)[0]], end)) is not end:
        result.append(element)
        index += 1
    return IterModel(result, farther(*models))


def interleaved(models: Sequence[IterModel], cycle_length: int) -> IterModel:
    """One element of each slot in turn; a slot whose stream has ended is filled at its next turn."""
    unopened = [iter(model.elements) for model in models]
    slots: list[Any] = [None] * min(cycle_length, len(models))
    result, turn, end = [], 0, object()
    while unopened or any(slot is not None for slot in slots):
        if slots[turn] is None and unopened:
            slots[turn] = unopened.pop(0)
        if slots[turn] is not None:
            element = next(slots[turn], end)
            if element is end:
                slots[turn] = None
            else:
                result.append(element)
        turn = (turn + 1) % len(slots)
    return IterModel(result)
