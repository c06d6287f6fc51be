"""Nodes: one for each operator of a pipeline, immutable, knowing their parents and nothing of who uses them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from grain.errors import StateMismatchError
from grain.fields import Fields, Frozen
from grain.graph.listing import listed, mapped, unlisted
from grain.graph.naming import call_of
from grain.graph.parts import Part
from grain.graph.positions import MOST
from grain.indices.arithmetic import is_count
from grain.observe.counters import Counters
from grain.options import DatasetOptions, ReadOptions

Self = TypeVar("Self", bound="Node")


class Node(Frozen):
    """What one operator was asked to do."""

    is_random_access: ClassVar[bool]
    may_drop: ClassVar[bool] = False
    """Whether elements of the parent may be missing from the output."""
    is_opaque: ClassVar[bool] = False
    """Whether the parents are run by a user's class, out of sight."""

    @property
    def parents(self) -> tuple[Node, ...]:
        return ()

    def with_parents(self: Self, *parents: Node) -> Self:
        """The same operator on other parents; what it has from the old ones, such as a seed, it keeps."""
        given = iter(parents)
        changed = {name: mapped(getattr(self, name), Node, lambda _: next(given)) for name in self.field_names}
        return self.replaced(**changed)

    def own_part(self, part: Part) -> Node | None:
        """Its `part`, where that is not made of parts of its parents."""
        return None

    @property
    def carried_seed(self) -> int | None:
        """The seed that this node gives to those after it."""
        return None

    @property
    def carried_options(self) -> DatasetOptions | None:
        """The options that this node sets for the whole pipeline."""
        return None

    def placed(self: Self, place: Any) -> Self:
        """The same operator, which puts the arrays that it stacks where `place` says, if they are its very output."""
        return self

    def element_spec(self, *parents: Any) -> Any:
        """The shapes and types of elements, given those of the parents' elements."""
        raise NotImplementedError(f"`element_spec` inference is not implemented for {self.name}")

    # ---- what `explain` tells

    @property
    def call(self) -> str:
        """How it was asked for, as a call in a chain; nothing where nobody has asked for it."""
        return call_of(str(self))

    def first_call(self, inputs: str) -> str | None:
        """How a chain of calls begins with it, given those of its inputs; None: it goes on with `call`."""
        return None

    @property
    def inputs(self) -> tuple[Node, ...]:
        """What it reads from, also where that is out of sight or run elsewhere."""
        return self.parents

    @property
    def inputs_run(self) -> str:
        """Where its inputs are run; nothing: where it is itself."""
        return ""

    @property
    def held_back(self) -> str:
        """The elements that it keeps between two calls; nothing: none."""
        return ""

    @property
    def name(self) -> str:
        """The name of the public class."""
        return str(self).partition("(")[0].partition("[")[0]

    def __repr__(self) -> str:
        return str(self)

    def __reduce__(self) -> Any:
        return unlisted, (listed(self, Node),)


class MapNode(Node):
    """An operator that can be asked for any index."""

    is_random_access = True
    is_divisible: ClassVar[bool] = False
    """Whether it can be applied to contiguous parts of its parents one by one, and no record is lost or used twice.

    Then `with_parents` works out its lengths anew.
    """

    @property
    def length(self) -> int:
        """The number of elements of one epoch: as many as the parent has, if nothing else is said."""
        parent: Any = self.parents[0]
        while type(parent).length is MapNode.length:  # pipelines may be long
            parent = parent.parents[0]
        return int(parent.length)

    @property
    def default_read_options(self) -> ReadOptions:
        """How it is read where nothing is said."""
        return ReadOptions()

    def lower(self, *parents: Any) -> Any:
        """The plan of this operator, given those of its parents."""
        raise NotImplementedError


class Parent(Protocol):
    """What a running operator sees of one that it reads from."""

    context: Context

    def __iter__(self) -> Iterator[Any]:
        """The elements from the present position on; the same iterator while it lasts."""

    def save(self) -> Any:
        """The present position, as JSON values."""

    def restore(self, saved: Any) -> None:
        """Go to a position that `save` gave."""

    def reset(self, *, keeps_caches: bool = False) -> None:
        """Go to the start; what operators keep for the next time they are read they may keep then."""

    def skip(self, count: int) -> None:
        """Pass over `count` elements, or errors in their places."""

    def holds(self) -> bool:
        """Whether an error has left something half done that `save` does not tell: it is no place to go back to."""

    @property
    def element_index(self) -> int | None:
        """The index of the element read last, where one is known."""

    def get_next_index(self) -> int: ...

    def set_next_index(self, index: int) -> None: ...


class WorkerContext(Frozen):
    """Which of how many workers a pipeline runs in."""

    process_index: int = 0
    process_count: int = 1


class Context(Fields):
    """What all operators of one running pipeline share."""

    dataset_options: DatasetOptions
    mp_context: WorkerContext
    counters: Counters

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"counters": Counters(), **kwargs})


class Stateless(Fields):
    """The state of an operator whose position is that of its parent."""


S = TypeVar("S")


