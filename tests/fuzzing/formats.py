"""What the fuzzer knows of a format: how to make a sound file, how to damage it, how to read it, and what may come."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from fuzzing.mutations import IN_PLACE, MOVING, MUTATIONS
from fuzzing.outcomes import Refused, Value, exact, first_difference, given, is_subsequence, shown


@dataclasses.dataclass(frozen=True)
class Made:
    """A sound file, and what is in it."""

    content: bytes
    records: Sequence[Any]
    """What a reader gives for it, as the format's `value` has them."""
    extents: Sequence[tuple[int, int]] = ()
    """Where each record lies, if that can be said."""
    beside: Any = None
    """What belongs to the file and is not damaged: another file, for example."""


@dataclasses.dataclass(frozen=True)
class Damaged:
    """A file that was damaged: what it was, and what it is now."""

    made: Made
    other: Made
    """Of which parts may be in it."""
    content: bytes
    mutation: str

    @property
    def is_in_place(self) -> bool:
        """Whether what was not damaged is where it was."""
        return self.mutation not in MOVING and len(self.content) == len(self.made.content)

    def untouched(self) -> list[int]:
        """The numbers of the records whose bytes are as they were, in a file that was damaged in place."""
        before, now = self.made.content, self.content
        return [number for number, (a, b) in enumerate(self.made.extents) if before[a:b] == now[a:b]]


class Format:
    """A kind of files. A new one is a subclass, and a row in the table of `fuzzing.__init__`."""

    name: str
    """Also of the folder with what was found."""
    suffix: str
    value: Value = staticmethod(exact)
    can_resume: bool = True
    """Whether a stream of it has states."""
    mutations: ClassVar[Mapping[str, Callable[[Random, bytes], bytes]]] = {}
    """Damage that only this format knows: wrong lengths under right checksums, for example."""

    def made(self, rng: Random) -> Made:
        """A sound file."""
        raise NotImplementedError

    def placed(self, folder: Path, name: str, damaged: Damaged) -> str:
        """Write a file into an empty folder, and return the path to read it from."""
        path = folder / f"{name}{self.suffix}"
        path.write_bytes(damaged.content)
        return str(path)

    def is_named(self, outcome: Refused, path: str, view: str) -> bool:
        """Whether an error says in which file it is, and where it is said to be of a record, of which."""
        return outcome.names(path, has_place=view == "single")

    def source(self, path: str) -> Any:
        """The source that reads by index; None where there is none."""
        return None

    def stream(self, path: str) -> Any:
        """The dataset that reads in order; None where there is none."""
        return None

    def stacked(self, source: Any, keys: list[int]) -> list[Any] | None:
        """The records at `keys`, taken from a batch of columns; None where there are no columns."""
        return None

    def problems(self, damaged: Damaged, outcomes: Mapping[int, Any], is_stream: bool) -> Iterator[str]:
        """What is wrong with the records that came, by the law of the format."""
        raise NotImplementedError

    def mutated(self, rng: Random, made: Made, other: Made) -> tuple[str, bytes]:
        """The name of a mutation, and what it makes of a file."""
        if self.mutations and rng.random() < 0.3:
            name = rng.choice(list(self.mutations))
            return name, self.mutations[name](rng, made.content)
        name = rng.choice(list(MUTATIONS))
        content = MUTATIONS[name](rng, made.content, other.content)
        if name != "intact" and rng.random() < 0.1:
            content = rng.choice(list(IN_PLACE.values()))(rng, content, other.content) if content else content
        return name, content


def originals_only(damaged: Damaged, outcomes: Mapping[int, Any], loses_nothing: bool) -> Iterator[str]:
    """The law of formats with checksums: what comes was written, and in its place.

    With `loses_nothing` what was not touched must come, even if what is before it was damaged.
    """
    found, records = given(outcomes.values()), damaged.made.records
    if not damaged.is_in_place:
        known = [*records, *damaged.other.records]
        yield from (f"{shown(one)} was never written" for one in found if one not in known)
    elif not is_subsequence(found, records):
        yield f"a record is wrong: {first_difference(found, records)}"
    elif loses_nothing:
        wanted = [records[number] for number in damaged.untouched()]
        if not is_subsequence(wanted, found):
            yield f"a record is lost that was not touched: {first_difference(found, wanted)}"


class Unreadable:
    """In the place of a record that an independent reader cannot read."""


def same_as(rows: Callable[[int], Any], count: int, damaged: Damaged, outcomes: Mapping[int, Any]) -> Iterator[str]:
    """The law of formats without checksums: what comes is what another reader finds in the damaged bytes.

    Where that one finds nothing, only what was written may come.
    """
    for key, outcome in outcomes.items():
        if isinstance(outcome, Refused):
            continue
        expected = rows(key) if key < count else Unreadable
        if expected is Unreadable:
            records = damaged.made.records
            known = records[key : key + 1] if damaged.is_in_place else [*records, *damaged.other.records]
            if outcome not in known:
                yield f"record {key} is {shown(outcome)}, where nothing can be read"
        elif outcome != expected:
            yield f"record {key} is {shown(outcome)}, and should be {shown(expected)}"
