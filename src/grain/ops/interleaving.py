"""Reading several datasets in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any, Protocol

from grain.errors import StateMismatchError
from grain.fields import Fields
from grain.graph.naming import counted
from grain.graph.node import IterNode, Node, copied, required
from grain.graph.parts import Part
from grain.graph.specs import element_spec
from grain.indices.arithmetic import integer, is_count
from grain.ops.custom import node_of

SLOW_SECONDS = 1e-4
"""An element that takes longer than this is worth a thread."""
_SLOW_ELEMENTS = 3
_END = object()
_FIELDS = (
    "next_index_in_cycle",
    "next_index_in_datasets",
    "iterators_in_use_indices",
    "iterators_in_use_states",
    "exhausted",
    "future_states",
)


class Opened(Fields):
    """A dataset at work."""

    stream: Any
    node: IterNode
    is_random_access: bool
    """Whether it is a MapDataset, of which what was dropped after the last element counts too."""


class Opener(Protocol):
    """Opens datasets by their number; None where one is missing."""

    def __call__(self, position: int) -> Opened | None:
        """The next one, and those after it may be opened ahead."""

    def opened(self, position: int) -> Opened | None:
        """Any one."""

    def prefetched(self, stream: Any, node: IterNode) -> Any:
        """A stream of `node`, read ahead from now on."""


class Slot(Fields):
    """One of the places that take turns: the dataset there, and its stream while it lasts."""

    dataset: int
    stream: Any = None
    last_state: Any = None
    """Where the stream was after its last element."""
    node: IterNode | None = None
    is_random_access: bool = False
    starts_early: bool = False
    may_be_slow: bool = False
    """Whether it is to be read ahead if it turns out to be slow."""
    slow_count: int = 0
    """How many more of its elements were slow than fast."""


class Interleave(IterNode):
    """One element of each of `cycle_length` datasets in turn; one that has ended gives its place to the next."""

    datasets: Any
    """A sequence of datasets, or a MapDataset that makes them."""
    cycle_length: int
    num_make_iter_threads: int
    make_iter_buffer_size: int
    iter_buffer_size: int

    class State(Fields):
        open: Opener
        slots: list[Slot]
        turn: int
        next_dataset: int
        future_states: dict[int, Any]
        """Of datasets that are not open yet: where to begin, if not at the start; None for those that have ended."""

    def own_part(self, part: Part) -> IterNode:
        return self.replaced(datasets=_Picked(self.datasets, range(len(self.datasets))[part.stride]))

    def fresh_with(self, opener: Opener) -> Any:
        """The state at the start; datasets are opened with `opener`."""
        count = min(self.cycle_length, len(self.datasets))
        return self.State(opener, [Slot(position) for position in range(count)], 0, 0, {})

    def run(self, state: Any) -> Iterator[Any]:
        if not state.slots:
            return
        self.start(state, early_ones_only=True)
        round_began, is_timed = perf_counter(), False
        while True:
            if state.turn == 0:  # elements are timed one by one only where a whole round was slow
                now = perf_counter()
                round_began, is_timed = now, now - round_began > SLOW_SECONDS * len(state.slots)
            slot = state.slots[state.turn]
            if slot.stream is not None:
                try:
                    element = (
                        self._timed(state, slot) if is_timed and slot.may_be_slow else next(iter(slot.stream), _END)
                    )
                except Exception:
                    if slot.starts_early and slot.stream.save() != slot.last_state:  # an element that is done with
                        slot.last_state = slot.stream.save()
                        state.turn = (state.turn + 1) % len(state.slots)
                    raise
                state.turn = (state.turn + 1) % len(state.slots)
                if element is _END:
                    if slot.is_random_access:
                        slot.last_state = slot.stream.save()
                    slot.stream.close()
                    slot.stream = None
                else:
                    if not slot.is_random_access:
                        slot.last_state = slot.stream.save()
                    yield element
            elif self._open_next(state, slot, state.open):
                self.start(state, early_ones_only=True)
            else:
                if all(other.stream is None for other in state.slots):
                    return
                state.turn = (state.turn + 1) % len(state.slots)

    def _timed(self, state: Any, slot: Slot) -> Any:
        """The next element; a stream that turns out to be slow is read ahead from then on."""
        began = perf_counter()
        element = next(iter(slot.stream), _END)
        slot.slow_count = max(0, slot.slow_count + (1 if perf_counter() - began > SLOW_SECONDS else -1))
        if slot.slow_count == _SLOW_ELEMENTS:
            slot.stream, slot.may_be_slow = state.open.prefetched(slot.stream, slot.node), False
        return element

    def start(self, state: Any, *, early_ones_only: bool = False) -> None:
        """Let the streams that are open begin to read ahead."""
        for slot in state.slots:
            if slot.stream is not None and (slot.starts_early or not early_ones_only):
                slot.stream.start_prefetch()

    def _open_next(self, state: Any, slot: Slot, open_at: Callable[[int], Opened | None]) -> bool:
        """Put the next dataset in `slot`; False where there is none. Missing ones (None) are passed over."""
        while state.next_dataset < len(self.datasets):
            position = state.next_dataset
            if position in state.future_states and state.future_states[position] is None:  # it has been read
                del state.future_states[position]
                state.next_dataset += 1
                continue
            try:
                is_filled = self._fill(slot, position, open_at(position))
            except Exception:  # it is passed over, as an element would be; after an interrupt it is not
                state.next_dataset += 1
                raise
            state.next_dataset += 1
            if is_filled:
                if position in state.future_states:
                    slot.stream.restore(state.future_states.pop(position))
                slot.last_state = slot.stream.save()
                return True
        return False

    def _fill(self, slot: Slot, position: int, opened: Opened | None) -> bool:
        """Put dataset number `position` in `slot`; False where it is missing."""
        if opened is None:
            return False
        slot.dataset, slot.stream, slot.node = position, opened.stream, opened.node
        slot.is_random_access, slot.starts_early = opened.is_random_access, opened.node.starts_early
        slot.may_be_slow = self.iter_buffer_size > 0 and not (slot.is_random_access or slot.starts_early)
        slot.slow_count = 0
        return True

    def save(self, state: Any, parents: Sequence[Any]) -> dict[str, Any]:
        """All slots with the states of their streams. Slots that were never used are opened: the layout is constant."""
        for slot in state.slots:
            if slot.stream is None and slot.last_state is None:
                self._open_next(state, slot, state.open.opened)
        return {
            "next_index_in_cycle": state.turn,
            "next_index_in_datasets": state.next_dataset,
            "iterators_in_use_indices": [slot.dataset for slot in state.slots],
            "iterators_in_use_states": [
                copied(slot.last_state) if slot.stream is None else slot.stream.save() for slot in state.slots
            ],
            "exhausted": [int(slot.stream is None) for slot in state.slots],
            "future_states": dict(state.future_states),
        }

    def load_with(self, state: Any, saved: Any) -> Any:
        """The saved state; datasets are opened anew."""
        saved = {"future_states": {}, **saved} if isinstance(saved, dict) else saved
        saved = required(saved, _FIELDS, self)
        turn, next_dataset, positions, states, ended, waiting = saved.values()
        count = len(state.slots)
        if not (
            all(isinstance(values, list) and len(values) == count for values in (positions, states, ended))
            and isinstance(waiting, dict)
            and all(map(is_count, (turn, next_dataset, *positions)))
            and turn < max(count, 1)
            and all(position < len(self.datasets) for position in positions)
        ):
            raise StateMismatchError(
                f"The state does not fit {self}: it has the datasets {positions} in use, and number {turn} of them is "
                f"next, then dataset {next_dataset}. Restore it with the same datasets and cycle_length (or number of "
                "workers)."
            )
        future_states = {int(key): value for key, value in waiting.items()}
        loaded = self.State(state.open, [], turn, next_dataset, future_states)
        for position, stream_state, has_ended in zip(positions, states, ended, strict=True):
            slot = Slot(position, None, stream_state)
            if stream_state is not None and not has_ended:
                if not self._fill(slot, position, state.open.opened(position)):
                    raise StateMismatchError(
                        f"The state does not fit {self}: dataset {position} is missing (None) now."
                    )
                slot.stream.restore(stream_state)
            loaded.slots.append(slot)
        return loaded

    def streams(self, state: Any) -> list[Any]:
        """The streams that are open."""
        return [slot.stream for slot in state.slots if slot.stream is not None]

    def element_spec(self) -> Any:
        return element_spec(node_of(self.datasets[0]))

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The datasets; where they are made as it goes on, what they are made of."""
        if isinstance(self.datasets, list | tuple):
            return tuple(map(node_of, filter(_is_dataset, self.datasets)))
        return (node_of(self.datasets),) if _is_dataset(self.datasets) else ()

    def first_call(self, inputs: str) -> str | None:
        datasets = (
            f"[{inputs}]" if isinstance(self.datasets, list | tuple) else inputs or f"[{len(self.datasets)} of them]"
        )
        return f"IterDataset.interleave({datasets}, cycle_length={self.cycle_length})"

    @property
    def holds(self) -> str:
        count = self.iter_buffer_size
        return f"up to {counted(count, 'element')} of each dataset that is slow" if count else ""

    @property
    def iterator_name(self) -> str:
        count = len(self.datasets)
        return f"InterleaveDatasetIterator([{count} datasets], cycle_length={min(self.cycle_length, count)})"

    def __str__(self) -> str:
        return f"InterleaveIterDataset([{len(self.datasets)} datasets], cycle_length={self.cycle_length})"


def _is_dataset(value: Any) -> bool:
    return isinstance(value, Node) or hasattr(value, "_wraps_node")


class _Picked(Fields):
    """Some of a sequence of datasets, each looked up when it is asked for."""

    datasets: Any
    positions: range

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, index: int) -> Any:
        return self.datasets[self.positions[index]]


def interleave(
    datasets: Any, cycle_length: int, make_threads: int, make_buffer_size: int, buffer_size: int
) -> Interleave:
    """Interleave `datasets`, `cycle_length` at a time."""
    if not hasattr(datasets, "__len__") or isinstance(datasets, Mapping):
        raise TypeError(
            f"interleave takes a sequence of datasets or a MapDataset of them, got {type(datasets).__name__}: "
            "make a list of them."
        )
    cycle_length = integer("cycle_length", cycle_length)
    if cycle_length < 0:
        raise ValueError(f"cycle_length must not be negative, got {cycle_length}.")
    return Interleave(datasets, cycle_length, make_threads, make_buffer_size, buffer_size)
