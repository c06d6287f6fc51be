"""What the library itself writes: indexes in the cache folder, and checkpoints."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

from fuzzing.formats import Damaged, Format, Made
from fuzzing.mutations import EXTREMES, MUTATIONS
from fuzzing.outcomes import Refused, first_difference
from grain.checkpoint import CheckpointHandler
from support import pipelines_files
from support.pipelines import NAMES, iter_pipeline

_MOST_STEPS = 500


class Index(Format):
    """The index of a file: all records are right, whatever happened to it.

    It knows of which version of which file it is, so that it is damaged where it was made: a file that is kept is the
    one that has the index.
    """

    def __init__(self, plain: Format) -> None:
        self.plain = plain
        self.name, self.suffix, self.value = f"{plain.name}.index", plain.suffix, plain.value

    def made(self, rng: Random) -> Made:
        return self.plain.made(rng)

    def mutated(self, rng: Random, made: Made, other: Made) -> tuple[str, bytes]:
        return "index", made.content

    def placed(self, folder: Path, name: str, damaged: Damaged) -> str:
        path, rng = self.plain.placed(folder, name, damaged), Random(f"{self.name}-{name}")
        self.plain.source(path)
        (index,) = (found for found in folder.iterdir() if str(found) != path)
        sound = index.read_bytes()
        index.write_bytes(MUTATIONS[rng.choice(list(MUTATIONS))](rng, sound, sound[::-1]))
        return path

    def source(self, path: str) -> Any:
        return self.plain.source(path)

    def problems(self, damaged: Damaged, outcomes: Mapping[int, Any], is_stream: bool) -> Iterator[str]:
        found = list(outcomes.values())
        if found != list(damaged.made.records):
            yield first_difference(found, damaged.made.records)


class Checkpoint(Format):
    """A state: restoring it raises, or the iterator continues, and ends.

    How many elements or bytes there are is known only when they are read: that a state is beyond them, or points into
    the middle of a record, may be said then.
    """

    name, suffix, can_resume = "checkpoint", ".json", False
    excluded = ("mp_prefetch", "custom", "operation on", "array records")
    """Pipelines with processes, with code of users in their states, and with threads that take much memory."""

    def made(self, rng: Random) -> Made:
        name = rng.choice([name for name in NAMES if not any(word in name for word in self.excluded)])
        iterator = iter(iter_pipeline(name, "inline"))
        for _ in range(rng.choice((0, 1, 2, 3, 5, 8))):
            next(iterator, None)
        return Made(json.dumps(iterator.get_state(), indent=4).encode(), [], beside=name)

    def placed(self, folder: Path, name: str, damaged: Damaged) -> str:
        (folder / "pipeline").write_text(damaged.made.beside)
        (folder / "process_0-of-1.json").write_bytes(damaged.content)
        return str(folder)

    def stream(self, path: str) -> Any:
        return Restored(path)

    def is_named(self, outcome: Refused, path: str, view: str) -> bool:
        is_of_data = outcome.names(str(pipelines_files.folder()), has_place=False)
        return outcome.names(path, has_place=False) or is_of_data or outcome.kind == "StateMismatchError"

    def problems(self, damaged: Damaged, outcomes: Mapping[int, Any], is_stream: bool) -> Iterator[str]:
        return iter(())

    def mutated(self, rng: Random, made: Made, other: Made) -> tuple[str, bytes]:
        if rng.random() < 0.6:
            state = json.loads(made.content)
            return "value", json.dumps(_with_another_value(rng, state, json.loads(other.content)), indent=4).encode()
        return super().mutated(rng, made, other)


def _with_another_value(rng: Random, state: Any, other: Any) -> Any:
    """A state with one value replaced, removed, or taken from elsewhere."""
    if isinstance(state, dict) and state and rng.random() < 0.85:
        key = rng.choice(list(state))
        if rng.random() < 0.1:
            return {name: value for name, value in state.items() if name != key}
        return {**state, key: _with_another_value(rng, state[key], other)}
    if isinstance(state, list) and state and rng.random() < 0.8:
        place = rng.randrange(len(state))
        return [*state[:place], _with_another_value(rng, state[place], other), *state[place + 1 :]][
            rng.randint(0, 1) * -1 :
        ]
    if isinstance(state, int) and rng.random() < 0.4:
        return state + rng.choice((-1, 1, 2, 7, 1000))
    return rng.choice((*EXTREMES, 10**30, 0.5, -0.0, 1e308, "x", "", None, True, [], {}, [1], {"a": 1}, other))


class Restored:
    """The rest of a pipeline after a checkpoint: the first step restores it."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def __iter__(self) -> Any:
        return self._rest()

    def _rest(self) -> Iterator[Any]:
        iterator = iter(iter_pipeline((self._path / "pipeline").read_text(), "inline"))
        CheckpointHandler().restore(self._path, iterator)
        yield "restored"
        for _ in range(_MOST_STEPS):
            try:
                yield next(iterator)
            except StopIteration:
                return
