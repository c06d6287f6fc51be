"""The inline back end: a plan run by whoever asks for elements, when they ask.

Index arithmetic is done ahead in blocks, on arrays; users' functions and sources are called element by element, or,
within a batch, batch by batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np

from grain.elements.stacking import stacked
from grain.errors import add_place
from grain.graph.node import Context
from grain.indices.arithmetic import IndexArray
from grain.plan.index_steps import IndexStep
from grain.plan.kinds import Boundary, Gather, Group, Join, RandomAccess, Read
from grain.plan.reads import Batches, Indices, Items
from grain.runtime.local.element_loops import ElementSteps, one

# After a first index by itself, which makes going to a place cheap, blocks grow, which makes going on cheap.
_BLOCK_SIZES = (32, 256, 2048, 16384)
# Children of a Gather that get fewer indices of a block than this are asked one by one.
_WORTH_A_BLOCK = 48


def at(plan: RandomAccess, index: Any) -> Any:
    """The element at one index."""
    below, indices = index, []
    for function in plan.descent:
        if function is not None:
            below = function(below)
        else:
            indices.append(below)
    if type(plan) is Read:
        try:
            element = plan.records.one(below)
        except Exception as error:
            add_place(error, plan.records.name, below)
            raise
    else:
        element = _origin_at(plan, below)
    return one(plan, element, index, indices) if plan.calls else element


def _origin_at(plan: RandomAccess, index: Any) -> Any:
    if type(plan) is Gather:
        child, below = plan.pick(index)
        try:
            return at(plan.children[child], below)
        except Exception as error:
            _note_child(error, child)
            raise
    if type(plan) is Join:
        return tuple(at(child, index) for child in plan.children)
    assert type(plan) is Group
    return next(_GroupOrigin(plan, np.array([index])).elements(0, None))


def _joined(plan: Group, values: list[Any], index: Any) -> Any:
    try:
        if plan.join is not None:
            return plan.join(values)
        return stacked(values, plan.place and plan.place(), plan.keep_bytes)
    except Exception as error:
        plan.add_place(error, index)
        raise


def _note_child(error: Exception, child: int) -> None:
    error.add_note(f"Exception caught while processing dataset @ dataset_index={child},")


class Reads:
    """How many records are asked of a source together, time after time, and whether one of these reads has failed."""

    def __init__(self, counts: Sequence[int], whole: Reads | None = None) -> None:
        self.counts, self.whole, self.has_failed = counts, whole or self, False

    def share(self, is_mine: IndexArray) -> Reads:
        """The part of each read that falls to a child."""
        starts = np.minimum(np.cumsum([0, *self.counts[:-1]]), is_mine.size)
        return Reads(np.add.reduceat(np.r_[is_mine, False].astype(int), starts).tolist(), self.whole)


class Block:
    """The elements at an array of indices, with the arithmetic done and nothing read yet."""

    def __init__(self, plan: RandomAccess, indices: IndexArray) -> None:
        top, listed = indices, []
        for step in reversed(plan.steps):
            if isinstance(step, IndexStep):
                indices = step(indices)
            elif step.indexed:
                listed.append(indices.tolist())
        self._steps = ElementSteps(plan, top, listed[::-1]) if plan.calls else None
        self._origin = _ORIGINS[type(plan)](plan, indices)

    @property
    def column(self) -> Any:
        """A function that gives a batch of rows from first to last, where they need not be made one by one."""
        return None if self._steps else self._origin.column

    def elements(self, start: int = 0, reads: Reads | None = None) -> Iterator[Any]:
        """The elements from position `start` on; `reads`: which of them to ask for together."""
        origin: Iterator[Any] = self._origin.elements(start, reads)
        return origin if self._steps is None else self._steps.made(origin, start)


class _ReadOrigin:
    def __init__(self, plan: Read, indices: IndexArray) -> None:
        self._records, self._array = plan.records, indices
        self._indices: list[int] | None = None
        self.column = None if plan.records.columns is None else plan.records.columns(indices)

    def elements(self, start: int, reads: Reads | None) -> Iterator[Any]:
        if self._indices is None:
            self._indices = self._array.tolist()
        indices = islice(self._indices, start, None)
        records = self._records
        if type(records) is Indices:
            return indices
        if reads is not None and isinstance(records, Batches):
            return self._many(records, indices, reads)
        assert isinstance(records, Items)
        return records.one_by_one(indices)

    @staticmethod
    def _many(records: Batches, indices: Iterator[int], reads: Reads) -> Iterator[Any]:
        for count in reads.counts:
            wanted = list(islice(indices, count))
            if wanted:
                try:
                    found = records.many(wanted)
                except Exception as error:
                    found, failure = records.before_failure(wanted)
                    yield from found
                    if failure is not None:
                        raise failure from None
                    reads.whole.has_failed = True
                    error.add_note(f"Raised in {type(records.source).__name__}.__getitems__ for the records {wanted}.")
                    raise
                yield from found


class _GatherOrigin:
    column = None

    def __init__(self, plan: Gather, indices: IndexArray) -> None:
        self._plan = plan
        self._blocks: dict[int, Block] = {}
        if plan.picks.pick_array is None:
            self._picks: IndexArray | None = None
            self._below = indices
            return
        self._picks, self._below = plan.picks.pick_array(indices)
        chosen, first, counts = _groups(self._picks)
        if indices.size >= _WORTH_A_BLOCK * len(chosen) or plan.reads_many:
            order = np.argsort(self._picks, kind="stable")
            for child, start, count in zip(chosen, first, counts, strict=True):
                self._blocks[child] = Block(plan.children[child], self._below[order[start : start + count]])

    def elements(self, start: int, reads: Reads | None) -> Iterator[Any]:
        if not self._blocks:
            return self._one_by_one(start)
        picks = self._picks
        assert picks is not None
        passed = np.bincount(picks[:start], minlength=len(self._plan.children)).tolist()
        streams = {
            child: block.elements(passed[child], None if reads is None else reads.share(picks[start:] == child))
            for child, block in self._blocks.items()
        }
        return self._in_turn(picks[start:].tolist(), streams)

    @staticmethod
    def _in_turn(picks: list[int], streams: dict[int, Iterator[Any]]) -> Iterator[Any]:
        for child in picks:
            try:
                element = next(streams[child])
            except Exception as error:
                _note_child(error, child)
                raise
            yield element

    def _one_by_one(self, start: int) -> Iterator[Any]:
        children, readers, below = self._plan.children, self._plan.readers, self._below[start:].tolist()
        if self._picks is None:
            for index in below:
                yield _origin_at(self._plan, index)
            return
        for child, index in zip(self._picks[start:].tolist(), below, strict=True):
            reader = readers[child]
            try:
                element = at(children[child], index) if reader is None else reader(index)
            except Exception as error:
                if reader is not None:
                    add_place(error, children[child].records.name, index)
                _note_child(error, child)
                raise
            yield element


def _groups(picks: IndexArray) -> tuple[list[int], list[int], list[int]]:
    """The children that occur, where each one's group starts when sorted, and how often it occurs."""
    counts = np.bincount(picks)
    chosen = np.flatnonzero(counts)
    counts = counts[chosen]
    return chosen.tolist(), (np.cumsum(counts) - counts).tolist(), counts.tolist()


