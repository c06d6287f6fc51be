"""`grain.experimental`: operators as classes, options and tools.

What has a method on the datasets is the same under both names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from grain.api.dataset import apply_transformations, get_element_spec
from grain.api.dataset_iterator import (
    DatasetIterator,
    StreamIterator,
    get_mixture_counts,
    get_next_index,
    set_next_index,
)
from grain.api.iter_dataset import NodeIterDataset, T
from grain.api.map_dataset import NodeMapDataset
from grain.elements.padding import batch_and_pad
from grain.graph.node import Context, WorkerContext
from grain.graph.specs import ShapeDtypeStruct, ShapeDtypeStructProtocol
from grain.indices.permutation import index_shuffle
from grain.indices.rng import RngPool
from grain.observe.packing_statistics import PackingStatistics
from grain.ops.batching import rebatch_node
from grain.ops.caching import Cache
from grain.ops.configuring import WithOptions, thread_prefetch_node
from grain.ops.custom import iter_node_of, map_node_of
from grain.ops.device_put import device_put_node
from grain.ops.flattening import flat_map_node
from grain.ops.interleaving import interleave_node
from grain.ops.repeating import iter_repeat_node
from grain.ops.shuffling import window_shuffle_node
from grain.ops.slicing import limit_node
from grain.ops.worker_parts import multithread_prefetch_node
from grain.ops.zipping import iter_zip_node, map_zip_node
from grain.options import DatasetOptions, ExecutionTrackingMode
from grain.public_names import found_in
from grain.streams.custom_stream import CustomStream
from grain.streams.prefetching import PrefetchStream
from grain.streams.stream import OperatorStream
from grain.transforms import FlatMap as FlatMapTransform
from grain.transforms import MapWithIndex as MapWithIndexTransform

__all__ = [
    "CacheIterDataset",
    "DatasetOptions",
    "ExecutionTrackingMode",
    "FlatMapIterDataset",
    "FlatMapMapDataset",
    "FlatMapTransform",
    "InterleaveIterDataset",
    "LimitIterDataset",
    "MapWithIndexTransform",
    "PackingStatistics",
    "RebatchIterDataset",
    "RepeatIterDataset",
    "RngPool",
    "ShapeDtypeStruct",
    "ShapeDtypeStructProtocol",
    "ThreadPrefetchDatasetIterator",
    "ThreadPrefetchIterDataset",
    "WindowShuffleIterDataset",
    "WindowShuffleMapDataset",
    "WithOptionsIterDataset",
    "ZipIterDataset",
    "ZipMapDataset",
    "apply_transformations",
    "batch_and_pad",
    "device_put",
    "get_element_spec",
    "get_mixture_counts",
    "get_next_index",
    "index_shuffle",
    "multithread_prefetch",
    "set_next_index",
]
# What not every program needs, and `import grain` alone need not wait for.
FOUND_LATER = found_in(
    {
        "grain.api.checking": ["assert_equal_output_after_checkpoint"],
        "grain.api.elastic": ["ElasticIterator"],
        "grain.api.tuning": ["PerformanceConfig", "pick_performance_config"],
        "grain.api.file_datasets": [
            "GeneratorIterDataset",
            "JsonLinesIterDataset",
            "ParquetIterDataset",
            "TFRecordIterDataset",
            "WebDatasetIterDataset",
        ],
        "grain.api.packing_datasets": [
            "BOSHandling",
            "BestFitPackIterDataset",
            "ConcatThenSplitIterDataset",
            "FirstFitPackIterDataset",
            "PackAndBatchOperation",
        ],
    }
)
if TYPE_CHECKING:
    from grain.api.checking import assert_equal_output_after_checkpoint
    from grain.api.elastic import ElasticIterator
    from grain.api.file_datasets import (
        GeneratorIterDataset,
        JsonLinesIterDataset,
        ParquetIterDataset,
        TFRecordIterDataset,
        WebDatasetIterDataset,
    )
    from grain.api.packing_datasets import (
        BestFitPackIterDataset,
        BOSHandling,
        ConcatThenSplitIterDataset,
        FirstFitPackIterDataset,
        PackAndBatchOperation,
    )
    from grain.api.tuning import PerformanceConfig, pick_performance_config

    __all__ += ["GeneratorIterDataset", "JsonLinesIterDataset", "ParquetIterDataset", "TFRecordIterDataset"]
    __all__ += ["BOSHandling", "BestFitPackIterDataset", "ConcatThenSplitIterDataset", "FirstFitPackIterDataset"]
    __all__ += ["ElasticIterator", "PackAndBatchOperation", "PerformanceConfig", "WebDatasetIterDataset"]
    __all__ += ["assert_equal_output_after_checkpoint", "pick_performance_config"]

    from grain.api.dataset import Dataset
    from grain.api.iter_dataset import IterDataset
    from grain.api.map_dataset import MapDataset
    from grain.api.signatures import FlatMapOf, Resumable, S
    from grain.sources.random_access import RandomAccessDataSource


class WithOptionsIterDataset(NodeIterDataset[T]):
    """`parent.with_options(options)`."""

    def __init__(self, parent: Dataset[T], options: DatasetOptions) -> None:
        super().__init__(WithOptions(iter_node_of(parent), options))


class LimitIterDataset(NodeIterDataset[T]):
    """`parent.limit(count)`."""

    def __init__(self, parent: Dataset[T], count: int) -> None:
        super().__init__(limit_node(iter_node_of(parent), count))


class RepeatIterDataset(NodeIterDataset[T]):
    """`parent.repeat(num_epochs)`."""

    def __init__(self, parent: Dataset[T], num_epochs: int | None = None) -> None:
        super().__init__(iter_repeat_node(iter_node_of(parent), num_epochs))


class CacheIterDataset(NodeIterDataset[T]):
    """`parent.cache()`."""

    def __init__(self, parent: Dataset[T]) -> None:
        super().__init__(Cache(iter_node_of(parent)))


class RebatchIterDataset(NodeIterDataset[T]):
    """`parent.rebatch(batch_size, drop_remainder=drop_remainder)`."""

    def __init__(self, parent: Dataset[T], batch_size: int, drop_remainder: bool = False) -> None:
        super().__init__(rebatch_node(iter_node_of(parent), batch_size, drop_remainder))


class WindowShuffleIterDataset(NodeIterDataset[T]):
    """`parent.window_shuffle(window_size, seed=seed)`."""

    def __init__(self, parent: Dataset[T], *, window_size: int, seed: int) -> None:
        super().__init__(window_shuffle_node(iter_node_of(parent), window_size, seed))  # type: ignore[arg-type]


class FlatMapIterDataset(NodeIterDataset[T]):
    """`parent.flat_map(transform)`."""

    def __init__(
        self, parent: Dataset[S], transform: FlatMapOf[S, T] | Callable[[S], RandomAccessDataSource[T]]
    ) -> None:
        super().__init__(flat_map_node(iter_node_of(parent), transform))  # type: ignore[arg-type]


class ZipIterDataset(NodeIterDataset[tuple[T, ...]]):
    """`IterDataset.zip(parents, strict=strict)`."""

    def __init__(self, parents: Sequence[Dataset[T]], *, strict: bool = True) -> None:
        super().__init__(iter_zip_node([iter_node_of(parent) for parent in parents], strict))


class InterleaveIterDataset(NodeIterDataset[T]):
    """`IterDataset.interleave(datasets, cycle_length=cycle_length)`."""

    def __init__(
        self,
        datasets: RandomAccessDataSource[Dataset[T] | None],
        *,
        cycle_length: int,
        num_make_iter_threads: int = 1,
        make_iter_buffer_size: int = 1,
        iter_buffer_size: int = 1,
    ) -> None:
        super().__init__(
            interleave_node(datasets, cycle_length, num_make_iter_threads, make_iter_buffer_size, iter_buffer_size)
        )


class ThreadPrefetchIterDataset(NodeIterDataset[T]):
    """`parent.thread_prefetch(prefetch_buffer_size)`."""

    def __init__(self, parent: Dataset[T], *, prefetch_buffer_size: int) -> None:
        super().__init__(thread_prefetch_node(iter_node_of(parent), prefetch_buffer_size))


class ThreadPrefetchDatasetIterator(StreamIterator[T]):
    """An iterator that a thread reads ahead; anything with `__next__`, `get_state` and `set_state` will do.

    >>> import grain
    >>> iterator = ThreadPrefetchDatasetIterator(iter(grain.MapDataset.range(3)), prefetch_buffer_size=2)
    >>> next(iterator), iterator.get_state(), list(iterator)
    (0, {'next_index': 1}, [1, 2])
    """

    def __init__(self, parent: Resumable[T], prefetch_buffer_size: int) -> None:
        operator = thread_prefetch_node(None, prefetch_buffer_size)
        self._is_native = isinstance(parent, DatasetIterator)
        context = parent._ctx if isinstance(parent, DatasetIterator) else Context(DatasetOptions(), WorkerContext())
        start = parent.get_state()

        def rewound() -> Any:
            parent.set_state(start)
            return parent

        below = CustomStream(operator, parent, context, rewound)
        if prefetch_buffer_size:
            super().__init__(PrefetchStream(operator, context, prefetch_buffer_size, lambda: below))
        else:
            super().__init__(OperatorStream(operator, (below,), context))

    def _set_next_index(self, index: int) -> None:
        if not self._is_native:
            raise ValueError("`set_next_index` only supported for native dataset iterators.")
        super()._set_next_index(index)


class FlatMapMapDataset(NodeMapDataset[T]):
    """`parent.flat_map(transform)`."""

    def __init__(self, parent: MapDataset[S], transform: FlatMapOf[S, T | None]) -> None:
        super().__init__(flat_map_node(map_node_of(parent), transform))  # type: ignore[arg-type]


class WindowShuffleMapDataset(NodeMapDataset[T]):
    """`parent.window_shuffle(window_size, seed=seed)`."""

    def __init__(self, parent: MapDataset[T], *, window_size: int, seed: int) -> None:
        super().__init__(window_shuffle_node(map_node_of(parent), window_size, seed))  # type: ignore[arg-type]


class ZipMapDataset(NodeMapDataset[tuple[T, ...]]):
    """`MapDataset.zip(parents)`."""

    def __init__(self, parents: Sequence[MapDataset[T]]) -> None:
        super().__init__(map_zip_node([map_node_of(parent) for parent in parents]))


def multithread_prefetch(
    ds: IterDataset[S], num_threads: int, buffer_size: int, sequential_slice: bool = False
) -> IterDataset[S]:
    """`ds` divided between `num_threads` threads, each of which has up to `buffer_size` elements ready.

    With `sequential_slice` a thread has a block of consecutive records, and every num_threads-th one otherwise.
    Elements come in the order of `mp_prefetch` with as many workers.

    >>> import grain
    >>> stream = grain.MapDataset.range(10).to_iter_dataset().batch(2)
    >>> list(multithread_prefetch(stream, num_threads=2, buffer_size=1))
    [array([0, 2]), array([1, 3]), array([4, 6]), array([5, 7]), array([8]), array([9])]
    """
    if num_threads == 0:
        return ds
    return NodeIterDataset(multithread_prefetch_node(iter_node_of(ds), num_threads, buffer_size, sequential_slice))


def device_put(
    ds: Dataset[object], device: object, *, cpu_buffer_size: int = 4, device_buffer_size: int = 2
) -> IterDataset[Any]:
    """`ds.device_put(device)`: elements on a JAX device or sharding; `ds` may be a MapDataset too.

    Up to `cpu_buffer_size` of them are ready before the transfer, and `device_buffer_size` after it.
    """
    return NodeIterDataset(device_put_node(iter_node_of(ds), device, cpu_buffer_size, device_buffer_size))
