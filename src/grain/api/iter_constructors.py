"""Streams that are made of other datasets: what can be called on the class `IterDataset`."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from grain.api.dataset import Dataset, NodeDataset
from grain.graph.node import IterNode
from grain.ops.custom import iter_node_of
from grain.ops.interleaving import interleave_node
from grain.ops.mixing import Stop, iter_mix_node
from grain.ops.zipping import iter_zip_node

if TYPE_CHECKING:
    from grain.api.iter_dataset import IterDataset
    from grain.api.signatures import A, B, C, D, E, K, S
    from grain.sources.random_access import RandomAccessDataSource


def _stream(node: IterNode[Any]) -> IterDataset[Any]:
    dataset: IterDataset[Any] = NodeDataset._kinds[False](node)
    return dataset


class IterDatasetMeta(abc.ABCMeta):
    """What can be called on the class `IterDataset`, but not on its objects."""

    def mix(
        cls,
        datasets: Sequence[Dataset[S]] | Mapping[K, Dataset[S]],
        weights: Sequence[float] | Mapping[K, float] | None = None,
        *,
        stop: Stop = "first",
        with_counts: bool = False,
        cost_fn: Callable[[S], float] | None = None,
    ) -> IterDataset[S]:
        """Elements of several streams, in the proportions of `weights`, until one that is due has ended.

        `datasets` and `weights` are both sequences, or both mappings with the same keys. With `stop="longest"` a stream
        that has ended begins again, until all have ended once, and one without elements is passed over; with
        `stop="renormalize"` the others go on, in the proportions of their weights, until all have ended. In both cases,
        and with `with_counts` or `cost_fn` also with `stop="first"`, the state has the number of elements of each
        stream, and what they cost by `cost_fn` (how many tokens they have, say); `experimental.get_mixture_counts`
        reads it.

        >>> import grain
        >>> first, second = grain.MapDataset.range(5), grain.MapDataset.range(7, 10)
        >>> list(grain.IterDataset.mix([first.to_iter_dataset(), second.to_iter_dataset()]))
        [0, 7, 1, 8, 2, 9, 3]
        >>> list(grain.IterDataset.mix([first.to_iter_dataset(), second.to_iter_dataset()], stop="renormalize"))
        [0, 7, 1, 8, 2, 9, 3, 4]
        """
        if isinstance(datasets, Mapping):
            nodes: Any = {key: iter_node_of(dataset) for key, dataset in datasets.items()}
        else:
            nodes = [iter_node_of(dataset) for dataset in datasets]
        return _stream(iter_mix_node(nodes, weights, stop, with_counts, cost_fn))

    @overload
    def zip(cls, datasets: tuple[Dataset[A]], *, strict: bool = True) -> IterDataset[tuple[A]]: ...
    @overload
    def zip(cls, datasets: tuple[Dataset[A], Dataset[B]], *, strict: bool = True) -> IterDataset[tuple[A, B]]: ...
    @overload
    def zip(
        cls, datasets: tuple[Dataset[A], Dataset[B], Dataset[C]], *, strict: bool = True
    ) -> IterDataset[tuple[A, B, C]]: ...
    @overload
    def zip(
        cls, datasets: tuple[Dataset[A], Dataset[B], Dataset[C], Dataset[D]], *, strict: bool = True
    ) -> IterDataset[tuple[A, B, C, D]]: ...
    @overload
    def zip(
        cls, datasets: tuple[Dataset[A], Dataset[B], Dataset[C], Dataset[D], Dataset[E]], *, strict: bool = True
    ) -> IterDataset[tuple[A, B, C, D, E]]: ...
    @overload
    def zip(cls, datasets: Sequence[Dataset[S]], *, strict: bool = True) -> IterDataset[tuple[S, ...]]: ...
    def zip(cls, datasets: Sequence[Dataset[Any]], *, strict: bool = True) -> IterDataset[Any]:
        """Tuples of one element of each of `datasets`.

        That they end at different times is an error; without `strict` the first end is that of all. Where types are
        checked, pass a tuple: of a list it is not known which element is of which type.

        >>> import grain
        >>> streams = [grain.MapDataset.source(text).to_iter_dataset() for text in ("ab", "cd")]
        >>> list(grain.IterDataset.zip(streams))
        [('a', 'c'), ('b', 'd')]
        """
        return _stream(iter_zip_node([iter_node_of(dataset) for dataset in datasets], strict))

    def interleave(
        cls,
        datasets: RandomAccessDataSource[Dataset[S] | None],
        *,
        cycle_length: int,
        num_make_iter_threads: int = 1,
        make_iter_buffer_size: int = 1,
        iter_buffer_size: int = 1,
    ) -> IterDataset[S]:
        """One element of each of `cycle_length` datasets in turn; one that has ended gives its place to the next.

        `datasets` is a sequence of datasets, or a MapDataset of them. Up to `num_make_iter_threads` threads open
        `make_iter_buffer_size` iterators ahead, and `iter_buffer_size` elements of each are read ahead, where that
        turns out to be slow.

        >>> import grain
        >>> datasets = [grain.MapDataset.source(text) for text in ("aaa", "b", "cc")]
        >>> "".join(grain.IterDataset.interleave(datasets, cycle_length=2))
        'abaacc'
        """
        return _stream(
            interleave_node(datasets, cycle_length, num_make_iter_threads, make_iter_buffer_size, iter_buffer_size)
        )
