"""Streams: operators at work.

A stream's state is the truth; the generator that works on it can be made again at any time.

1. `iter` gives the elements from the present position on: the same iterator while it lasts. One that has ended, with an
   exception or without, is made again from the state.
2. `save` is the position as JSON values. `restore` goes to one: first the whole of it is loaded, and only then is
   anything changed, so that a state that does not fit leaves the stream as it was. `reset` goes to the start.
3. A position can also be said as an *anchor*, a position that was saved before, and how many elements, and errors after
   the last of them, have come since. To go there is to restore the anchor and to pass over that many; what fails on the
   way has been raised before, and is not raised again. Everything that goes back does so in this way: operators that
   read again what they hold, states that were saved right after an error, and, in `cursor.py`, interrupts.
4. Passing over is put off until the next element is asked for.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator
from typing import Any

from grain.errors import StateMismatchError
from grain.graph.node import ABSENT, Context, IterNode, check_counts, saved_fields
from grain.graph.positions import anchored, split_anchored

_END = object()
Change = Callable[[], None]
"""What is done to a stream once the whole of a state is known to fit."""


class Stream(abc.ABC):
    """One operator at work."""

    parents: tuple[Stream, ...] = ()
    is_atomic: bool
    """Whether `save` and `jump` are one step, so that no other thread can come in between."""
    _elements: Any
    _to_pass: tuple[int, int] | None
    """How many elements, and errors after the last of them, are to be passed over."""
    _is_ahead: bool
    """Whether an element was read that is still to be handed out."""
    _counts_passed: bool = False
    """Whether what operators count on the way is to count."""

    def __init__(self, operator: IterNode[Any], context: Context) -> None:
        self.operator, self.context = operator, context
        self._elements = self._to_pass = None
        self.is_atomic = self._is_ahead = False

    @abc.abstractmethod
    def _run(self) -> Iterator[Any]:
        """The elements from the present position on."""

    @abc.abstractmethod
    def _saved(self) -> Any:
        """The present position, but for what is to be passed over."""

    @abc.abstractmethod
    def _loaded(self, saved: Any) -> list[Change]:
        """What takes this stream, and all that it reads from, to a position that `_saved` gave."""

    @abc.abstractmethod
    def _reset(self, keeps_caches: bool) -> None:
        """Go to the start, parents too."""

    def __iter__(self) -> Iterator[Any]:
        elements = self._elements
        if elements is None or getattr(elements, "gi_frame", elements) is None:
            self._elements, self._is_ahead = self._run(), False
            self._settle()
        return self._elements  # type: ignore[no-any-return]

    def _settle(self) -> None:
        """Pass over what is to be passed over."""
        if self._to_pass is not None:
            counts = None if self._counts_passed else self.context.counters.copy()
            self._pass_over_now(*self._to_pass)
            if counts is not None:
                self.context.counters.restore(counts)
            self._to_pass = None

    def _pass_over_now(self, elements: int, errors: int, is_over: Callable[[], bool] = lambda: False) -> None:
        """Pass over elements, and then errors; where one comes after which it `is_over`, raise it."""
        wanted = elements
        while elements or errors:
            try:
                element = next(self._elements)
            except StopIteration:
                if elements == wanted:  # it was at the end
                    return
                raise self._too_few(wanted) from None
            except Exception:
                self._elements = self._run()
                if is_over():
                    raise
                errors -= not elements
                continue
            if not elements:  # what has failed before is all right this time
                self._elements, self._is_ahead = self._with_first(element, self._elements), True
                return
            elements -= 1
            if is_over():
                raise self._too_few(wanted)

    def _with_first(self, first: Any, elements: Iterator[Any]) -> Iterator[Any]:
        self._is_ahead = False
        yield first
        for element in elements:  # noqa: UP028 - `yield from` would close a user's iterator when this is thrown away
            yield element

    def _too_few(self, wanted: int) -> StateMismatchError:
        return StateMismatchError(
            f"The state does not fit {self.operator}: {wanted} elements were handed out where there are not so many. "
            "Restore it with the pipeline that saved it."
        )

    def skip(self, count: int) -> None:
        """Pass over `count` elements, or errors in their places."""
        for _ in range(count):
            try:
                has_ended = next(iter(self), _END) is _END
            except Exception:  # it has been raised before
                continue
            if has_ended:
                raise self._too_few(count)

    def save(self) -> Any:
        """The present position, as JSON values."""
        saved = self._saved()
        return saved if self._to_pass is None else anchored(saved, *self._to_pass)

    def mark(self) -> Any:
        """As `save`, but nothing is opened, and nobody is asked, only to know it: for this process alone."""
        return self.save()

    def restore(self, saved: Any) -> None:
        """Go to a position that `save` gave."""
        for change in self.loaded(saved):
            change()

    def jump(self, saved: Any) -> Any:
        """Go to a position between two elements, where that is easy and it fits; a copy of it then, or None."""
        return None

    def loaded(self, saved: Any) -> list[Change]:
        """What takes this stream, and all that it reads from, to a position that `save` gave."""
        anchor, *to_pass = split_anchored(saved)
        if anchor is saved:
            return self._loaded(saved)
        changes = [self.reset] if anchor is None else self._loaded(anchor)
        return [*changes, lambda: self.pass_over(*to_pass)]

    def reset(self, *, keeps_caches: bool = False) -> None:
        """Go to the start; what operators keep for the next time they are read they may keep then."""
        self._elements = self._to_pass = None
        self._reset(keeps_caches)

    def pass_over(self, elements: int, errors: int, *, is_counted: bool = False) -> None:
        """Pass over so many elements, and errors after the last of them, when the next element is asked for."""
        self._elements, self._to_pass = None, (elements, errors) if elements or errors else None
        self._counts_passed = is_counted

    def holds(self) -> bool:
        """Whether the state does not tell all since the last element: what an error has left half done."""
        return self._is_ahead or self._holds()

    def _holds(self) -> bool:
        """The same, but for an element that is still to be handed out."""
        return any(parent.holds() for parent in self.parents)

    @property
    def element_index(self) -> int | None:
        """The index of the element read last, where one is known."""
        return self.parents[0].element_index if len(self.parents) == 1 else None

    @abc.abstractmethod
    def get_next_index(self) -> int:
        """The number of elements before the next one, for operators where that is clear."""

    @abc.abstractmethod
    def set_next_index(self, index: int) -> None:
        """Go to an element by its number."""

    def start_prefetch(self) -> None:
        """Let everything that reads ahead begin."""
        for parent in self.parents:
            parent.start_prefetch()

    def adopt_context(self, context: Context) -> None:
        """Take part in a larger pipeline."""
        self.context = context
        for parent in self.parents:
            parent.adopt_context(self.operator.context_above(context))

    def close(self) -> None:
        """Give back what is held: threads, processes, files."""
        self._elements = None
        for parent in self.parents:
            parent.close()


class _Marked:
    """A parent whose position is wanted for this process alone."""

    def __init__(self, stream: Stream) -> None:
        self.save = stream.mark


class OperatorStream(Stream):
    """An operator's generator at work on its state."""

    _is_restored = False
    """Whether the state has been restored, and what the operator held then is to be read again."""

    def __init__(self, operator: IterNode[Any], parents: tuple[Stream, ...], context: Context) -> None:
        super().__init__(operator, context)
        self.parents = parents
        self.state: Any = operator.fresh(*parents)

    def _run(self) -> Iterator[Any]:
        return self.operator.run(self.state, *self.parents)

    def _settle(self) -> None:
        if self._is_restored:
            self._is_restored = False
            self._read_again()
        super()._settle()

    def _read_again(self) -> None:
        operator, state, counts = self.operator, self.state, self.context.counters.copy()
        if operator.skipped_field is not None:
            self.parents[0].skip(getattr(state, operator.skipped_field))
        if operator.passed_field is None or not getattr(state, operator.passed_field):
            return
        fields = {name: getattr(state, name) for name in saved_fields(state)}
        assert operator.parent_field is not None
        parent_field, place = operator.parent_field, fields[operator.parent_field]
        operator.rewind(state)
        # An operator that has moved on to another place has given up what it was to read again.
        self._pass_over_now(fields[operator.passed_field], 0, lambda: getattr(state, parent_field) != place)
        for name, value in fields.items():
            setattr(state, name, value)
        self.context.counters.restore(counts)

    def _saved(self) -> Any:
        return self.operator.save(self.state, self.parents)

    def save(self) -> Any:  # as in `Stream`: states of long pipelines are deep, and each call counts
        if self._to_pass is None:
            return self.operator.save(self.state, self.parents)
        return super().save()

    def mark(self) -> Any:
        if self._to_pass is not None:
            return self.save()
        return self.operator.save(self.state, [_Marked(parent) for parent in self.parents])  # type: ignore[misc]

    def _loaded(self, saved: Any) -> list[Change]:
        fields, above = self.operator.split(self.state, saved)
        check_counts(fields, self.state, self.operator)
        state = self.operator.load(self.state, fields)
        changes: list[Change] = [lambda: self._become(state)]
        for parent, parent_saved in zip(self.parents, above, strict=False):
            if parent_saved is not ABSENT:
                changes += parent.loaded(parent_saved)
        return changes

    def _become(self, state: Any) -> None:
        self.state, self._elements, self._to_pass = state, None, None
        self._is_restored = True

    def _reset(self, keeps_caches: bool) -> None:
        for parent in self.parents:
            parent.reset(keeps_caches=keeps_caches)
        fresh = self.operator.fresh(*self.parents)
        self.state = self.operator.again(self.state, fresh) if keeps_caches else fresh
        self._is_restored = False

    def _holds(self) -> bool:
        return self.operator.holds(self.state) or super()._holds()

    def get_next_index(self) -> int:
        return self.operator.get_next_index(self.state, self.parents[0] if self.parents else None)  # type: ignore[arg-type]

    def set_next_index(self, index: int) -> None:
        self.operator.set_next_index(self.state, self.parents[0] if self.parents else None, index)  # type: ignore[arg-type]
        self._elements = self._to_pass = None
        self._is_restored = False
