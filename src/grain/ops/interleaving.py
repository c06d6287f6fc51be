"""Reading several datasets in turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from grain.errors import StateMismatchError
from grain.fields import Fields, Frozen
from grain.graph.naming import counted
from grain.graph.node import IterNode, Node, required
from grain.graph.parts import Part
from grain.graph.specs import element_spec
from grain.indices.arithmetic import integer, is_count
from grain.ops.custom import node_of
from grain.plan.kinds import Turns

ShardState = dict[str, Any]
"""Of one of the datasets: `exhausted` (0 or 1) and `state`, which may be None for one that has ended."""


class Position(Frozen):
    """Where an interleave is. What it looks like in a saved state is known here alone."""

    turn: int
    """Which of the slots is next."""
    next_dataset: int
    """The first dataset that has not been opened."""
    datasets: list[int]
    """In each slot: the number of its dataset,"""
    states: list[Any]
    """the state of that (None: it has not been opened),"""
    ended: list[bool]
    """and whether it has ended."""
    future_states: dict[int, Any]
    """Of datasets that are not open yet: where to begin, if not at the start; None for those that have ended."""

    KEYS = (
        "next_index_in_cycle",
        "next_index_in_datasets",
        "iterators_in_use_indices",
        "iterators_in_use_states",
        "exhausted",
        "future_states",
    )

    @staticmethod
    def of_workers(turn: int, states: list[Any]) -> Position:
        """Datasets that are all in use."""
        count = len(states)
        return Position(turn, count, list(range(count)), states, [False] * count, {})

    @staticmethod
    def of_shards(shards: Sequence[ShardState], cycle_length: int) -> Position:
        """The first shards that have not ended are in use, the others wait."""
        slot_count = min(cycle_length, len(shards))
        going_on = [position for position, shard in enumerate(shards) if not shard["exhausted"]]
        ended = [position for position, shard in enumerate(shards) if shard["exhausted"]]
        in_use = (going_on + ended)[:slot_count]
        next_position = going_on[:slot_count][-1] + 1 if going_on else len(shards)
        waiting = range(next_position, len(shards))
        return Position(
            turn=0,
            next_dataset=next_position,
            datasets=in_use,
            states=[shards[position]["state"] for position in in_use],
            ended=[bool(shards[position]["exhausted"]) for position in in_use],
            future_states={n: None if shards[n]["exhausted"] else shards[n]["state"] for n in waiting},
        )

    def shards(self, count: int, state_at_start: Callable[[int], Any]) -> list[ShardState]:
        """The states of all `count` datasets; `state_at_start` tells those of datasets that were not begun."""
        result: list[ShardState] = []
        for position in range(count):
            state = None
            if position >= self.next_dataset:
                futures = self.future_states
                state = futures[position] if position in futures else state_at_start(position)
            result.append({"exhausted": int(state is None), "state": state})
        for position, state, has_ended in zip(self.datasets, self.states, self.ended, strict=True):
            if state is not None:
                result[position] = {"exhausted": int(has_ended), "state": state}
        return result

    def saved(self) -> dict[str, Any]:
        """As JSON values."""
        values = (self.turn, self.next_dataset, self.datasets, self.states, list(map(int, self.ended)))
        return dict(zip(self.KEYS, (*values, self.future_states), strict=True))

    @staticmethod
    def is_in(saved: Any) -> bool:
        """Whether `saved` is the state of an interleave, and not of an operator on it."""
        return Position.KEYS[0] in saved

    @staticmethod
    def of_saved(saved: Any, operator: IterNode[Any]) -> Position:
        """What `saved` gave, as far as that can be told without the datasets."""
        saved = {"future_states": {}, **saved} if isinstance(saved, dict) else saved
        turn, next_dataset, datasets, states, ended, waiting = required(saved, Position.KEYS, operator).values()
        if not (
            all(isinstance(values, list) and len(values) == len(datasets) for values in (datasets, states, ended))
            and isinstance(waiting, dict)
            and all(map(is_count, (turn, next_dataset, *datasets)))
            and turn < max(len(datasets), 1)
        ):
            raise _mismatch(operator, turn, next_dataset, datasets)
        future_states = {int(key): value for key, value in waiting.items()}
        return Position(turn, next_dataset, datasets, states, list(map(bool, ended)), future_states)


def _mismatch(operator: IterNode[Any], turn: Any, next_dataset: Any, datasets: Any) -> StateMismatchError:
    return StateMismatchError(
        f"The state does not fit {operator}: it has the datasets {datasets} in use, and number {turn} of them is next, "
        f"then dataset {next_dataset}. Restore it with the same datasets and cycle_length (or number of workers)."
    )


class Interleave(IterNode[None]):
    """One element of each of `cycle_length` datasets in turn; one that has ended gives its place to the next."""

    datasets: Any
    """A sequence of datasets, or a MapDataset that makes them."""
    cycle_length: int
    num_make_iter_threads: int
    make_iter_buffer_size: int
    iter_buffer_size: int

    def own_part(self, part: Part) -> IterNode[Any]:
        return self.replaced(datasets=_Picked(self.datasets, range(len(self.datasets))[part.stride]))

    def lower(self, *parents: Any) -> Turns:
        return Turns(self)

    def start(self) -> Position:
        """Where it begins."""
        count = min(self.cycle_length, len(self.datasets))
        return Position(0, 0, list(range(count)), [None] * count, [True] * count, {})

    def position(self, saved: Any) -> Position:
        """Where it was when `saved` was."""
        position = Position.of_saved(saved, self)
        count = min(self.cycle_length, len(self.datasets))
        if len(position.datasets) != count or not all(dataset < len(self.datasets) for dataset in position.datasets):
            raise _mismatch(self, position.turn, position.next_dataset, position.datasets)
        return position

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
    def held_back(self) -> str:
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


def interleave_node(
    datasets: Any, cycle_length: int, make_threads: int, make_buffer_size: int, buffer_size: int
) -> Interleave:
    """Interleave `datasets`, `cycle_length` at a time."""
    if not hasattr(datasets, "__len__") or isinstance(datasets, Mapping):
        raise TypeError(
            f"interleave takes a sequence of datasets or a MapDataset of them, got {type(datasets).__name__}: "
            "make a list of them."
        )
    cycle_length = integer("cycle_length", cycle_length)
    if cycle_length <= 0:
        raise ValueError(f"cycle_length must be positive, got {cycle_length}.")
    for name, count in (
        ("num_make_iter_threads", make_threads),
        ("make_iter_buffer_size", make_buffer_size),
        ("iter_buffer_size", buffer_size),
    ):
        if integer(name, count) < 0:
            raise ValueError(f"{name} must not be negative, got {count}.")
    return Interleave(datasets, cycle_length, make_threads, make_buffer_size, buffer_size)
