"""`DatasetIterator`: the position in a pipeline, which can be saved and restored."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Generic, TypeVar

from grain.files.state_files import Checkpointable
from grain.graph.node import Context, Node, WorkerContext
from grain.observe.packing_statistics import PackingStatistics
from grain.ops.mixing import mixture_counts
from grain.options import DatasetOptions
from grain.streams.cursor import Closable, SharedCursor
from grain.streams.opening import open_stream
from grain.streams.stream import Stream

T = TypeVar("T", covariant=True)
Self = TypeVar("Self", bound="DatasetIterator[Any]")


class DatasetIterator(Checkpointable, Closable, abc.ABC, Generic[T]):
    """Goes through a dataset; its position is a small JSON value.

    Derive from it to write an iterator of your own: call `super().__init__(parent_iterator)` and define `__next__`,
    `get_state` and `set_state`.

    >>> import grain
    >>> iterator = iter(grain.MapDataset.range(5))
    >>> next(iterator), next(iterator)
    (0, 1)
    >>> state = iterator.get_state()
    >>> state
    {'next_index': 2}
    >>> again = iter(grain.MapDataset.range(5))
    >>> again.set_state(state)
    >>> list(again)
    [2, 3, 4]
    """

    _parents: tuple[Any, ...] = ()
    _grain_context: Context | None = None

    def __init__(self, parents: DatasetIterator[object] | Sequence[DatasetIterator[object]] = ()) -> None:
        self._parents = tuple(parents) if isinstance(parents, Sequence) else (parents,)

    @property
    def _parent(self) -> Any:
        (parent,) = self._parents
        return parent

    @property
    def _ctx(self) -> Context:
        context = self._grain_context
        if context is None:
            options = DatasetOptions()
            for parent in self._parents:
                options = options.merge(parent._ctx.dataset_options)
            context = Context(options, WorkerContext())
            self._adopt_context(context)
        return context

    @property
    def packing_statistics(self) -> PackingStatistics:
        """How full the rows are that the pipeline's packing operators have made."""
        return PackingStatistics(self._ctx.counters)

    def _share_context(self, context: Context) -> None:
        """Take part in a larger pipeline: what is set there holds here too."""
        context.dataset_options = context.dataset_options.merge(self._ctx.dataset_options)
        self._adopt_context(context)

    def _adopt_context(self, context: Context) -> None:
        self._grain_context = context
        for parent in self._parents:
            if isinstance(parent, DatasetIterator):
                parent._adopt_context(context)

    @property
    def _stats(self) -> Measuring:
        return MEASURING

    def __iter__(self: Self) -> Self:
        return self

    @abc.abstractmethod
    def __next__(self) -> T:
        """The next element."""

    @abc.abstractmethod
    def get_state(self) -> dict[str, Any]:
        """The position, as a value that `json` can write."""

    @abc.abstractmethod
    def set_state(self, state: dict[str, Any]) -> None:
        """Go to a position saved from an equal pipeline."""

    def start_prefetch(self) -> None:
        """Begin to read ahead, where the pipeline does so, before the first element is asked for."""
        for parent in self._parents:
            parent.start_prefetch()

    def close(self) -> None:
        """Give back threads, processes and memory. Closing twice is fine; asking for an element then is an error."""
        self._closed = True
        for parent in self._parents:
            parent.close()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _get_next_index(self) -> int:
        raise NotImplementedError(f"get_next_index is not supported for {type(self).__name__}.")

    def _set_next_index(self, index: int) -> None:
        raise NotImplementedError(f"set_next_index is not supported for {type(self).__name__}.")


class Measuring:
    """What users' own datasets may call to have their work measured."""

    @contextlib.contextmanager
    def record_self_time(self, *args: Any, **kwargs: Any) -> Iterator[None]:
        """Time what is done inside."""
        yield

    def record_output_spec(self, element: Any) -> Any:
        """Note what elements look like; returns the element."""
        return element


MEASURING = Measuring()


class StreamIterator(SharedCursor[T], DatasetIterator[T]):
    """An iterator over a stream."""

    def __init__(self, stream: Stream) -> None:
        DatasetIterator.__init__(self)
        SharedCursor.__init__(self, stream)
        self._grain_context = stream.context

    def _adopt_context(self, context: Context) -> None:
        super()._adopt_context(context)
        self._stream.adopt_context(context)

    def _get_next_index(self) -> int:
        def get() -> int:
            self._track.return_if_lost()
            return self._stream.get_next_index()

        return self._alone(get)

    def _set_next_index(self, index: int) -> None:
        def go() -> None:
            self._stream.set_next_index(index)
            self._track.restored(self._stream.mark())
            self._reopen()

        self._alone(go)

    def __str__(self) -> str:
        return str(self._stream.operator.iterator_name)


class NodeIterator(StreamIterator[T]):
    """The iterator of every pipeline that is not a user's own class."""

    def __init__(self, node: Node) -> None:
        super().__init__(open_stream(node))


def get_next_index(iterator: DatasetIterator[Any]) -> int:
    """The number of elements before the next one, where the pipeline knows it.

    >>> import grain
    >>> iterator = iter(grain.MapDataset.range(10).batch(2))
    >>> set_next_index(iterator, 3)
    >>> get_next_index(iterator), next(iterator)
    (3, array([6, 7]))
    """
    return iterator._get_next_index()


def set_next_index(iterator: DatasetIterator[Any], index: int) -> None:
    """Go to an element by its number, where the pipeline can."""
    iterator._set_next_index(index)


def get_mixture_counts(iterator: DatasetIterator[Any]) -> list[Any]:
    """What mixtures that count have taken of each of their datasets up to the last element; one entry for each mixture.

    Where a pipeline runs in several workers, each of them has mixtures of its own. Before operators such as packing,
    which read elements again when they are resumed, counts are those of the place from which they do so.

    >>> import grain
    >>> streams = {"a": grain.MapDataset.source(["to", "be", "or"]), "b": grain.MapDataset.source(["not", "that"])}
    >>> streams = {name: dataset.to_iter_dataset() for name, dataset in streams.items()}
    >>> iterator = iter(grain.IterDataset.mix(streams, cost_fn=len))
    >>> next(iterator), next(iterator), next(iterator)
    ('to', 'not', 'be')
    >>> get_mixture_counts(iterator)[0]["a"]
    {'elements': 2, 'cost': 4, 'ended': False}
    """
    return mixture_counts(iterator.get_state())
