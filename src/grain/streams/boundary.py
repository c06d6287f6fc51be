"""The stream of a random access plan."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from grain.errors import StateIndexError
from grain.graph.node import Context, required
from grain.graph.positions import ANCHOR, saved_count
from grain.plan.kinds import Boundary
from grain.runtime.reader import reader_of
from grain.streams.stream import Change, Stream


class BoundaryStream(Stream):
    """A stream of the elements of a random access plan."""

    def __init__(self, boundary: Boundary, context: Context) -> None:
        super().__init__(boundary.operator, context)
        self.is_atomic = True
        self._reading: Any = None
        """The generator of the elements; there may be others that come first."""
        self._reader = reader_of(boundary, context)
        self._length = boundary.length
        self.state: Any = boundary.operator.fresh()

    def _run(self) -> Iterator[Any]:
        elements = self._reading = self.operator.run(self.state, self._reader)
        return elements

    def save(self) -> Any:
        return {"next_index": self.state.next_index} if self._to_pass is None else super().save()

    def _saved(self) -> Any:
        return {"next_index": self.state.next_index}

    def restore(self, saved: Any) -> None:
        if isinstance(saved, dict) and ANCHOR in saved:
            super().restore(saved)
        else:
            self._go(self._checked(saved))

    def _loaded(self, saved: Any) -> list[Change]:
        index = self._checked(saved)
        return [lambda: self._go(index)]

    def jump(self, saved: Any) -> Any:
        index = saved.get("next_index") if type(saved) is dict else None
        elements, state = self._elements, self.state
        if elements is self._reading and elements.gi_suspended and type(index) is int and 0 <= index <= self._length:
            if index != state.next_index:
                state.next_index = index
                elements.send(index)  # making a new generator would cost more
            return {"next_index": index}
        return None

    def _checked(self, saved: Any) -> int:
        if not isinstance(saved, dict) or "next_index" not in saved:
            required(saved, ("next_index",), self.operator)
        index = saved["next_index"]
        if type(index) is not int:
            index = saved_count("next_index", index, sys.maxsize)
        if not 0 <= index <= self._length:
            raise StateIndexError(
                f"Checkpoint `next_index` {index} is out of range for dataset of length {self._length}. "
                "Restore it with the pipeline that saved it."
            )
        return int(index)

    def _go(self, index: int) -> None:
        self.state.next_index, self._elements, self._to_pass = index, None, None

    def _reset(self, keeps_caches: bool) -> None:
        self._go(0)

    def get_next_index(self) -> int:
        return int(self.state.next_index)

    def set_next_index(self, index: int) -> None:
        self.restore({"next_index": index})

    @property
    def element_index(self) -> int | None:
        return int(self.state.next_index) - 1

    def adopt_context(self, context: Context) -> None:
        self.context = self._reader.context = context

    def start_prefetch(self) -> None:
        self._reader.start_prefetch(self.state.next_index)

    def close(self) -> None:
        super().close()
        self._reader.close()