class _JoinOrigin:
    column = None

    def __init__(self, plan: Join, indices: IndexArray) -> None:
        self._blocks = [Block(child, indices) for child in plan.children]

    def elements(self, start: int, reads: Reads | None) -> Iterator[Any]:
        return zip(*(block.elements(start, reads) for block in self._blocks), strict=True)


class _GroupOrigin:
    column = None

    def __init__(self, plan: Group, indices: IndexArray) -> None:
        self._plan, self._indices = plan, indices
        starts, counts = plan.extent(indices)
        counts = counts.astype(np.int64)
        ends = np.cumsum(counts)
        self._ends: list[int] = ends.tolist()
        self._block = Block(plan.child, np.repeat(starts - (ends - counts), counts) + np.arange(self._ends[-1]))

    def elements(self, start: int, reads: Reads | None) -> Iterator[Any]:
        column = None if self._plan.join or self._plan.keep_bytes else self._block.column
        return self._by_element(start) if column is None else self._by_column(start, column)

    def _by_column(self, start: int, column: Any) -> Iterator[Any]:
        first = self._ends[start - 1] if start else 0
        for last in self._ends[start:]:
            yield column(first, last, self._plan.place and self._plan.place())
            first = last

    def _by_element(self, start: int) -> Iterator[Any]:
        ends, plan = [0, *self._ends], self._plan
        counts = [last - first for first, last in zip(ends[start:], ends[start + 1 :], strict=False)]
        elements = self._block.elements(ends[start], Reads(counts))
        for position, count in enumerate(counts, start):
            yield _joined(plan, list(islice(elements, count)), self._indices[position])


_ORIGINS: dict[type, Any] = {Read: _ReadOrigin, Gather: _GatherOrigin, Join: _JoinOrigin, Group: _GroupOrigin}


class InlineReader:
    """Reads a boundary's elements when they are asked for."""

    def __init__(self, boundary: Boundary, context: Context) -> None:
        self.context = context
        self._plan, self._length = boundary.access, boundary.length
        self._read_together = boundary.read_together
        self._sizes = [max(1, size // weight(boundary.access)) for size in _BLOCK_SIZES]
        self._block: Block | None = None
        self._start = self._stop = self._reads_start = 0
        self._reads: Reads | None = None

    def first(self, start: int) -> Iterable[Any] | None:
        """The element at `start` alone where that is cheaper than a block, else all from there on."""
        if self._read_together > 1 or start >= self._length or self._start <= start < self._stop:
            return self.rest(start)
        self._reads = None
        return (at(self._plan, start),)

    def rest(self, start: int) -> Iterable[Any] | None:
        """The elements from `start` on; None where there are none."""
        return chain.from_iterable(self._blocks(start)) if start < self._length else None

    def _blocks(self, start: int) -> Iterator[Iterator[Any]]:
        growth, together = 0, self._read_together
        while start < self._length:
            if not self._start <= start < self._stop:
                size = self._sizes[min(growth, len(self._sizes) - 1)]
                growth += 1
                stop = min(start + -(-size // together) * together, self._length)
                self._block, self._start, self._stop = Block(self._plan, np.arange(start, stop)), start, stop
            assert self._block is not None
            count = self._stop - start
            self._reads = Reads([together] * -(-count // together)) if together > 1 else None
            self._reads_start = start
            yield self._block.elements(start - self._start, self._reads)
            start = self._stop

    def after_failure(self, index: int) -> int:
        """Where to go on when the element at `index` has failed: after it, or after all that was read with it."""
        if self._reads is None or not self._reads.has_failed:
            return index + 1
        start, together = self._reads_start, self._read_together
        return min(start + (index - start) // together * together + together, self._length)

    def start_prefetch(self, start: int) -> None:
        """Nothing is read ahead here."""

    def close(self) -> None:
        """Nothing to give back."""


def weight(plan: RandomAccess) -> int:
    """How many indices of the sources one index stands for."""
    return max(map(weight, plan.inputs), default=1) * (plan.extent.size if type(plan) is Group else 1)
