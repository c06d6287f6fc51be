"""The stream of an interleave: datasets are opened while it runs, some of them before it is their turn."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from grain.errors import StateMismatchError
from grain.fields import Fields
from grain.graph.node import Context, IterNode, copied
from grain.ops.custom import iter_node_of, node_of
from grain.ops.interleaving import Interleave, Position
from grain.streams.prefetching import PrefetchStream
from grain.streams.stream import Change, Stream

SLOW_ELEMENT_SECONDS = 1e-4
"""An element that takes longer than this is worth a thread."""
SLOW_OPENING_SECONDS = 1e-3
"""An opening that takes longer than this is worth a thread."""
SECONDS_TO_STOP = 1.0
_SLOW_ELEMENTS = 3
_END = object()

OpenStream = Callable[[IterNode[Any], Context], Stream]


class Opened(Fields):
    """A dataset at work."""

    stream: Stream
    node: IterNode[Any]
    is_random_access: bool
    """Whether it is a MapDataset, of which what was dropped after the last element counts too."""


class Slot(Fields):
    """One of the places that take turns: the dataset there, and its stream while it lasts."""

    dataset: int
    stream: Stream | None = None
    last_state: Any = None
    """Where the stream was after its last element."""
    node: IterNode[Any] | None = None
    is_random_access: bool = False
    starts_early: bool = False
    may_be_slow: bool = False
    """Whether it is to be read ahead if it turns out to be slow."""
    slow_count: int = 0
    """How many more of its elements were slow than fast."""


class InterleaveStream(Stream):
    """A stream of datasets that are opened while it runs."""

    operator: Interleave

    def __init__(self, operator: Interleave, context: Context, open_stream: OpenStream) -> None:
        super().__init__(operator, context)
        self._opener = Opener(operator, context, open_stream)
        self._begin(operator.start())

    def _begin(self, position: Position) -> None:
        """Go on from `position`, whose streams are still to be opened."""
        self._turns = Turns(self.operator, self._opener, position)
        self._turns.slots.extend(Slot(dataset) for dataset in position.datasets)

    def _run(self) -> Iterator[Any]:
        return self._turns.elements()

    def _saved(self) -> Any:
        self._turns.open_unused()  # so that the layout is constant
        return self._position(Stream.save)

    def mark(self) -> Any:
        return self.save() if self._to_pass is not None else self._position(Stream.mark)

    def _position(self, saved: Callable[[Stream], Any]) -> Any:
        turns = self._turns
        return Position(
            turn=turns.turn,
            next_dataset=turns.next_dataset,
            datasets=[slot.dataset for slot in turns.slots],
            states=[copied(slot.last_state) if slot.stream is None else saved(slot.stream) for slot in turns.slots],
            ended=[slot.stream is None for slot in turns.slots],
            future_states=dict(turns.future_states),
        ).saved()

    def _loaded(self, saved: Any) -> list[Change]:
        position = self.operator.position(saved)
        loaded = Turns(self.operator, self._opener, position)
        for dataset, state, has_ended in zip(position.datasets, position.states, position.ended, strict=True):
            slot = Slot(dataset, None, state)
            if state is not None and not has_ended:
                loaded.fill(slot, dataset, state)
            loaded.slots.append(slot)
        return [lambda: self._become(loaded)]

    def _become(self, turns: Turns) -> None:
        self._close_streams()
        self._turns, self._elements, self._to_pass = turns, None, None

    def _reset(self, keeps_caches: bool) -> None:
        self._close_streams()
        self._begin(self.operator.start())

    def _holds(self) -> bool:
        return any(stream.holds() for stream in self._turns.streams())

    def adopt_context(self, context: Context) -> None:
        self.context = self._opener.context = context
        for stream in self._turns.streams():
            stream.adopt_context(context)

    def get_next_index(self) -> int:
        return self._only_stream("get").get_next_index()

    def set_next_index(self, index: int) -> None:
        self._only_stream("set").set_next_index(index)

    def _only_stream(self, verb: str) -> Stream:
        if len(self.operator.datasets) != 1:
            raise NotImplementedError(
                f"{verb}_next_index is not supported for InterleaveDatasetIterator with more than one dataset."
            )
        self._turns.open_unused()
        return self._turns.streams()[0]

    def start_prefetch(self) -> None:
        self._turns.open_unused()
        self._turns.start()

    def close(self) -> None:
        super().close()
        self._close_streams()

    def _close_streams(self) -> None:
        self._opener.close()
        for stream in self._turns.streams():
            stream.close()


class Turns:
    """The slots of an interleave, and whose turn it is. It does not know the stream, which would be a cycle."""

    def __init__(self, operator: Interleave, opener: Opener, position: Position) -> None:
        self._operator, self._opener = operator, opener
        self.slots: list[Slot] = []
        self.turn, self.next_dataset, self.future_states = position.turn, position.next_dataset, position.future_states

    def streams(self) -> list[Stream]:
        """The streams that are open."""
        return [slot.stream for slot in self.slots if slot.stream is not None]

    def elements(self) -> Iterator[Any]:
        """One element of each slot in turn."""
        if not self.slots:
            return
        self.start(early_ones_only=True)
        round_began, is_timed = time.perf_counter(), False
        while True:
            if self.turn == 0:  # elements are timed one by one only where a whole round was slow
                now = time.perf_counter()
                round_began, is_timed = now, now - round_began > SLOW_ELEMENT_SECONDS * len(self.slots)
            slot = self.slots[self.turn]
            stream = slot.stream
            if stream is not None:
                try:
                    element = self._timed(slot, stream) if is_timed and slot.may_be_slow else next(iter(stream), _END)
                except Exception:
                    self._pass_over_failure(slot, stream)
                    raise
                self.turn = (self.turn + 1) % len(self.slots)
                if element is _END:
                    self._end(slot, stream)
                else:
                    if not slot.is_random_access:
                        slot.last_state = slot.stream.save()  # type: ignore[union-attr]
                    yield element
            elif self._open_next(slot, self._opener):
                self.start(early_ones_only=True)
            else:
                if all(other.stream is None for other in self.slots):
                    return
                self.turn = (self.turn + 1) % len(self.slots)

    def _pass_over_failure(self, slot: Slot, stream: Stream) -> None:
        """Where worker processes take turns, an element that has failed has had its turn."""
        if slot.starts_early and stream.mark() != slot.last_state:
            slot.last_state = stream.mark()
            self.turn = (self.turn + 1) % len(self.slots)

    @staticmethod
    def _end(slot: Slot, stream: Stream) -> None:
        if slot.is_random_access or slot.starts_early:
            slot.last_state = stream.save()
        stream.close()
        slot.stream = None

    def _timed(self, slot: Slot, stream: Stream) -> Any:
        """The next element; a stream that turns out to be slow is read ahead from then on."""
        began = time.perf_counter()
        element = next(iter(stream), _END)
        slot.slow_count = max(0, slot.slow_count + (1 if time.perf_counter() - began > SLOW_ELEMENT_SECONDS else -1))
        if slot.slow_count == _SLOW_ELEMENTS:
            assert slot.node is not None
            slot.stream, slot.may_be_slow = self._opener.prefetched(stream, slot.node), False
        return element

    def start(self, *, early_ones_only: bool = False) -> None:
        """Let the streams that are open begin to read ahead."""
        for slot in self.slots:
            if slot.stream is not None and (slot.starts_early or not early_ones_only):
                slot.stream.start_prefetch()

    def open_unused(self) -> None:
        """Open what is in slots that were never used; one that cannot be opened fails when it is its turn."""
        for slot in self.slots:
            if slot.stream is None and slot.last_state is None:
                before = self.next_dataset
                try:
                    self._open_next(slot, self._opener.opened)
                except Exception:
                    self.next_dataset = before
                    return

    def _open_next(self, slot: Slot, open_at: Callable[[int], Opened | None]) -> bool:
        """Put the next dataset in `slot`; False where there is none. Missing ones (None) are passed over."""
        datasets, futures = self._operator.datasets, self.future_states
        while self.next_dataset < len(datasets):
            position = self.next_dataset
            if position in futures and futures[position] is None:  # it has been read
                del futures[position]
                self.next_dataset += 1
                continue
            try:
                is_filled = self.fill(slot, position, futures.get(position), open_at)
            except Exception:  # it is passed over, as an element would be; after an interrupt it is not
                self.next_dataset += 1
                raise
            self.next_dataset += 1
            futures.pop(position, None)
            if is_filled:
                return True
        return False

    def fill(
        self, slot: Slot, position: int, state: Any, open_at: Callable[[int], Opened | None] | None = None
    ) -> bool:
        """Put dataset number `position` in `slot`, at `state` or at its start; False where it is missing."""
        opened = (open_at or self._opener.opened)(position)
        if opened is None:
            if open_at is None:
                raise StateMismatchError(
                    f"The state does not fit {self._operator}: dataset {position} is missing (None) now."
                )
            return False
        stream, node = opened.stream, opened.node
        if state is not None:
            stream.restore(state)
        slot.dataset, slot.node = position, node
        slot.is_random_access, slot.starts_early = opened.is_random_access, node.starts_early
        slot.may_be_slow = self._operator.iter_buffer_size > 0 and not (slot.is_random_access or slot.starts_early)
        slot.slow_count, slot.last_state = 0, stream.mark() if slot.starts_early else stream.save()
        slot.stream = stream
        return True


class Opener:
    """Opens the datasets of an interleave.

    The next ones are opened ahead, by threads, once an opening has been slow; those that are to start early are opened
    at once.
    """

    def __init__(self, operator: Interleave, context: Context, open_stream: OpenStream) -> None:
        self.context = context
        self._operator, self._open_stream = operator, open_stream
        self._is_slow = False
        self._ahead: dict[int, Opening] = {}

    def __call__(self, position: int) -> Opened | None:
        """Dataset number `position`, which is next: at its beginning; None where it is missing."""
        opening = self._ahead.pop(position, None)
        if opening is None:
            began = time.perf_counter()
            opened = self.opened(position)
            self._is_slow = time.perf_counter() - began > SLOW_OPENING_SECONDS
        self._open_ahead(position + 1)
        return opened if opening is None else opening.result()

    def opened(self, position: int) -> Opened | None:
        """As a call, but nothing is opened ahead."""
        dataset = self._operator.datasets[position]
        if dataset is None:
            return None
        node = iter_node_of(dataset)
        return Opened(self._open_stream(node, self.context), node, node_of(dataset).is_random_access)

    def prefetched(self, stream: Stream, node: IterNode[Any]) -> PrefetchStream:
        """A stream of `node`, read ahead from now on."""
        context, size, open_stream = self.context, self._operator.iter_buffer_size, self._open_stream
        prefetched = PrefetchStream(node, context, size, lambda: open_stream(node, context), stream)
        prefetched.start_prefetch()
        return prefetched

    def _open_ahead(self, first: int) -> None:
        datasets = self._operator.datasets
        for position in range(first, min(first + self._operator.make_iter_buffer_size, len(datasets))):
            if position in self._ahead:
                continue
            if isinstance(datasets, Sequence) and iter_node_of(datasets[position]).starts_early:
                self._ahead[position] = Opening(self.opened, position)
                self._ahead[position].run()
            elif self._is_slow and self._busy_count() < self._operator.num_make_iter_threads:
                opening = Opening(self.opened, position)
                with contextlib.suppress(RuntimeError):  # no more threads: it is opened when it is its turn
                    opening.start()
                    self._ahead[position] = opening

    def _busy_count(self) -> int:
        return sum(opening.is_alive() for opening in self._ahead.values())

    def close(self) -> None:
        """Close what was opened ahead and has not been used."""
        while self._ahead:
            self._ahead.popitem()[1].close()


class Opening(threading.Thread):
    """A dataset that is opened ahead."""

    def __init__(self, open_at: Callable[[int], Opened | None], position: int) -> None:
        super().__init__(name=f"grain-interleave-open-{position}", daemon=True)
        self._open_at, self._position = open_at, position
        self._opened: Opened | None = None
        self._error: BaseException | None = None
        self._is_closed = self._is_done = False

    def run(self) -> None:
        """Open it and let it begin."""
        try:
            opened = self._open_at(self._position)
            if opened is not None:
                opened.stream.start_prefetch()
        except BaseException as error:
            if self.ident is None and not isinstance(error, Exception):  # this is no thread, and it can be done again
                raise
            self._error, self._is_done = error, True
            return
        self._opened, self._is_done = opened, True
        del self._open_at  # it knows the opener, which has this: they would keep each other alive
        if self._is_closed and opened is not None:  # `close` may have come too early to see it
            opened.stream.close()

    def result(self) -> Opened | None:
        """What was opened, when that is done; an error is raised here."""
        if self.ident is not None:
            self.join()
        if not self._is_done:  # a fork has left the thread behind
            self.run()
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None
        return self._opened

    def close(self) -> None:
        """Close it, or let it be closed as soon as it is open."""
        if self.ident is not None:
            self.join(SECONDS_TO_STOP)
        self._is_closed = True
        if self._opened is not None:
            self._opened.stream.close()
