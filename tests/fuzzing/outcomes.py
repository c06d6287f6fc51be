"""What reading a file gives: for each record the record, or the error in its place."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

import numpy as np

Value = Callable[[Any], Any]
"""Makes of a record something that `==` compares."""
MOST_KEYS = 300
"""Of a file that is said to have more records, so many are read."""
_PLACE = re.compile(
    r"(?i)\b(record|row|row group|line|byte|sample|column|record batch|batches|index|key|member|picture|array)s?\b"
)


@dataclasses.dataclass(frozen=True)
class Refused:
    """An error in the place of a record."""

    kind: str
    text: str
    """The message and its notes."""
    is_whole: bool = False
    """Whether it is of the whole file, which could not be opened."""

    def names(self, name: str, has_place: bool) -> bool:
        """Whether it says in which file, and with `has_place` also where in it."""
        return name in self.text and (self.is_whole or not has_place or _PLACE.search(self.text) is not None)


def refused(error: BaseException, is_whole: bool = False) -> Refused:
    """An error as an outcome."""
    text = "\n".join([str(error), *getattr(error, "__notes__", [])])
    return Refused(type(error).__name__, text, is_whole)


def attempt(read: Callable[[], Any], is_whole: bool = False) -> Any:
    """What `read` gives, or the error that it raises."""
    try:
        return read()
    except Exception as error:
        return refused(error, is_whole)


def keys_of(count: int) -> list[int]:
    """The numbers of the records to read."""
    if count <= MOST_KEYS:
        return list(range(count))
    return [*range(MOST_KEYS // 2), *range(count - MOST_KEYS // 2, count)]


def by_index(source: Any, value: Value) -> dict[int, Any]:
    """One record after the other."""
    return {key: attempt(lambda key=key: value(source[key])) for key in keys_of(len(source))}


def in_groups(rng: Random, keys: Sequence[int], read: Callable[[list[int]], list[Any]]) -> dict[int, Any]:
    """The records in groups of a few, in any order; where a group fails, the error is that of all its records."""
    shuffled, found = rng.sample(list(keys), len(keys)), {}
    while shuffled:
        size = rng.randint(1, 9)
        group, shuffled = shuffled[:size], shuffled[size:]
        records = attempt(lambda group=group: read(group))
        if isinstance(records, Refused):
            found.update(dict.fromkeys(group, records))
        else:
            assert len(records) == len(group), f"{len(group)} records were asked for, and {len(records)} came"
            found.update(zip(group, records, strict=True))
    return dict(sorted(found.items()))


def from_iterator(iterator: Any, value: Value, most: int = 2 * MOST_KEYS) -> list[Any]:
    """What comes, errors included; NoEndError where that is more than any file here has."""
    found: list[Any] = []
    while len(found) < most:
        try:
            found.append(value(next(iterator)))
        except StopIteration:
            return found
        except Exception as error:
            found.append(refused(error))
    raise NoEndError(f"{most} records and errors, and no end; the last is {found[-1]!r}")


class NoEndError(Exception):
    """A stream goes on, and nothing new comes."""


def exact(value: Any) -> Any:
    """`value` as something that `==` compares in full: NaN equals itself, and 1 is not 1.0 in an array."""
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.hasobject:
            return ("objects", np.shape(value), list(map(exact, value.ravel().tolist())))
        return (
            "array",
            value.dtype.str if value.dtype.names is None else repr(value.dtype),
            np.shape(value),
            value.tobytes(),
        )
    if isinstance(value, dict):
        return {key: exact(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return list(map(exact, value))
    return repr(value) if isinstance(value, float) else value


def given(outcomes: Iterable[Any]) -> list[Any]:
    """The records among outcomes."""
    return [outcome for outcome in outcomes if not isinstance(outcome, Refused)]


def is_subsequence(some: Sequence[Any], all_: Iterable[Any]) -> bool:
    """Whether `some` are among `all_`, in their order."""
    rest = iter(all_)
    return all(any(one == other for other in rest) for one in some)


def first_difference(found: Sequence[Any], expected: Sequence[Any]) -> str:
    """Where two sequences part, in words."""
    for number, (one, other) in enumerate(itertools.zip_longest(found, expected, fillvalue="nothing")):
        if one != other:
            return f"number {number} is {shown(one)}, and should be {shown(other)}"
    return "no difference"


def shown(value: Any) -> str:
    """The beginning of a value's text."""
    text = repr(value)
    return text if len(text) <= 160 else f"{text[:160]}..."
