"""Datasets and iterators as users write them."""

from __future__ import annotations

import dataclasses

import numpy as np

import grain


def identity(x):
    return x


def pair_with_index(index, x):
    return index, x


class Letters(grain.MapDataset):
    """A source that never calls `super().__init__`, and counts its epochs."""

    def __len__(self):
        return 3

    def __getitem__(self, index):
        epoch, place = divmod(index, 3)
        return f"{'abc'[place]}{epoch}"


class Tripled(grain.MapDataset[int]):
    """An operator that handles slices itself."""

    def __init__(self, parent):
        super().__init__(parent)

    def __len__(self):
        return len(self._parent)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return self.slice(index)
        with self._stats.record_self_time():
            return self._stats.record_output_spec(self._parent[index] * 3)


class Rotated(Tripled):
    """A subclass of a subclass, which slices in its own way."""

    def __getitem__(self, index):
        if isinstance(index, slice):
            return Rotated(self._parent[index])
        return self._parent[index + 1]


class Alternating(grain.MapDataset):
    """An operator on several parents."""

    def __init__(self, first, second):
        super().__init__([first, second])

    def __len__(self):
        return sum(len(parent) for parent in self._parents)

    def __getitem__(self, index):
        return self._parents[index % 2][index // 2]


class Noisy(grain.MapDataset):
    """An operator that draws from the pipeline's seed."""

    def __init__(self, parent):
        super().__init__(parent)
        self.seed_found = self._default_seed

    def __len__(self):
        return len(self._parent)

    def __getitem__(self, index):
        return int(np.random.default_rng((self.seed_found, index)).integers(1000))


@dataclasses.dataclass
class Table(grain.MapDataset):
    """A dataclass: no `super().__init__`, and not hashable."""

    rows: list

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index % len(self.rows)]


class EveryOther(grain.IterDataset[int]):
    """An operator on a stream, with a state of its own."""

    def __init__(self, parent):
        super().__init__(parent)

    def __iter__(self):
        return EveryOtherIterator(self._parent.__iter__())


class EveryOtherIterator(grain.DatasetIterator[int]):
    def __init__(self, parent):
        super().__init__(parent)
        self.dropped = 0

    def __next__(self):
        element = next(self._parent)
        with self._stats.record_self_time():
            next(self._parent, None)
            self.dropped += 1
        return self._stats.record_output_spec(element)

    def get_state(self):
        return {"parent": self._parent.get_state(), "dropped": self.dropped}

    def set_state(self, state):
        self._parent.set_state(state["parent"])
        self.dropped = state["dropped"]


class Secretive(grain.IterDataset):
    """An operator that never calls `super().__init__` and does not tell its parent."""

    def __init__(self, dataset):
        self.dataset = dataset

    def __iter__(self):
        return EveryOtherIterator(self.dataset.__iter__())


class Added(grain.IterDataset):
    """An operator on several streams."""

    def __init__(self, *parents):
        super().__init__(parents)

    def __iter__(self):
        return AddedIterator([parent.__iter__() for parent in self._parents])


class AddedIterator(grain.DatasetIterator):
    def __next__(self):
        return sum([next(parent) for parent in self._parents])

    def get_state(self):
        return [parent.get_state() for parent in self._parents]

    def set_state(self, state):
        for parent, parent_state in zip(self._parents, state, strict=True):
            parent.set_state(parent_state)


class Counting(grain.IterDataset):
    """A stream without parents, whose classes never call `super().__init__`."""

    def __init__(self, stop):
        self.stop = stop

    def __iter__(self):
        return CountingIterator(self.stop)


class CountingIterator(grain.DatasetIterator):
    def __init__(self, stop):
        self.position, self.stop = 0, stop

    def __next__(self):
        if self.position == self.stop:
            raise StopIteration
        self.position += 1
        return self.position - 1

    def get_state(self):
        return {"position": self.position}

    def set_state(self, state):
        self.position = state["position"]

    def _get_next_index(self):
        return self.position

    def _set_next_index(self, index):
        self.position = index


def counting(*bounds):
    return grain.MapDataset.range(*bounds).to_iter_dataset()


def dataset_of(make_iterator, *parents):
    """A dataset with the iterators that `make_iterator` gives."""

    class Made(grain.IterDataset):
        def __iter__(self):
            return make_iterator(*(parent.__iter__() for parent in self._parents))

    return Made(parents)
