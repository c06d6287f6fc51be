"""`DataLoader`: a source, a sampler and operations, run as one pipeline."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, overload

import numpy as np

from grain.api.loader_states import Layout, decoded, encoded
from grain.files.state_files import Checkpointable
from grain.forks import cached_property
from grain.graph.functions import Function
from grain.graph.node import IterNode
from grain.ops.process_prefetch import available_cpus, mp_prefetch_node
from grain.ops.record_metadata import Recorder
from grain.ops.records import DataMap, count_made, count_on_records, method_of, modern, operated
from grain.ops.sampling import sampled
from grain.ops.sourcing import to_iter_dataset_node
from grain.options import MultiprocessingOptions, ReadOptions
from grain.samplers import IndexSampler, Sampler
from grain.sharding import NoSharding, ShardOptions
from grain.streams.cursor import SharedCursor
from grain.streams.opening import open_stream
from grain.transforms import Batch, Transformation

if TYPE_CHECKING:
    from grain.explaining.explanation import Explanation
    from grain.ops.operations import Operation
    from grain.sources.random_access import RandomAccessDataSource

    AnyOperation: TypeAlias = Transformation | Operation | Callable[[Any], Any]

S = TypeVar("S")
T = TypeVar("T", covariant=True)


class DataLoader(Generic[T]):
    """The records that `sampler` chooses from `data_source`, after `operations`, which may be plain functions too.

    Worker w of `worker_count` processes takes every worker_count-th record from the w-th on, and applies all operations
    to those; their elements come in turn. With 0 all is done in this process, with None there is one for each CPU. Each
    has `worker_buffer_size` elements ready. Which records are read is said by `shard_options`, or else by those of the
    sampler; how many threads read ahead, and how far, by `read_options`. `enable_profiling` is handed on in
    `multiprocessing_options`.

    >>> import grain
    >>> loader = grain.DataLoader(
    ...     data_source=["a", "b", "c"],
    ...     sampler=grain.IndexSampler(3, shuffle=True, num_epochs=1, seed=1),
    ...     operations=[str.upper, grain.Batch(2)],
    ... )
    >>> list(loader)
    [array(['B', 'C'], dtype='<U1'), array(['A'], dtype='<U1')]
    """

    @overload
    def __init__(
        self,
        *,
        data_source: RandomAccessDataSource[T],
        sampler: Sampler,
        operations: tuple[()] = (),
        worker_count: int | None = 0,
        worker_buffer_size: int = 1,
        shard_options: ShardOptions | None = None,
        read_options: ReadOptions | None = None,
        enable_profiling: bool = False,
    ) -> None: ...
    @overload
    def __init__(
        self: DataLoader[Any],
        *,
        data_source: RandomAccessDataSource[object],
        sampler: Sampler,
        operations: Sequence[AnyOperation],
        worker_count: int | None = 0,
        worker_buffer_size: int = 1,
        shard_options: ShardOptions | None = None,
        read_options: ReadOptions | None = None,
        enable_profiling: bool = False,
    ) -> None: ...
    def __init__(
        self,
        *,
        data_source: RandomAccessDataSource[Any],
        sampler: Sampler,
        operations: Sequence[AnyOperation] = (),
        worker_count: int | None = 0,
        worker_buffer_size: int = 1,
        shard_options: ShardOptions | None = None,
        read_options: ReadOptions | None = None,
        enable_profiling: bool = False,
    ) -> None:
        if worker_count is not None and worker_count < 0:
            raise ValueError(
                f"Worker count should be greater than or equal zero. Current worker_count is {worker_count}."
            )
        if worker_buffer_size < 0:
            raise ValueError(
                "Worker buffer size must be greater than or equal zero. "
                f"Current worker_buffer_size is {worker_buffer_size}."
            )
        count = available_cpus() if worker_count is None else int(worker_count)
        self._data_source, self._sampler = data_source, sampler
        self._operations = tuple(map(modern, operations))
        self._shard_options = _shard_options_of(sampler) if shard_options is None else shard_options
        self._read_options = read_options or ReadOptions()
        self._multiprocessing_options = MultiprocessingOptions(count, worker_buffer_size, enable_profiling)
        with_metadata = count_on_records(self._operations) > 0
        self._records = sampled(data_source, sampler, self._shard_options, with_metadata)
        self._node = mp_prefetch_node(self._pipeline(), self._multiprocessing_options, None, False)

    def _pipeline(self) -> IterNode[Any]:
        recorder = Recorder(self._sampler)
        stream: IterNode[Any] = to_iter_dataset_node(self._records, self._read_options, allow_nones=True)
        if self._records.with_index:
            stream = DataMap(stream, Function(recorder.record, "map"))
        return operated(stream, self._operations, recorder)

    @property
    def multiprocessing_options(self) -> MultiprocessingOptions:
        """How many workers there are, and how many elements each has ready."""
        return self._multiprocessing_options

    @property
    def _worker_count(self) -> int:
        return self._multiprocessing_options.num_workers or 0

    def __iter__(self) -> DataLoaderIterator[T]:
        return DataLoaderIterator(self)

    def __len__(self) -> int:
        count = self._records.length
        workers = max(self._worker_count, 1)
        made = [count_made(len(range(worker, count, workers)), self._operations) for worker in range(workers)]
        if None in made or count >= sys.maxsize // self._shard_options.shard_count:
            reason = "its operations decide it as they go" if None in made else "it is endless"
            raise TypeError(f"This DataLoader has no length: {reason}.")
        return sum(made)  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        return True  # as an object without a length, which some are

    @cached_property
    def _layout(self) -> Layout | None:
        """How states are written; None where they are those of the pipeline."""
        if any(method_of(operation) == "flat_map" for operation in self._operations):
            return None
        source, shard = self._data_source, self._shard_options
        described = str(type(source)) if isinstance(source, list | tuple | np.ndarray) else repr(source)
        accepts = getattr(source, "_accepts_description", lambda description: False)
        place = shard.shard_index, shard.shard_count, self._worker_count
        return Layout(*place, repr(self._sampler), described, self._node, accepts)

    def explain(self) -> Explanation:
        """What this loader will do: its operators, the plan, where each part runs, what is held back, and the state.

        Print it, or show it in a notebook. Nothing is read and nothing is started.

        >>> import grain
        >>> loader = grain.load(range(10), num_epochs=1, batch_size=2)
        >>> print(*loader.explain().sections[2].lines, sep="\\n")
        up to 16 threads, at most 500 elements ahead: MapDataset.source, sampled
        inline: to_iter_dataset, batch
        """
        from grain.explaining.explanation import explained  # only now: `import grain` is to be fast

        return explained(self._node, self._layout.written if self._layout else lambda state: state)


def _shard_options_of(sampler: Any) -> ShardOptions:
    options = getattr(sampler, "_shard_options", None)
    if not isinstance(options, ShardOptions):
        raise ValueError(
            "No shard options were provided to the DataLoader. Please pass shard options to the DataLoader, "
            f"because {type(sampler).__name__} has none: shard_options=grain.NoSharding() reads all records."
        )
    return options


class DataLoaderIterator(SharedCursor[T], Checkpointable, Iterator[T]):
    """Goes through a DataLoader; its position is a few hundred bytes of JSON.

    It starts at `state`, where that is given; without `validate_state` that may be of another source or sampler.
    """

    _has_bytes_as_state = True

    def __init__(
        self, data_loader: DataLoader[T], state: dict[str, Any] | None = None, validate_state: bool = True
    ) -> None:
        self._data_loader, self._validate_state = data_loader, validate_state
        super().__init__(open_stream(data_loader._node))
        if state is not None:
            self._restore(state)

    def __iter__(self) -> DataLoaderIterator[T]:
        return self

    def get_state(self) -> bytes:
        """The position, for a file."""
        state, layout = super().get_state(), self._data_loader._layout
        return encoded(state if layout is None else layout.written(state))

    def set_state(self, state: bytes) -> None:
        """Go to a position saved from an equal loader; one that does not fit is an error and changes nothing."""
        self._restore(decoded(state))

    def _restore(self, state: dict[str, Any]) -> None:
        layout = self._data_loader._layout
        super().set_state(state if layout is None else layout.read(state, self._validate_state))

    def __enter__(self) -> DataLoaderIterator[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __str__(self) -> str:
        return f"PyGrainDatasetIterator(state={self.get_state().decode()})"


@overload
def load(
    source: RandomAccessDataSource[S],
    *,
    num_epochs: int | None = None,
    shuffle: bool = False,
    seed: int | None = None,
    shard_options: ShardOptions = NoSharding(),
    transformations: tuple[()] = (),
    batch_size: None = None,
    drop_remainder: bool = False,
    worker_count: int | None = 0,
    read_options: ReadOptions | None = None,
) -> DataLoader[S]: ...
@overload
def load(
    source: RandomAccessDataSource[object],
    *,
    num_epochs: int | None = None,
    shuffle: bool = False,
    seed: int | None = None,
    shard_options: ShardOptions = NoSharding(),
    transformations: Sequence[AnyOperation] = (),
    batch_size: int | None = None,
    drop_remainder: bool = False,
    worker_count: int | None = 0,
    read_options: ReadOptions | None = None,
) -> DataLoader[Any]: ...
def load(
    source: RandomAccessDataSource[Any],
    *,
    num_epochs: int | None = None,
    shuffle: bool = False,
    seed: int | None = None,
    shard_options: ShardOptions = NoSharding(),
    transformations: Sequence[AnyOperation] = (),
    batch_size: int | None = None,
    drop_remainder: bool = False,
    worker_count: int | None = 0,
    read_options: ReadOptions | None = None,
) -> DataLoader[Any]:
    """A DataLoader of all records of `source`, shuffled and batched as asked for.

    They come in `num_epochs` epochs (None: endlessly many), with `shuffle` in an order that depends on `seed`, of one
    shard, after `transformations`, and, if there is a `batch_size`, in batches; `drop_remainder` leaves out a last one
    that is not full. `worker_count` and `read_options` are those of a DataLoader.

    >>> import grain
    >>> list(grain.load(range(5), num_epochs=1, shuffle=True, seed=0, batch_size=2))
    [array([0, 4]), array([1, 2]), array([3])]
    """
    sampler = IndexSampler(len(source), shard_options, shuffle, num_epochs, seed)
    operations = [*transformations, *([] if batch_size is None else [Batch(batch_size, drop_remainder)])]
    return DataLoader(
        data_source=source,
        sampler=sampler,
        operations=operations,
        worker_count=worker_count,
        read_options=read_options,
    )