class IterNode(Node, Generic[S]):
    """An operator on a stream: all that changes while it runs is in its state, an `S`.

    Fields of the state are saved under their names, after the state of the parent; those that start with an underscore
    are not saved. What an operator has to do so that nothing is lost, whatever is raised and whenever it is resumed:

    1. Whenever `run` yields, the state tells how to go on after that element.
    2. What it has collected for the next element is in the state too, and is still there when `run` is called again
       after an exception; `holds` says whether there is such a thing.
    3. One that must go back to where its parent was, to read again what it hands out, keeps that place in
       `parent_field`, and in `passed_field` how many elements it has handed out since; or in `skipped_field`, how many
       of the parent's are done with.

    To go there when it is resumed, and what happens when it is interrupted, is not its business: see
    `streams/stream.py` and `streams/cursor.py`.
    """

    is_random_access = False
    is_one_to_one: ClassVar[bool] = False
    """Whether each element of the parent gives exactly one."""
    reads_by_index: ClassVar[bool] = False
    """Whether the parent has random access: the stream begins here."""
    starts_early: ClassVar[bool] = False
    """Whether an interleave opens and starts it before its turn, and goes to the next one where an element fails."""
    parent_field: ClassVar[str | None] = None
    """The field of the state that has the parent's position, where that is not the one after the last element read."""
    passed_field: ClassVar[str | None] = None
    """The field that counts the elements handed out since the parent was at `parent_field`."""
    skipped_field: ClassVar[str | None] = None
    """The field that counts the parent's elements after `parent_field` that are done with."""
    State: ClassVar[Callable[..., Any]] = Stateless

    @property
    def iterator_name(self) -> str:
        """How its iterator is shown."""
        return str(self).replace("IterDataset", "DatasetIterator", 1)

    @property
    def group_size(self) -> int:
        """How many elements of the parent are asked for together."""
        return 1

    def lower(self, *parents: Any) -> Any:
        """The plan of this operator, given those of its parents; None: a plain step."""
        return None

    def context_above(self, context: Context) -> Context:
        """The context in which its parents run."""
        return context

    def fresh(self, *parents: Parent) -> S:
        """The state at the start, given parents at theirs."""
        state: S = self.State()
        return state

    def again(self, state: S, fresh: S) -> S:
        """The state in which it is read again from the start, where it was in `state`; it may keep what it has read."""
        return fresh

    def run(self, state: S, *parents: Any) -> Iterator[Any]:
        """The elements from `state` on. Whenever it yields, `state` tells how to go on after that element."""
        raise NotImplementedError

    def holds(self, state: S) -> bool:
        """Whether elements were collected, or have failed, since the element that the saved state is after."""
        return False

    def rewind(self, state: S) -> None:
        """Take `state` back to before the elements that `passed_field` counts."""
        assert self.passed_field is not None
        setattr(state, self.passed_field, 0)

    def save(self, state: S, parents: Sequence[Parent]) -> Any:
        """`state` as JSON values, with the states of the parents."""
        own = {name: copied(getattr(state, name)) for name in saved_fields(state)}
        if self.parent_field is not None:
            return own
        parent = parents[0].save()
        return {"parent": parent, **own} if own else parent

    def split(self, state: S, saved: Any) -> tuple[dict[str, Any], list[Any]]:
        """What `save` gave, as fields of the state and states of the parents."""
        names = saved_fields(state)
        if self.parent_field is not None:
            fields = required(saved, names, self)
            return fields, [fields[self.parent_field]]
        if not names:
            return {}, [saved]
        found = required(saved, [*names, "parent"], self)
        return found, [found.pop("parent")]

    def load(self, state: S, fields: dict[str, Any]) -> S:
        """The state that was saved, for a stream that is now in `state`."""
        loaded: S = self.State(**fields)
        return loaded

    def get_next_index(self, state: S, parent: Parent) -> int:
        raise NotImplementedError(f"get_next_index is not supported for {self}.")

    def set_next_index(self, state: S, parent: Parent, index: int) -> None:
        raise NotImplementedError(f"set_next_index is not supported for {self}.")


ABSENT: Any = object()
"""In place of the state of a parent that was not there when it was saved."""


def saved_fields(state: Any) -> list[str]:
    """The names of the fields of a state that are saved."""
    return [name for name in state.field_names if name[0] != "_"]


def required(saved: Any, names: Sequence[str], operator: Node) -> dict[str, Any]:
    """The entries `names` of a saved state, copied."""
    try:
        return {name: copied(saved[name]) for name in names}
    except (KeyError, TypeError, IndexError):
        found = f"the keys {list(saved)}" if isinstance(saved, dict) else f"{saved!r}"
        raise StateMismatchError(
            f"The state does not fit {operator}: it needs the keys {list(names)}, but has {found}. "
            "Restore it with the pipeline that saved it."
        ) from None


def check_counts(fields: dict[str, Any], state: Any, operator: Node) -> None:
    """See that saved `fields` have numbers wherever `state` has, and truths."""
    for name, value in fields.items():
        expected = getattr(state, name)
        if isinstance(expected, bool):
            check(isinstance(value, int) and value in (0, 1), operator, f"{name} must be true or false", value)
        elif isinstance(expected, int):
            is_possible = is_count(value) and value <= MOST
            check(is_possible, operator, f"{name} must be an integer, and not negative or beyond {MOST}", value)


def check(is_met: bool, operator: Node, demand: str, value: Any) -> None:
    """Refuse a saved state with a `value` that does not meet a demand."""
    if not is_met:
        raise StateMismatchError(
            f"The state does not fit {operator}: {demand}, but is {value!r}. "
            "Restore it with the pipeline that saved it."
        )


def copied(value: Any) -> Any:
    """A copy of JSON values that shares no container with `value`."""
    if type(value) is int:
        return value
    if isinstance(value, dict):
        return {key: item if type(item) is int else copied(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [copied(item) for item in value]
    return value


def ancestors(start: Node) -> Iterator[Node]:
    """`start` and all nodes above it, each once."""
    seen, waiting = {id(start): start}, [start]  # with the node itself: an id is its own only while it lives
    while waiting:
        current = waiting.pop()
        yield current
        for parent in current.parents:
            if id(parent) not in seen:
                seen[id(parent)] = parent
                waiting.append(parent)
