"""Functions, transforms, sources and datasets as users write them.

They stand at the top level, so that plain pickle can send them.
"""

from __future__ import annotations

import numpy as np

from grain import DatasetIterator, IterDataset, MapDataset, Operation, Record, transforms


def add_one(x):
    return x + 1


def negate(x):
    return -x


def is_even(x):
    return x % 2 == 0


def is_large(x):
    return x >= 100


def even_or_none(x):
    return x if x % 2 == 0 else None


def pair_with_index(index, x):
    return index, x


def add_noise(x, rng):
    return x + int(rng.integers(0, 1000))


def as_record(x):
    return {"id": x, "pixels": np.full((2, 2), x, np.float32), "name": f"n{x}"}


def as_numbers(x):
    return MapDataset.range(10 * x, 10 * x + x)


def joined(values):
    return tuple(values)


class Negate(transforms.Map):
    def map(self, element):
        return -element


class AddNoise(transforms.RandomMap):
    def random_map(self, element, rng):
        return element + float(rng.normal())


class AddIndex(transforms.MapWithIndex):
    def map_with_index(self, index, element):
        return element + index


class IsOdd(transforms.Filter):
    def filter(self, element):
        return element % 2 == 1


class UpToThree(transforms.FlatMap):
    """0, 1, 2 or 3 items for each element."""

    max_fan_out = 3

    def flat_map(self, element):
        return [element] * (element % 4)


class Zigzag(transforms.DatasetSelectionMap):
    """Elements of two datasets of the same length in turn, the second one backwards."""

    def __init__(self, length):
        self.length = length

    def __len__(self):
        return 2 * self.length

    def __getitem__(self, index):
        epoch, place = divmod(index, 2 * self.length)
        dataset, below = place % 2, place // 2
        return dataset, (self.length - 1 - below if dataset else below) + epoch * self.length


class Shelf:
    """A source that reads many records at once."""

    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return as_record(range(self.length)[index])

    def __getitems__(self, indices):
        return [self[index] for index in indices]


class Squares(MapDataset):
    """A user's own source, which never calls `super().__init__`."""

    def __len__(self):
        return 6

    def __getitem__(self, index):
        return self.slice(index) if isinstance(index, slice) else (index % 6) ** 2


class Doubled(MapDataset):
    """A user's own operator on random access."""

    def __len__(self):
        return len(self._parent)

    def __getitem__(self, index):
        return self.slice(index) if isinstance(index, slice) else self._parent[index] * 2


class Countdown(IterDataset):
    """A user's own stream, without a parent."""

    def __init__(self, start):
        super().__init__()
        self.start = start

    def __iter__(self):
        return CountdownIterator(self.start)


class CountdownIterator(DatasetIterator):
    def __init__(self, start):
        super().__init__()
        self.left = start

    def __next__(self):
        self._assert_not_closed()
        if not self.left:
            raise StopIteration
        self.left -= 1
        return self.left

    def get_state(self):
        return {"left": self.left}

    def set_state(self, state):
        self.left = state["left"]


class RunningSum(IterDataset):
    """A user's own operator on streams."""

    def __iter__(self):
        return RunningSumIterator(self._parent.__iter__())


class RunningSumIterator(DatasetIterator):
    def __init__(self, parent):
        super().__init__(parent)
        self.total = 0

    def __next__(self):
        self.total += next(self._parent)
        return self.total

    def get_state(self):
        return {"parent": self._parent.get_state(), "total": self.total}

    def set_state(self, state):
        self._parent.set_state(state["parent"])
        self.total = state["total"]


class Noise(transforms.RandomMap):
    def random_map(self, element, rng):
        return add_noise(element, rng)


class IsEven(transforms.Filter):
    def filter(self, element):
        return is_even(element)


class Pairs(Operation):
    """Every record, and once more with its index."""

    def __call__(self, input_iterator):
        for record in input_iterator:
            yield record
            yield Record(record.metadata, record.metadata.index)
