"""`MapDataset`: random access."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import numpy as np

from grain.api.dataset import Dataset, NodeDataset
from grain.api.dataset_iterator import DatasetIterator
from grain.api.iter_dataset import IterDataset, NodeIterDataset
from grain.errors import EmptyDatasetError
from grain.graph.node import MapNode
from grain.ops.concatenating import concatenate_node, select_from_datasets_node
from grain.ops.custom import map_node_of
from grain.ops.flattening import flat_map_node
from grain.ops.mixing import Stop, map_mix_node
from grain.ops.repeating import map_repeat_node
from grain.ops.shuffling import shuffle_node, window_shuffle_node
from grain.ops.slicing import slice_node
from grain.ops.sourcing import Range, Source, to_iter_dataset_node
from grain.ops.zipping import map_zip_node
from grain.options import ReadOptions
from grain.plan.kinds import RandomAccess
from grain.plan.lowering import check_height, random_access
from grain.runtime.local.inline import at
from grain.transforms import DatasetSelectionMap

if TYPE_CHECKING:
    from grain.api.signatures import A, B, C, D, E, FlatMapOf, MapSignatures, S
    from grain.sources.random_access import RandomAccessDataSource
else:
    MapSignatures = Dataset

T = TypeVar("T", covariant=True)


class MapDatasetMeta(abc.ABCMeta):
    """What can be called on the class `MapDataset`, but not on its objects."""

    def source(cls, source: RandomAccessDataSource[S]) -> MapDataset[S]:
        """The records of anything with `len(source)` and `source[index]`: a list, an array, a file format.

        A source that reads many records faster than one by one has a method `__getitems__(indices)`, which returns a
        sequence of records; batches are read with it.

        >>> import grain
        >>> list(grain.MapDataset.source(["a", "b"]))
        ['a', 'b']
        """
        return SourceMapDataset(source)

    def range(cls, start: int, stop: int | None = None, step: int = 1) -> MapDataset[int]:
        """The numbers of `range(start, stop, step)`; with one argument, those from 0 up to it.

        >>> import grain
        >>> list(grain.MapDataset.range(2, 8, 3))
        [2, 5]
        """
        return NodeMapDataset(Range(range(0, start, step) if stop is None else range(start, stop, step)))

    def mix(
        cls, datasets: Sequence[MapDataset[S]], weights: Sequence[float] | None = None, *, stop: Stop = "first"
    ) -> MapDataset[S]:
        """Elements of several datasets, in the proportions of `weights`, or as many of each.

        It is as long as no dataset is used more than once; with `stop="longest"`, until all have been used once, with
        the others in their next epochs. With `stop="renormalize"` it has all elements once: when a dataset is used up,
        the others go on in the proportions of their weights.

        >>> import grain
        >>> list(grain.MapDataset.mix([grain.MapDataset.range(3), grain.MapDataset.range(10, 16)], weights=[1, 2]))
        [0, 10, 11, 1, 12, 13, 2, 14, 15]
        >>> list(grain.MapDataset.mix([grain.MapDataset.range(2), grain.MapDataset.range(10, 14)], stop="renormalize"))
        [0, 10, 1, 11, 12, 13]
        """
        return NodeMapDataset(map_mix_node([map_node_of(dataset) for dataset in datasets], weights, stop))

    def concatenate(cls, datasets: Sequence[MapDataset[S]]) -> MapDataset[S]:
        """The elements of `datasets`, one dataset after the other.

        >>> import grain
        >>> list(grain.MapDataset.concatenate([grain.MapDataset.range(2), grain.MapDataset.range(10, 12)]))
        [0, 1, 10, 11]
        """
        return NodeMapDataset(concatenate_node([map_node_of(dataset) for dataset in datasets]))

    def select_from_datasets(
        cls, datasets: Sequence[MapDataset[S]], selection_map: DatasetSelectionMap
    ) -> MapDataset[S]:
        """Elements of `datasets`: `selection_map` says which one of which dataset stands at each index."""
        return NodeMapDataset(select_from_datasets_node([map_node_of(dataset) for dataset in datasets], selection_map))

    @overload
    def zip(cls, datasets: tuple[MapDataset[A]]) -> MapDataset[tuple[A]]: ...
    @overload
    def zip(cls, datasets: tuple[MapDataset[A], MapDataset[B]]) -> MapDataset[tuple[A, B]]: ...
    @overload
    def zip(cls, datasets: tuple[MapDataset[A], MapDataset[B], MapDataset[C]]) -> MapDataset[tuple[A, B, C]]: ...
    @overload
    def zip(
        cls, datasets: tuple[MapDataset[A], MapDataset[B], MapDataset[C], MapDataset[D]]
    ) -> MapDataset[tuple[A, B, C, D]]: ...
    @overload
    def zip(
        cls, datasets: tuple[MapDataset[A], MapDataset[B], MapDataset[C], MapDataset[D], MapDataset[E]]
    ) -> MapDataset[tuple[A, B, C, D, E]]: ...
    @overload
    def zip(cls, datasets: Sequence[MapDataset[S]]) -> MapDataset[tuple[S, ...]]: ...
    def zip(cls, datasets: Sequence[MapDataset[Any]]) -> MapDataset[Any]:
        """Tuples of what `datasets`, which have the same length, have at each index.

        Where types are checked, pass a tuple: of a list it is not known which element is of which type.

        >>> import grain
        >>> list(grain.MapDataset.zip([grain.MapDataset.range(2), grain.MapDataset.source("ab")]))
        [(0, 'a'), (1, 'b')]
        """
        return NodeMapDataset(map_zip_node([map_node_of(dataset) for dataset in datasets]))


class MapDataset(MapSignatures[T], metaclass=MapDatasetMeta):
    """A dataset that can be asked for any index.

    `len` is the length of one epoch; indices beyond it belong to later epochs, so that shuffling and random
    transformations differ from epoch to epoch. An element that is None is a gap, which iteration skips.

    Derive from it to write one of your own: call `super().__init__(parents)` and define `__len__` and `__getitem__`.

    >>> import grain
    >>> dataset = grain.MapDataset.source([1, 2, 3]).shuffle(seed=7).map(lambda x: x * 10)
    >>> dataset[0], len(dataset), list(dataset)
    (30, 3, [30, 10, 20])
    """

    _is_random_access = True

    @abc.abstractmethod
    def __len__(self) -> int:
        """The number of elements of one epoch."""

    @overload
    @abc.abstractmethod
    def __getitem__(self, index: slice) -> MapDataset[T]: ...
    @overload
    @abc.abstractmethod
    def __getitem__(self, index: int) -> T | None: ...
    @abc.abstractmethod
    def __getitem__(self, index: int | slice) -> Any:
        """The element at `index`, of any epoch; or a slice of each epoch."""

    def __iter__(self) -> DatasetIterator[T]:
        return self.to_iter_dataset().__iter__()

    def _derived(self, node: Any) -> MapDataset[Any]:
        return NodeMapDataset(node)

    @property
    def _as_node(self) -> MapNode:
        return map_node_of(self)  # type: ignore[no-any-return]

    def shuffle(self, seed: int | None = None) -> MapDataset[T]:
        """All elements in a random order, another one in every epoch.

        Nothing is kept in memory, whatever the length. Without `seed` it is derived from `ds.seed(...)`.

        >>> import grain
        >>> list(grain.MapDataset.range(10).shuffle(seed=42))
        [8, 6, 7, 9, 0, 5, 1, 2, 4, 3]
        """
        return self._derived(shuffle_node(self._as_node, seed))

    def window_shuffle(self, window_size: int, *, seed: int) -> MapDataset[T]:
        """Each `window_size` consecutive elements in a random order.

        Choose a size that divides the length: the last window reaches into the next epoch otherwise.

        >>> import grain
        >>> list(grain.MapDataset.range(12).window_shuffle(4, seed=1))
        [1, 2, 3, 0, 4, 7, 5, 6, 10, 11, 8, 9]
        """
        return self._derived(window_shuffle_node(self._as_node, window_size, seed))

    def slice(self, sl: slice | Sequence[int]) -> MapDataset[T]:
        """The elements of a slice of each epoch, or those at the indices of a sequence.

        >>> import grain
        >>> list(grain.MapDataset.range(10).slice(slice(1, 8, 3))), list(grain.MapDataset.range(10)[7:])
        ([1, 4, 7], [7, 8, 9])
        >>> list(grain.MapDataset.range(10).slice([3, 1, 4]))
        [3, 1, 4]
        """
        return self._derived(slice_node(self._as_node, sl))

    @overload
    def flat_map(self, transform: FlatMapOf[T, S | None], *, fan_out: None = None) -> MapDataset[S]: ...
    @overload
    def flat_map(
        self,
        transform: FlatMapOf[T, S | None] | Callable[[T], Iterable[S | None]],
        *,
        fan_out: Sequence[int] | np.ndarray[Any, Any],
    ) -> MapDataset[S]: ...
    def flat_map(self, transform: Any, *, fan_out: Any = None) -> MapDataset[Any]:
        """All items that `transform` makes of each element, one after the other.

        `fan_out` says for each element how many there are, so that the length is their sum and items can be shuffled,
        sliced and batched like elements; shuffle after it, not before, because the table goes by places. Without it,
        `transform` is a `FlatMap` object that says how many there are at most, and None stands in the places of those
        that are missing. `transform` is called anew for each item.

        >>> import grain
        >>> documents = grain.MapDataset.source(["abcde", "f", "ghi"])
        >>> pieces = documents.flat_map(lambda x: [x[i : i + 2] for i in range(0, len(x), 2)], fan_out=[3, 1, 2])
        >>> len(pieces), list(pieces.shuffle(seed=1))
        (6, ['i', 'e', 'f', 'ab', 'gh', 'cd'])
        """
        return self._derived(flat_map_node(self._as_node, transform, fan_out))

    def repeat(self, num_epochs: int | None = None, *, reseed_each_epoch: bool = True) -> MapDataset[T]:
        """`num_epochs` epochs as one, or endlessly many, if it is None.

        With `reseed_each_epoch=False` every epoch is like the first.

        >>> import grain
        >>> list(grain.MapDataset.range(4).shuffle(seed=3).repeat(2))
        [2, 3, 0, 1, 1, 0, 2, 3]
        """
        return self._derived(map_repeat_node(self._as_node, num_epochs, reseed_each_epoch))

    @overload
    def to_iter_dataset(
        self, read_options: ReadOptions | None = None, *, allow_nones: Literal[False] = False
    ) -> IterDataset[T]: ...
    @overload
    def to_iter_dataset(
        self, read_options: ReadOptions | None = None, *, allow_nones: bool
    ) -> IterDataset[T | None]: ...
    def to_iter_dataset(
        self, read_options: ReadOptions | None = None, *, allow_nones: bool = False
    ) -> IterDataset[Any]:
        """The elements of one epoch as a stream, without those that are None (unless `allow_nones`).

        `read_options` say how many threads read ahead at most, and how far.

        >>> import grain
        >>> list(grain.MapDataset.range(3).to_iter_dataset())
        [0, 1, 2]
        """
        return NodeIterDataset(to_iter_dataset_node(self._as_node, read_options, allow_nones))


class NodeMapDataset(NodeDataset, MapDataset[T]):
    """Random access made by the library."""

    _node: MapNode

    def __init__(self, node: MapNode) -> None:
        self._node = node

    def __len__(self) -> int:
        return self._node.length

    @overload
    def __getitem__(self, index: slice) -> MapDataset[T]: ...
    @overload
    def __getitem__(self, index: int) -> T | None: ...
    def __getitem__(self, index: Any) -> Any:
        if type(index) is not int:
            if isinstance(index, slice):
                return self.slice(index)
            if not isinstance(index, int | float | np.number):
                raise TypeError(
                    f"The index of {self} must be an integer or a slice, got {index!r} ({type(index).__name__}); "
                    "for several indices use ds.slice([...])."
                )
        try:
            plan = self._plan
        except AttributeError:
            plan = random_access(self._node)
            check_height(plan)
            self._plan = plan
        try:
            return at(plan, index)
        except EmptyDatasetError as error:
            error.add_note(f"Raised in {self._node}.")
            raise

    _plan: RandomAccess

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_plan"}


NodeDataset._kinds.update({True: NodeMapDataset, False: NodeIterDataset})


class SourceMapDataset(NodeMapDataset[T]):
    """`MapDataset.source(source)`."""

    def __init__(self, source: RandomAccessDataSource[T]) -> None:
        super().__init__(Source(source))

    @property
    def paths(self) -> Any:
        """The files of the source, where it says so."""
        return getattr(self._node.source, "paths", [])  # type: ignore[attr-defined]
