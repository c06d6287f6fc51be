"""Batches of elements of similar length."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from grain.elements.padding import Padding, length_of
from grain.errors import add_place
from grain.fields import Fields
from grain.graph.naming import transform_name
from grain.graph.node import IterNode, Parent, check, copied
from grain.indices.arithmetic import integer
from grain.ops.batching import batch_spec, checked_size

_END = object()
_STRIDE = 32
"""After how many elements the parent is asked where it is; asking before each one would cost more than the rest."""


class Waiting:
    """Elements in their buckets, each with its number, and from where to read them again."""

    def __init__(self, bucket_count: int) -> None:
        self.buckets: list[list[tuple[int, Any]]] = [[] for _ in range(bucket_count)]
        self.count = 0
        """How many elements have been read."""
        self.oldest = math.inf
        """The number of the oldest one that waits."""
        self.places: list[tuple[int, Any]] = []
        """Where the parent was before elements with these numbers, of which there is one in about `_STRIDE`."""

    @property
    def start(self) -> int:
        """The number of the element from which on all that wait can be read again."""
        return self.places[0][0] if self.places else 0

    def mark(self, parent: Parent) -> None:
        """Remember where the parent is, if it is time."""
        if (not self.places or self.count >= self.places[-1][0] + _STRIDE) and not parent.holds():
            self.places.append((self.count, parent.save()))
            self._forget_places()

    def put(self, bucket: int, number: int, element: Any) -> None:
        """Let an element wait in a bucket."""
        self.buckets[bucket].append((number, element))
        if number < self.oldest:
            self.oldest = number

    def bucket_of_oldest(self) -> int:
        """Where the oldest one waits."""
        return next(index for index, bucket in enumerate(self.buckets) if bucket and bucket[0][0] == self.oldest)

    def take(self, bucket: int) -> list[Any]:
        """Empty a bucket."""
        elements = [element for _, element in self.buckets[bucket]]
        self.buckets[bucket] = []
        self.oldest = min((bucket[0][0] for bucket in self.buckets if bucket), default=math.inf)
        self._forget_places()
        return elements

    def _forget_places(self) -> None:
        """Leave out those from which nothing is to be read again."""
        first = min(self.oldest, self.count)
        while len(self.places) > 1 and self.places[1][0] <= first:
            del self.places[0]

    def offsets(self) -> list[int]:
        """The places of all that wait, counted from `start`."""
        return sorted(number - self.start for bucket in self.buckets for number, _ in bucket)


class BucketState(Fields):
    parent: Any
    read: int = 0
    """How many elements have been read since; while it runs: how many of them are to be read again."""
    waiting: str = ""
    """Which of them wait; as text, because a state keeps its shape."""
    _waiting: Waiting | None = None


class Bucket(IterNode[BucketState]):
    """Batches of elements of similar length.

    An element waits in the bucket of its length until that is full, and for at most `max_wait` others. The state says
    where the parent was shortly before the oldest one that waits, and which of the elements since then wait: to go on,
    at most `max_wait` + 32 of them are read again, and none is kept in the state.
    """

    parent: Any
    boundaries: tuple[int, ...]
    batch_sizes: tuple[int, ...]
    length_fn: Callable[[Any], int]
    paddings: tuple[Padding, ...]
    """One for each bucket."""
    drop_remainder: bool
    max_wait: int
    parent_field = "parent"
    State = BucketState

    @property
    def parents(self) -> tuple[Any]:
        return (self.parent,)

    def fresh(self, *parents: Parent) -> BucketState:
        return BucketState(parents[0].save())

    def save(self, state: BucketState, parents: Sequence[Parent]) -> Any:
        """What is to be read again."""
        waiting = state._waiting
        if waiting is None or waiting.count < state.read or not waiting.places:
            return super().save(state, parents)
        offsets = " ".join(map(str, waiting.offsets()))
        return {"parent": copied(waiting.places[0][1]), "read": waiting.count - waiting.start, "waiting": offsets}

    def load(self, state: BucketState, fields: dict[str, Any]) -> BucketState:
        waiting, read = fields["waiting"], fields["read"]
        are_numbers = isinstance(waiting, str) and all(_is_below(offset, read) for offset in waiting.split())
        check(are_numbers, self, f"waiting must be numbers below {read} in a text", waiting)
        return super().load(state, fields)

    def run(self, state: BucketState, *parents: Parent) -> Iterator[Any]:
        (parent,) = parents
        waiting = state._waiting = state._waiting or Waiting(len(self.batch_sizes))
        self._read_again(state, waiting, parent)
        while True:
            # Before each element, also the first after a restore: the order must not depend on where it was saved.
            while waiting.count - waiting.oldest > self.max_wait:
                bucket = waiting.bucket_of_oldest()
                rest = waiting.take(bucket)
                if not self.drop_remainder:
                    yield self._joined(bucket, rest)
            if (element := self._next(waiting, parent)) is _END:
                break
            bucket = self._put(waiting, element, waiting.count - 1, parent)
            if len(waiting.buckets[bucket]) == self.batch_sizes[bucket]:
                yield self._joined(bucket, waiting.take(bucket))
        if not self.drop_remainder:
            for bucket in range(len(waiting.buckets)):
                if waiting.buckets[bucket]:
                    yield self._joined(bucket, waiting.take(bucket))

    def _read_again(self, state: BucketState, waiting: Waiting, parent: Parent) -> None:
        """Put the elements that were waiting into their buckets; where one fails, the next call goes on after it."""
        places = {int(offset) for offset in state.waiting.split()}
        while (number := waiting.count) < state.read:
            try:
                element = self._next(waiting, parent)
            except Exception:
                if number in places:
                    raise
                continue  # it is not needed: it has been handed out, or failed before
            if element is _END:
                break
            if number in places:
                self._put(waiting, element, number, parent)
        state.read = 0

    @staticmethod
    def _next(waiting: Waiting, parent: Parent) -> Any:
        """The parent's next element; one that fails counts too, or numbers would differ when it is read again."""
        waiting.mark(parent)
        try:
            element = next(iter(parent), _END)
        except Exception:
            waiting.count += 1
            raise
        if element is not _END:
            waiting.count += 1
        return element

    def _put(self, waiting: Waiting, element: Any, number: int, parent: Parent) -> int:
        """Put an element into its bucket, and say which that is."""
        try:
            length = self.length_fn(element)
            bucket = bisect_left(self.boundaries, length)
            if bucket == len(self.batch_sizes):
                raise ValueError(
                    f"An element of length {length} is longer than the last boundary, {self.boundaries[-1]}: crop it "
                    "or filter it out before, add a boundary, or give one more batch size, for all that is longer."
                )
        except Exception as error:
            function = "" if self.length_fn is length_of else f" with length_fn {transform_name(self.length_fn)}"
            add_place(error, f"{self}{function}", parent.element_index)
            raise
        waiting.put(bucket, number, element)
        return bucket

    def _joined(self, bucket: int, elements: list[Any]) -> Any:
        try:
            return self.paddings[bucket](elements)
        except Exception as error:
            add_place(error, f"{self}, bucket {bucket}", None, self)
            raise

    def element_spec(self, parent: Any) -> Any:
        return batch_spec(parent, self.paddings[0], None, False)

    @property
    def call(self) -> str:
        return f"bucket_by_length({list(self.boundaries)}, {list(self.batch_sizes)})"

    @property
    def held_back(self) -> str:
        return f"unfinished batches of {len(self.batch_sizes)} buckets, each element for at most {self.max_wait} others"

    def __str__(self) -> str:
        return f"BucketIterDataset(boundaries={list(self.boundaries)}, batch_sizes={list(self.batch_sizes)})"


