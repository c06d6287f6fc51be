"""The stream of an interleave: datasets are opened while it runs, some of them before it is their turn."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from grain.graph.node import Context, IterNode
from grain.ops.custom import iter_node_of, node_of
from grain.ops.interleaving import Interleave, Opened
from grain.streams.prefetching import PrefetchStream
from grain.streams.stream import Stream

SLOW_SECONDS = 1e-3
"""An opening that takes longer than this is worth a thread."""
SECONDS_TO_STOP = 1.0


class InterleaveStream(Stream):
    """A stream of datasets that are opened while it runs."""

    operator: Interleave

    def __init__(self, operator: Interleave, context: Context, open_stream: Callable[..., Any]) -> None:
        self._opener = Opener(operator, context, open_stream)
        super().__init__(operator, (), context)

    def _fresh(self) -> Any:
        return self.operator.fresh_with(self._opener)

    def loaded(self, saved: Any) -> list[tuple[Any, Any]]:
        return [(self, self.operator.load_with(self.state, saved))]

    def become(self, state: Any) -> None:
        self._close_streams()
        super().become(state)

    def adopt_context(self, context: Context) -> None:
        super().adopt_context(context)
        self._opener.context = context
        for opened in self.operator.streams(self.state):
            opened.adopt_context(context)

    def get_next_index(self) -> int:
        return self._only_stream("get").get_next_index()  # type: ignore[no-any-return]

    def set_next_index(self, index: int) -> None:
        self._only_stream("set").set_next_index(index)

    def _only_stream(self, verb: str) -> Any:
        if len(self.operator.datasets) != 1:
            raise NotImplementedError(
                f"{verb}_next_index is not supported for InterleaveDatasetIterator with more than one dataset."
            )
        self.save()  # opens it
        return self.operator.streams(self.state)[0]

    def start_prefetch(self) -> None:
        self.save()  # opens them
        self.operator.start(self.state)

    def close(self) -> None:
        super().close()
        self._close_streams()

    def _close_streams(self) -> None:
        self._opener.close()
        for opened in self.operator.streams(self.state):
            opened.close()


class Opener:
    """Opens the datasets of an interleave. It does not know the stream that it works for, which would be a cycle.

    The next ones are opened ahead, by threads, once an opening has been slow; those that are to start early are opened
    at once.
    """

    def __init__(self, operator: Interleave, context: Context, open_stream: Callable[..., Any]) -> None:
        self.context = context
        self._operator, self._open_stream = operator, open_stream
        self._is_slow = False
        self._ahead: dict[int, Opening] = {}

    def __call__(self, position: int) -> Opened | None:
        """Dataset number `position`, which is next: at its beginning; None where it is missing."""
        opening = self._ahead.pop(position, None)
        if opening is None:
            began = time.perf_counter()
            opened = self.opened(position)
            self._is_slow = time.perf_counter() - began > SLOW_SECONDS
        self._open_ahead(position + 1)
        return opened if opening is None else opening.result()

    def opened(self, position: int) -> Opened | None:
        """As a call, but nothing is opened ahead."""
        dataset = self._operator.datasets[position]
        if dataset is None:
            return None
        node = iter_node_of(dataset)
        return Opened(self._open_stream(node, self.context), node, node_of(dataset).is_random_access)

    def prefetched(self, stream: Any, node: IterNode) -> PrefetchStream:
        """A stream of `node`, read ahead from now on."""
        context, size, open_stream = self.context, self._operator.iter_buffer_size, self._open_stream
        prefetched = PrefetchStream(node, stream, context, size, lambda: open_stream(node, context))
        prefetched.start_prefetch()
        return prefetched

    def _open_ahead(self, first: int) -> None:
        datasets = self._operator.datasets
        for position in range(first, min(first + self._operator.make_iter_buffer_size, len(datasets))):
            if position in self._ahead:
                continue
            if isinstance(datasets, Sequence) and iter_node_of(datasets[position]).starts_early:
                self._ahead[position] = Opening(self.opened, position)
                self._ahead[position].run()
            elif self._is_slow and self._busy_count() < self._operator.num_make_iter_threads:
                self._ahead[position] = Opening(self.opened, position)
                self._ahead[position].start()

    def _busy_count(self) -> int:
        return sum(opening.is_alive() for opening in self._ahead.values())

    def close(self) -> None:
        """Close what was opened ahead and has not been used."""
        while self._ahead:
            self._ahead.popitem()[1].close()


class Opening(threading.Thread):
    """A dataset that is opened ahead."""

    def __init__(self, open_at: Callable[[int], Opened | None], position: int) -> None:
        super().__init__(name=f"grain-interleave-open-{position}", daemon=True)
        self._open_at, self._position = open_at, position
        self._opened: Opened | None = None
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._is_closed = self._is_done = False

    def run(self) -> None:
        """Open it and let it begin."""
        try:
            opened = self._open_at(self._position)
            if opened is not None:
                opened.stream.start_prefetch()
        except KeyboardInterrupt:  # this is no thread, then, and it can be done again
            raise
        except BaseException as error:
            self._error, self._is_done = error, True
            return
        with self._lock:
            self._opened, self._is_done = opened, True
            del self._open_at  # it knows the opener, which has this: they would keep each other alive
            is_closed = self._is_closed
        if is_closed and opened is not None:
            opened.stream.close()

    def result(self) -> Opened | None:
        """What was opened, when that is done; an error is raised here."""
        if self.ident is not None:
            self.join()
        if not self._is_done:  # a fork has left the thread behind
            self._lock = threading.Lock()
            self.run()
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None
        return self._opened

    def close(self) -> None:
        """Close it, or let it be closed as soon as it is open."""
        if self.ident is not None:
            self.join(SECONDS_TO_STOP)
        with self._lock:
            self._is_closed, opened = True, self._opened
        if opened is not None:
            opened.stream.close()
