"""Where pipelines begin: sources and ranges, and the step from random access to a stream."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

import numpy as np

from grain.fields import Fields
from grain.graph.naming import counted
from grain.graph.node import Context, IterNode, MapNode, ancestors
from grain.graph.specs import ShapeDtypeStruct
from grain.options import ReadOptions, warn
from grain.plan.index_steps import Modulo, ModuloLength, Progression
from grain.plan.kinds import Boundary, Read
from grain.plan.reads import Indices, records_of

WINDOW = 1000
_SECONDS_BETWEEN_WARNINGS = 60


class Source(MapNode):
    """The records of a random access source."""

    source: Any

    @property
    def length(self) -> int:
        return len(self.source)

    def lower(self) -> Read:
        source = self.source
        try:
            len(source)
        except TypeError:  # not known: indices are passed on as they are
            return Read(records_of(source))
        return Read(records_of(source), steps=(ModuloLength(source),))

    def first_call(self, inputs: str) -> str:
        return f"MapDataset.source({type(self.source).__name__})"

    def __str__(self) -> str:
        return f"SourceMapDataset(source={type(self.source).__name__})"


class Range(MapNode):
    """The numbers of a `range`."""

    range: range

    @property
    def length(self) -> int:
        return len(self.range)

    def lower(self) -> Read:
        start, step, length = self.range.start, self.range.step, len(self.range)
        is_plain = (start, step) == (0, 1)
        return Read(Indices(), steps=(Modulo(length) if is_plain else Progression(start, step, length),))

    @property
    def default_read_options(self) -> ReadOptions:
        return ReadOptions(prefetch_buffer_size=0)  # numbers are not worth a thread

    def element_spec(self) -> Any:
        return ShapeDtypeStruct(shape=(), dtype=np.int64)

    def first_call(self, inputs: str) -> str:
        start, stop, step = self.range.start, self.range.stop, self.range.step
        bounds = (stop,) if (start, step) == (0, 1) else (start, stop) if step == 1 else (start, stop, step)
        return f"MapDataset.range({', '.join(map(str, bounds))})"

    def __str__(self) -> str:
        return f"RangeMapDataset(start={self.range.start}, stop={self.range.stop}, step={self.range.step})"


class Reading(Fields):
    """The state of a stream that is read by index."""

    next_index: int = 0
    _seen: int = 0
    """How many elements of the present window of `check_dropped` have been read."""
    _dropped: int = 0
    """How many of them were dropped."""


class ToIter(IterNode[Reading]):
    """The elements of one epoch in the order of their indices, without those that are None."""

    parent: MapNode
    read_options: ReadOptions
    allow_nones: bool = False
    reads_by_index = True
    State = Reading

    @property
    def parents(self) -> tuple[MapNode]:
        return (self.parent,)

    def lower(self, *parents: Any) -> Boundary:
        is_dense = not any(ancestor.may_drop for ancestor in ancestors(self.parent))
        return Boundary(self, parents[0], self.parent.length, is_dense)

    def placed(self, place: Any) -> ToIter:
        return self.replaced(parent=self.parent.placed(place))

    def run(self, state: Reading, *parents: Any) -> Generator[Any, int | None, None]:
        """The elements from the state on. Between two of them, an index can be sent: it goes on from there."""
        (reader,) = parents
        index, allow_nones, is_reading = state.next_index, self.allow_nones, True
        window_end, dropped = index + WINDOW - state._seen, state._dropped
        try:
            elements = reader.first(index)
            while elements is not None:
                for element in elements:
                    state.next_index = index = index + 1
                    if index == window_end:
                        is_missing = element is None and not allow_nones
                        in_window, window_end, dropped = dropped + is_missing, index + WINDOW, -is_missing
                        is_reading = False
                        check_dropped(in_window, self, reader.context)
                        is_reading = True
                    if element is None and not allow_nones:
                        dropped += 1
                        continue
                    moved = yield element
                    if moved is not None:
                        while moved is not None:
                            window_end, index = window_end + moved - index, moved
                            moved = yield
                        elements = reader.first(index)
                        break
                else:
                    elements = reader.rest(index)
        except Exception:
            if is_reading:
                state.next_index = reader.after_failure(index)
            raise
        finally:
            state._seen, state._dropped = WINDOW + index - window_end, dropped

    def element_spec(self, parent: Any) -> Any:
        return parent

    @property
    def call(self) -> str:
        has_defaults = self.read_options == self.parent.default_read_options
        arguments = [] if has_defaults else [str(self.read_options)]
        return f"to_iter_dataset({', '.join([*arguments, *(['allow_nones=True'] if self.allow_nones else [])])})"

    @property
    def inputs_run(self) -> str:
        threads, size = self.read_options.num_threads, self.read_options.prefetch_buffer_size
        if not threads or not size:
            return ""
        return f"up to {counted(threads, 'thread')}, at most {counted(size, 'element')} ahead"

    @property
    def held_back(self) -> str:
        count = self.read_options.prefetch_buffer_size
        return f"up to {counted(count, 'element')} made ahead" if self.inputs_run else ""

    def __str__(self) -> str:
        return f"PrefetchIterDataset(read_options={self.read_options}, allow_nones={self.allow_nones})"


def to_iter_dataset_node(parent: MapNode, read_options: ReadOptions | None = None, allow_nones: bool = False) -> ToIter:
    """A stream of `parent`."""
    return ToIter(parent, read_options or parent.default_read_options, allow_nones)


_last_warning = -float("inf")


def check_dropped(dropped: int, operator: IterNode[Any], context: Context) -> None:
    """Warn, or raise, when too many of the last 1,000 elements were dropped."""
    global _last_warning
    ratio, options = dropped / WINDOW, context.dataset_options
    message = (
        f"Transformation {operator} skipped {100 * ratio:.2f} % of the last seen {WINDOW} elements. "
        "Please check the filtering logic. If this is intended, consider pre-filtering the input dataset before "
        "training. To change this check, set `grain.experimental.DatasetOptions.filter_{}_threshold_ratio` "
        "and apply it with `ds.with_options(...)`."
    )
    if options.filter_raise_threshold_ratio and ratio >= options.filter_raise_threshold_ratio:
        raise ValueError(message.format("raise"))
    if options.filter_warn_threshold_ratio and ratio >= options.filter_warn_threshold_ratio:
        now = time.monotonic()
        if now - _last_warning >= _SECONDS_BETWEEN_WARNINGS:
            _last_warning = now
            warn(message.format("warn"))