def _is_below(text: str, limit: int) -> bool:
    """Whether `text` is a number below `limit`."""
    return text.isdecimal() and len(text) <= len(str(limit)) and int(text) < limit


def bucket_by_length_node(
    parent: IterNode[Any],
    boundaries: Sequence[int],
    batch_sizes: Sequence[int],
    length_fn: Callable[[Any], int] | None,
    padding: Padding,
    drop_remainder: bool,
    max_wait: int,
) -> Bucket:
    """`parent` in batches of elements of similar length."""
    limits = tuple(integer("a boundary", boundary) for boundary in boundaries)
    if not limits or limits[0] < 0 or any(low >= high for low, high in pairwise(limits)):
        raise ValueError(f"boundaries must be lengths that increase, got {list(boundaries)}.")
    sizes = tuple(map(checked_size, batch_sizes))
    if len(sizes) - len(limits) not in (0, 1):
        raise ValueError(
            "bucket_by_length needs one batch size for each boundary, and may have one more for longer elements, got "
            f"{len(sizes)} batch sizes for {len(limits)} boundaries."
        )
    if padding.pads_to_boundary and len(sizes) > len(limits):
        raise ValueError(
            'pad_to="boundary" needs a boundary for every bucket, but the last one has none: add a boundary, or leave '
            f"out the last of the batch sizes {list(sizes)}."
        )
    if integer("max_wait", max_wait) <= 0:
        raise ValueError(f"max_wait must be positive, got {max_wait}.")
    paddings = tuple(padding.within(limit) for limit in limits) + (padding,) * (len(sizes) - len(limits))
    return Bucket(parent, limits, sizes, length_fn or length_of, paddings, drop_remainder, max_wait)
