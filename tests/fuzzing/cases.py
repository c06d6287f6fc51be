"""One damaged file: made, read in every way, and judged."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

from fuzzing.formats import Damaged, Format
from fuzzing.outcomes import NoEndError, Refused, by_index, first_difference, from_iterator, in_groups, refused, shown
from grain import MapDataset, ReadOptions


@dataclasses.dataclass(frozen=True)
class Case:
    """A format and the number of a file; the rest follows from them."""

    format: Format
    seed: int
    number: int

    def rng(self, purpose: str) -> Random:
        return Random(f"{self.format.name}-{self.seed}-{self.number}-{purpose}")

    def damaged(self, content: bytes | None = None, mutation: str = "") -> Damaged:
        """The file; with `content`, that is what it was damaged to."""
        made, other = self.format.made(self.rng("made")), self.format.made(self.rng("other"))
        if content is None:
            mutation, content = self.format.mutated(self.rng("mutated"), made, other)
        return Damaged(made, other, content, mutation)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What is wrong, if anything, and what was being done when it was found."""

    problem: str | None
    view: str
    given: int
    refused: int


def judged(case: Case, damaged: Damaged, enter: Callable[[str], None] = lambda view: None) -> Verdict:
    """Read a file in every way; `enter` is told what is tried next."""
    folder = Path(tempfile.mkdtemp(prefix="grain-fuzz-"))
    view, counts = "open", [0, 0]

    def entered(name: str) -> None:
        nonlocal view
        view = name
        enter(name)

    try:
        path = case.format.placed(folder, f"case-{case.number}", damaged)
        for view, problem in _problems(case, damaged, path, entered, counts):
            return Verdict(problem, view, *counts)
    except NoEndError as error:
        return Verdict(f"no end: {error}", view, *counts)
    except Exception as error:
        return Verdict(f"raised: {type(error).__name__}: {error}", view, *counts)
    finally:
        shutil.rmtree(folder)
    return Verdict(None, "", *counts)


def _problems(
    case: Case, damaged: Damaged, path: str, enter: Callable[[str], None], counts: list[int]
) -> Iterator[tuple[str, str]]:
    views: dict[str, Mapping[int, Any]] = {}
    for view, read in _views(case, path, views):
        enter(view)
        found = read()
        if found is None:
            continue
        views[view] = found
        refusals = [outcome for outcome in found.values() if isinstance(outcome, Refused)]
        counts[0] += len(found) - len(refusals)
        counts[1] += len(refusals)
        for outcome in refusals:
            if not case.format.is_named(outcome, path, view):
                yield view, f"unnamed: {shown(outcome)}"
        enter(f"judging {view}")
        if view in ("single", "stream"):
            for problem in case.format.problems(damaged, found, view == "stream"):
                yield view, f"wrong: {problem}"
        records = list(damaged.made.records)
        if damaged.mutation == "intact" and records and list(found.values()) != records:
            yield view, f"wrong: in an intact file {first_difference(list(found.values()), records)}"
        for problem in _differences(view, views):
            yield view, f"differs: {problem}"


def _views(case: Case, path: str, views: Mapping[str, Any]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The ways to read a file, by name; each is tried when the one before has been looked at."""
    format, rng = case.format, case.rng("reading")
    source: Any = None

    def single() -> Any:
        nonlocal source
        try:
            opened = format.source(path)
            if opened is None or len(opened) == 0:
                return None if opened is None else {}
        except Exception as error:
            return {0: refused(error, is_whole=True)}
        source = opened
        return by_index(source, format.value)

    yield "single", single
    if source is not None:
        keys = list(views["single"])
        if hasattr(source, "__getitems__"):
            yield (
                "batched",
                lambda: in_groups(rng, keys, lambda group: list(map(format.value, source.__getitems__(group)))),
            )
        if format.stacked(source, []) is not None:
            yield "stacked", lambda: in_groups(rng, keys, lambda group: format.stacked(source, group))
        if len(source) == len(keys):
            yield "dataset", lambda: _numbered(_dataset(source, rng), format)
    yield "stream", lambda: _numbered(format.stream(path), format)
    if views.get("stream") and format.can_resume:
        yield "resumed", lambda: _resumed(format, path, rng.randint(0, len(views["stream"])))


def _dataset(source: Any, rng: Random) -> Any:
    options = rng.choice((ReadOptions(num_threads=0, prefetch_buffer_size=0), ReadOptions(2, 5)))
    return MapDataset.source(source).to_iter_dataset(options)


def _numbered(dataset: Any, format: Format) -> dict[int, Any] | None:
    if dataset is None:
        return None
    with contextlib.closing(iter(dataset)) as iterator:
        return dict(enumerate(from_iterator(iterator, format.value)))


def _resumed(format: Format, path: str, steps: int) -> dict[int, Any]:
    """As a stream, continued by another iterator after some records and errors."""
    dataset = format.stream(path)
    before, after = iter(dataset), iter(dataset)
    found = []
    for _ in range(steps):
        try:
            found.append(format.value(next(before)))
        except Exception as error:
            found.append(refused(error))
    after.set_state(before.get_state())
    return dict(enumerate([*found, *from_iterator(after, format.value)]))


def _differences(view: str, views: Mapping[str, Mapping[int, Any]]) -> Iterator[str]:
    """One truth: however a file is read, a record is the same, and so is which of them cannot be read."""
    found, first = views[view], views["stream" if view == "resumed" else "single"] if view != "stream" else {}
    if view in ("batched", "stacked"):
        for key, outcome in found.items():
            if not isinstance(outcome, Refused) and outcome != first[key]:
                yield f"record {key} is {shown(outcome)}, and by itself {shown(first[key])}"
        failed = {id(outcome) for key, outcome in found.items() if isinstance(first[key], Refused)}
        for key, outcome in found.items():
            if isinstance(outcome, Refused) and id(outcome) not in failed:
                yield f"a batch with record {key} cannot be read, its records can: {shown(outcome)}"
    elif view in ("dataset", "resumed"):
        one, other = (
            ["refused" if isinstance(outcome, Refused) else outcome for outcome in outcomes.values()]
            for outcomes in (found, first)
        )
        if one != other:
            yield first_difference(one, other)
