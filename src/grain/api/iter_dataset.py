"""`IterDataset`: streams."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from grain.api.dataset import Dataset, NodeDataset
from grain.api.dataset_iterator import DatasetIterator, NodeIterator
from grain.api.iter_constructors import IterDatasetMeta
from grain.elements.padding import Padding
from grain.elements.stacking import unstacked
from grain.graph.node import IterNode
from grain.ops.batching import rebatch_node
from grain.ops.caching import Cache
from grain.ops.configuring import WithOptions, thread_prefetch_node
from grain.ops.custom import iter_node_of
from grain.ops.device_put import device_put_node
from grain.ops.flattening import flat_map_node
from grain.ops.process_prefetch import mp_prefetch_node
from grain.ops.repeating import iter_repeat_node
from grain.ops.shuffling import window_shuffle_node
from grain.ops.slicing import limit_node
from grain.options import DatasetOptions, MultiprocessingOptions

if TYPE_CHECKING:
    import numpy as np

    from grain.api.signatures import IterSignatures, S
    from grain.ops.packing import PackingOptions
    from grain.ops.splitting import SplittingOptions
else:
    IterSignatures = Dataset

T = TypeVar("T", covariant=True)


class IterDataset(IterSignatures[T], metaclass=IterDatasetMeta):
    """A stream of elements whose position can be saved.

    Derive from it to write one of your own: call `super().__init__(parent)` and define `__iter__`, which returns a
    `DatasetIterator`.
    """

    _is_random_access = False

    @abc.abstractmethod
    def __iter__(self) -> DatasetIterator[T]:
        """An iterator at the start."""

    def _derived(self, node: Any) -> IterDataset[Any]:
        return NodeIterDataset(node)

    @property
    def _as_node(self) -> IterNode[Any]:
        return iter_node_of(self)  # type: ignore[no-any-return]

    def limit(self, count: int) -> IterDataset[T]:
        """At most `count` elements.

        >>> import grain
        >>> list(grain.MapDataset.range(5).to_iter_dataset().limit(2))
        [0, 1]
        """
        return self._derived(limit_node(self._as_node, count))

    def repeat(self, num_epochs: int | None = None) -> IterDataset[T]:
        """The same elements again, `num_epochs` times or, if it is None, for ever.

        >>> import grain
        >>> list(grain.MapDataset.range(2).to_iter_dataset().repeat(2))
        [0, 1, 0, 1]
        """
        return self._derived(iter_repeat_node(self._as_node, num_epochs))

    def cache(self) -> IterDataset[T]:
        """Keep the elements of the first pass in memory for later ones, in each iterator by itself.

        >>> import grain
        >>> list(grain.MapDataset.range(2).to_iter_dataset().cache().repeat(2))
        [0, 1, 0, 1]
        """
        return self._derived(Cache(self._as_node))

    def rebatch(self, batch_size: int, *, drop_remainder: bool = False) -> IterDataset[T]:
        """Batches of another size, `batch_size`, cut and joined along the first axis.

        With `drop_remainder` a last batch of fewer rows is left out.

        >>> import grain
        >>> list(grain.MapDataset.range(5).batch(2).to_iter_dataset().rebatch(3))
        [array([0, 1, 2]), array([3, 4])]
        """
        return self._derived(rebatch_node(self._as_node, batch_size, drop_remainder))

    def unbatch(self) -> IterDataset[Any]:
        """The rows of batches, one after the other.

        >>> import grain
        >>> list(grain.MapDataset.range(3).batch(2).to_iter_dataset().unbatch().map(int))
        [0, 1, 2]
        """
        return self._derived(flat_map_node(self._as_node, unstacked))

    def bucket_by_length(
        self,
        boundaries: Sequence[int],
        batch_sizes: Sequence[int],
        *,
        length_fn: Callable[[T], int] | None = None,
        padding: Padding | None = None,
        drop_remainder: bool = False,
        max_wait: int = 10_000,
    ) -> IterDataset[Any]:
        """Batches of elements of similar length, padded as `padding` says (`Padding()`: to the longest of the batch).

        Bucket i takes elements of at most the length `boundaries[i]` and makes batches of `batch_sizes[i]` of them; one
        more batch size is for elements that are longer than all boundaries. With `Padding("boundary")` batches have one
        shape for each bucket. Without `length_fn` the length is that of an element's longest array.

        An element waits for at most `max_wait` others: then its bucket is handed out as it is, or left out with
        `drop_remainder`, as those that are not full at the end. That is also about how many elements are read again
        where such a pipeline is resumed.

        >>> import grain, numpy as np
        >>> documents = grain.MapDataset.source([1, 5, 2, 6, 1]).map(np.ones).to_iter_dataset()
        >>> [batch.shape for batch in documents.bucket_by_length([3, 6], [2, 2])]
        [(2, 2), (2, 6), (1, 1)]
        """
        from grain.ops.bucketing import bucket_by_length_node  # only now: `import grain` is to be fast

        return self._derived(
            bucket_by_length_node(
                self._as_node, boundaries, batch_sizes, length_fn, padding or Padding(), drop_remainder, max_wait
            )
        )

    @overload
    def batch_by_cost(
        self, max_cost: float, cost_fn: Callable[[T], float], *, batch_fn: Callable[[Sequence[T]], S]
    ) -> IterDataset[S]: ...
    @overload
    def batch_by_cost(
        self, max_cost: float, cost_fn: Callable[[T], float], *, padding: Padding | None = None
    ) -> IterDataset[Any]: ...
    def batch_by_cost(
        self,
        max_cost: float,
        cost_fn: Callable[[T], float],
        *,
        padding: Padding | None = None,
        batch_fn: Callable[[Sequence[T]], Any] | None = None,
    ) -> IterDataset[Any]:
        """Batches of as many consecutive elements as cost no more than `max_cost` together: so many tokens, say.

        `cost_fn` says what an element costs. Elements are joined by `padding` or by `batch_fn`, or else stacked. A
        batch costs the sum of what its elements cost; with `padding`, which makes all of them as long as the longest,
        the highest cost times their number. Where `padding` goes beyond the longest, `cost_fn` has to count that. An
        element that alone costs more is an error.

        >>> import grain, numpy as np
        >>> documents = grain.MapDataset.source([2, 3, 1, 4]).map(np.ones).to_iter_dataset()
        >>> [batch.shape for batch in documents.batch_by_cost(6, len, padding=grain.Padding())]
        [(2, 3), (1, 1), (1, 4)]
        >>> [len(batch) for batch in documents.batch_by_cost(6, len, batch_fn=np.concatenate)]
        [6, 4]
        """
        from grain.ops.cost_batching import batch_by_cost_node  # only now: `import grain` is to be fast

        return self._derived(batch_by_cost_node(self._as_node, max_cost, cost_fn, padding, batch_fn))

    def window_shuffle(self, window_size: int, *, seed: int) -> IterDataset[T]:
        """Each `window_size` consecutive elements in a random order.

        >>> import grain
        >>> list(grain.MapDataset.range(10).to_iter_dataset().window_shuffle(4, seed=1))
        [0, 3, 2, 1, 6, 5, 7, 4, 9, 8]
        """
        return self._derived(window_shuffle_node(self._as_node, window_size, seed))

    def pack_first_fit(
        self: IterDataset[Mapping[str, Any]], **options: Unpack[PackingOptions]
    ) -> IterDataset[dict[str, Any]]:
        """Documents, which are dicts of arrays, side by side in rows; each goes into the first row with room.

        `length_struct` has the length of rows for each feature; other features are dropped. `num_packing_bins` rows
        are filled at a time, with at most `max_sequences_per_bin` documents each, and come in a random order, made from
        `seed`, if `shuffle_bins` is not False; with `shuffle_bins_group_by_feature`, in the order of the means of their
        distinct values of that feature. Features in `meta_features` get no segment ids and positions. Documents start
        at multiples of `pack_alignment_struct`, and `padding_struct` fills the rest of a row, which is 0 without it;
        both are like `length_struct`. Rows have the types of the first document that is put into them; one with values
        that these cannot hold is an error. (Floats may be rounded to narrower ones.)

        >>> import grain
        >>> documents = grain.MapDataset.source([{"tokens": [i] * n} for i, n in enumerate((3, 4, 2), 1)])
        >>> packed = documents.to_iter_dataset().pack_first_fit(
        ...     length_struct={"tokens": 5}, num_packing_bins=2, shuffle_bins=False
        ... )
        >>> for row in packed:
        ...     print(row["tokens"], row["tokens_segment_ids"], row["tokens_positions"])
        [1 1 1 3 3] [1 1 1 2 2] [0 1 2 0 1]
        [2 2 2 2 0] [1 1 1 1 0] [0 1 2 3 0]
        """
        from grain.ops.packing import pack_first_fit_node  # only now: `import grain` is to be fast

        return self._derived(pack_first_fit_node(self._as_node, **options))

    def pack_best_fit(
        self: IterDataset[Mapping[str, Any]], **options: Unpack[PackingOptions]
    ) -> IterDataset[dict[str, Any]]:
        """As `pack_first_fit`, with the same options, but each document goes into the fullest row with room.

        >>> import grain
        >>> documents = grain.MapDataset.source([{"tokens": [i] * n} for i, n in enumerate((3, 4, 1), 1)])
        >>> packed = documents.to_iter_dataset().pack_best_fit(
        ...     length_struct={"tokens": 5}, num_packing_bins=2, shuffle_bins=False
        ... )
        >>> [row["tokens"].tolist() for row in packed]
        [[1, 1, 1, 0, 0], [2, 2, 2, 2, 3]]
        """
        from grain.ops.packing import pack_best_fit_node  # only now: `import grain` is to be fast

        return self._derived(pack_best_fit_node(self._as_node, **options))

    def concat_and_split(
        self: IterDataset[Mapping[str, Any]], **options: Unpack[SplittingOptions]
    ) -> IterDataset[dict[str, np.ndarray[Any, Any]]]:
        """Documents, which are dicts of arrays, one after the other, cut where a row is full.

        `length_struct` has the length of rows for each feature. Features in `meta_features` get no segment ids and
        positions. With `split_full_length_features=False`, documents as long as a row get one for themselves. With
        `bos_handling=BOSHandling.REPLACE_FIRST_TOKEN_WITH_BOS`, each piece of a document starts with `bos_token_id` in
        the features `bos_features`.

        >>> import grain
        >>> documents = grain.MapDataset.source([{"tokens": [i] * n} for i, n in enumerate((3, 4, 2), 1)])
        >>> for row in documents.to_iter_dataset().concat_and_split(length_struct={"tokens": 5}):
        ...     print(row["tokens"], row["tokens_segment_ids"], row["tokens_positions"])
        [1 1 1 2 2] [1 1 1 2 2] [0 1 2 0 1]
        [2 2 3 3 0] [1 1 2 2 0] [0 1 0 1 0]
        """
        from grain.ops.splitting import concat_and_split_node  # only now: `import grain` is to be fast

        return self._derived(concat_and_split_node(self._as_node, **options))

    def thread_prefetch(self, prefetch_buffer_size: int) -> IterDataset[T]:
        """Elements may be made up to `prefetch_buffer_size` ahead; they are the same, in the same order.

        >>> import grain
        >>> list(grain.MapDataset.range(3).to_iter_dataset().thread_prefetch(2))
        [0, 1, 2]
        """
        return self._derived(thread_prefetch_node(self._as_node, prefetch_buffer_size))

    def mp_prefetch(
        self,
        options: MultiprocessingOptions | None = None,
        worker_init_fn: Callable[[int, int], None] | None = None,
        sequential_slice: bool = False,
    ) -> IterDataset[T]:
        """Make the elements in worker processes; worker i of n makes the elements i, i + n, ...

        Operators that join, drop or count elements do so in each worker by itself. With `sequential_slice` a worker has
        a block of consecutive records instead. `worker_init_fn` is called in each process, with its index and the
        number of workers, before anything else. Without options there are 10 workers; with `num_workers=None`, one for
        each CPU.

        >>> import grain
        >>> dataset = grain.MapDataset.range(5).map(lambda x: x * x).to_iter_dataset()
        >>> list(dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=2)))
        [0, 1, 4, 9, 16]
        """
        node = self._as_node
        workers = mp_prefetch_node(node, options, worker_init_fn, sequential_slice)
        return self if workers is node else self._derived(workers)

    def prefetch(self, multiprocessing_options: MultiprocessingOptions) -> IterDataset[T]:
        """The old name of `mp_prefetch`."""
        import warnings

        warnings.warn("Please use `mp_prefetch` instead.", DeprecationWarning, stacklevel=2)
        return self.mp_prefetch(multiprocessing_options)

    def device_put(self, device: object, *, cpu_buffer_size: int = 4, device_buffer_size: int = 2) -> IterDataset[Any]:
        """Elements on a JAX device or sharding, `device`.

        Up to `cpu_buffer_size` of them are ready before the transfer, and `device_buffer_size` after it.

        >>> import grain, jax
        >>> dataset = grain.MapDataset.range(4).batch(2).to_iter_dataset()
        >>> [type(batch).__name__ for batch in dataset.device_put(jax.devices("cpu")[0])]
        ['ArrayImpl', 'ArrayImpl']
        """
        return self._derived(device_put_node(self._as_node, device, cpu_buffer_size, device_buffer_size))

    def with_options(self, options: DatasetOptions) -> IterDataset[T]:
        """`options` for the whole pipeline, what comes before included.

        >>> import grain
        >>> options = grain.experimental.DatasetOptions(filter_warn_threshold_ratio=None)
        >>> list(grain.MapDataset.range(3).to_iter_dataset().with_options(options))
        [0, 1, 2]
        """
        return self._derived(WithOptions(self._as_node, options))


class NodeIterDataset(NodeDataset, IterDataset[T]):
    """A stream made by the library."""

    _node: IterNode[Any]

    def __init__(self, node: IterNode[Any]) -> None:
        self._node = node

    def __iter__(self) -> DatasetIterator[T]:
        return NodeIterator(self._node)
