"""The states of a DataLoader: which record each worker has seen last, and of what they are the state.

They are written as Grain writes them, byte for byte. A loader with a flat map has the state of its pipeline instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grain.errors import StateMismatchError
from grain.fields import Frozen
from grain.graph.node import IterNode
from grain.graph.positions import anchored, split_anchored
from grain.ops.interleaving import Position

_VERSION = 2
_PASSED = "passed_since_last_seen"
"""Only right after an error: the elements that each worker has given since, and errors after the last of them."""
_ALL = "all"
"""In its place: how many elements all workers together have given."""
_ADVICE = "\nGrain uses `repr({0})` to validate the {1}, so you may need to implement a custom `__repr__`."


class Layout(Frozen):
    """How a loader's records are divided, and what its states are checked by."""

    shard_index: int
    shard_count: int
    worker_count: int
    sampler: str
    data_source: str
    operator: IterNode[Any]
    """Of the pipeline."""
    accepts_source: Callable[[str], bool]
    """Whether another description of the data source is right too."""

    def written(self, saved: Any) -> dict[str, Any]:
        """The state of the pipeline as one of the loader."""
        since_all: list[int] = []
        position = Position.of_workers(0, [saved])
        if self.worker_count:
            saved, *since_all = split_anchored(saved)
            start = Position.of_workers(0, [None] * self.worker_count)
            position = start if saved is None else Position.of_saved(saved, self.operator)
        workers = len(position.states)
        seen = [split_anchored(state) for state in position.states]
        written = {
            "version": _VERSION,
            "last_seen_indices": {
                str(worker): (worker + (count - 1) * workers) * self.shard_count + self.shard_index
                for worker, count in enumerate(0 if state is None else state["next_index"] for state, *_ in seen)
            },
            "last_worker_index": position.turn - 1,
            "worker_count": self.worker_count,
            "sampler": self.sampler,
            "data_source": self.data_source,
        }
        passed = {str(worker): since for worker, (_, *since) in enumerate(seen) if any(since)}
        if any(since_all):
            passed[_ALL] = since_all
        return {**written, _PASSED: passed} if passed else written

    def read(self, state: dict[str, Any], validate: bool = True) -> Any:
        """A state of the loader as one of the pipeline."""
        try:
            if validate:
                self._validate(state)
            last_seen = {int(worker): index for worker, index in state["last_seen_indices"].items()}
            workers = max(self.worker_count, 1)
            states = [{"next_index": self._next(last_seen[worker], worker, workers)} for worker in range(workers)]
            passed = dict(state.get(_PASSED, {}))
            since_all = passed.pop(_ALL, None)
            for worker, since in passed.items():
                states[int(worker)] = anchored(states[int(worker)], *since)
            turn = (state["last_worker_index"] + 1) % workers
        except (KeyError, TypeError, AttributeError) as error:
            raise StateMismatchError(
                f"The state is not one of a DataLoader with {self.worker_count} workers ({error!r}): {state!r}. "
                "Restore it with the loader that saved it."
            ) from None
        saved = Position.of_workers(turn, states).saved() if self.worker_count else states[0]
        return saved if since_all is None else anchored(saved, *since_all)

    def _next(self, last_seen: int, worker: int, workers: int) -> int:
        """How many records a worker has seen."""
        stride = workers * self.shard_count
        return (last_seen + stride - self.shard_index - worker * self.shard_count) // stride

    def _validate(self, state: dict[str, Any]) -> None:
        version = state.get("version", _VERSION)
        if version != _VERSION:
            raise ValueError(f"The state is of version {version}; this release reads version {_VERSION}.")
        if state["worker_count"] != self.worker_count:
            raise ValueError(
                "Worker count in checkpoint does not match dataloader worker count.\n"
                f"worker count in checkpoint: {state['worker_count']}\n"
                f"worker count in dataloader: {self.worker_count}"
            )
        if state["sampler"] != self.sampler:
            raise ValueError(
                "Sampler in checkpoint does not match dataloader sampler.\n"
                f"sampler in checkpoint: {state['sampler']}\n"
                f"sampler in dataloader: {self.sampler}{_ADVICE.format('sampler', 'sampler')}"
            )
        if state["data_source"] != self.data_source and not self.accepts_source(state["data_source"]):
            raise ValueError(
                "DataSource in checkpoint does not match datasource in dataloader.\n"
                f"data source in checkpoint: {state['data_source']}\n"
                f"data source in dataloader: {self.data_source}{_ADVICE.format('data_source', 'source')}"
            )


def encoded(state: dict[str, Any]) -> bytes:
    """A state as it is written to files."""
    import json  # only now: `import grain` is to be fast

    return json.dumps(state, indent=4).encode()


def decoded(state: bytes) -> dict[str, Any]:
    """What `encoded` was given."""
    if not isinstance(state, bytes | bytearray):
        raise TypeError(f"The state of a DataLoader is bytes, as `get_state` returns them; got {type(state).__name__}.")
    import json

    try:
        found = json.loads(state.decode())
    except ValueError as error:
        raise ValueError(
            f"The state is not JSON ({error}): was it cut short? It has {len(state)} bytes and ends with "
            f"{bytes(state[-40:])!r}."
        ) from None
    if not isinstance(found, dict):
        raise StateMismatchError(f"The state of a DataLoader is a JSON object, got {found!r}.")
    return found
