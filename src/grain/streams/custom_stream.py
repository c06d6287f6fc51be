"""The stream of a user's iterator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from grain.graph.node import Context, IterNode, copied
from grain.streams.stream import Change, Stream


class CustomStream(Stream):
    """A user's iterator, which keeps its own state."""

    def __init__(self, operator: IterNode[Any], iterator: Any, context: Context, reopen: Callable[[], Any]) -> None:
        super().__init__(operator, context)
        self.iterator, self._reopen = iterator, reopen
        self._share_context()

    def _share_context(self) -> None:
        if hasattr(self.iterator, "_share_context"):
            self.iterator._share_context(self.context)

    def _run(self) -> Iterator[Any]:
        return self.iterator  # type: ignore[no-any-return]

    def _saved(self) -> Any:
        """What the user's `get_state` says; a copy, because it may be a dict that goes on changing."""
        return copied(self.iterator.get_state())

    def _loaded(self, saved: Any) -> list[Change]:
        return [lambda: self._set_state(saved)]  # users' iterators load their states themselves, last of all

    def _set_state(self, saved: Any) -> None:
        self.iterator.set_state(copied(saved))
        self._elements = self._to_pass = None

    def _reset(self, keeps_caches: bool) -> None:
        before, self.iterator = self.iterator, self._reopen()
        if self.iterator is not before:
            self._share_context()
            if hasattr(before, "close"):
                before.close()

    def get_next_index(self) -> int:
        return self.iterator._get_next_index()  # type: ignore[no-any-return]

    def set_next_index(self, index: int) -> None:
        self.iterator._set_next_index(index)

    def adopt_context(self, context: Context) -> None:
        self.context = context
        if hasattr(self.iterator, "_adopt_context"):
            self.iterator._adopt_context(context)

    def start_prefetch(self) -> None:
        if hasattr(self.iterator, "start_prefetch"):
            self.iterator.start_prefetch()

    def close(self) -> None:
        if hasattr(self.iterator, "close"):
            self.iterator.close()
