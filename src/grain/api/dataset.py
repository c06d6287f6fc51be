"""What MapDataset and IterDataset have in common."""

from __future__ import annotations

import abc
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, Generic, ParamSpec, TypeVar, overload

from grain import transforms
from grain.api.dataset_iterator import MEASURING, Measuring
from grain.elements.padding import Fill, Padding, Target
from grain.graph.naming import transform_name
from grain.graph.node import Node
from grain.graph.seeds import default_seed
from grain.graph.specs import element_spec
from grain.ops.batching import batch_node
from grain.ops.configuring import seed_node
from grain.ops.custom import node_of
from grain.ops.flattening import flat_map_node
from grain.ops.mapping import filter_node, map_node, map_with_index_node, random_map_node

if TYPE_CHECKING:
    import numpy as np

    from grain.api.iter_dataset import IterDataset
    from grain.api.map_dataset import MapDataset
    from grain.api.signatures import FilterOf, FlatMapOf, MapOf, MapWithIndexOf, RandomMapOf
    from grain.explaining.explanation import Explanation

T = TypeVar("T", covariant=True)
S = TypeVar("S")
Self = TypeVar("Self", bound="Dataset[Any]")
Params = ParamSpec("Params")


class Dataset(Generic[T]):
    """A pipeline as it was asked for: nothing is read before its elements are.

    For type checkers, what a method returns is told more exactly in `api/signatures.py`.
    """

    _is_random_access: bool
    _wraps_node = False
    _parents: Any = ()
    """A tuple of datasets; a plain attribute, because users' classes set and read it."""

    def __init__(self, parents: Dataset[object] | Iterable[Dataset[object]] = ()) -> None:
        self._parents = (parents,) if isinstance(parents, Dataset) else tuple(parents)

    @property
    def parents(self) -> tuple[Dataset[Any], ...]:
        """The datasets that this one reads from."""
        return tuple(self._parents)

    @property
    def _parent(self) -> Any:
        (parent,) = self._parents
        return parent

    @property
    def _default_seed(self) -> int | None:
        return default_seed(node_of(self).parents)

    @property
    def _stats(self) -> Measuring:
        return MEASURING

    @abc.abstractmethod
    def _derived(self, node: Any) -> Dataset[Any]:
        """A dataset of the same side for `node`."""

    def map(self, transform: MapOf[T, S] | Callable[[T], S]) -> Dataset[S]:
        """`transform` of each element.

        `transform` is a function, or an object of a class derived from `grain.transforms.Map`. On a MapDataset an
        element for which it returns None is left out.

        >>> import grain
        >>> list(grain.MapDataset.range(3).map(lambda x: x * 10))
        [0, 10, 20]
        """
        return self._derived(map_node(node_of(self), transform))

    def map_with_index(self, transform: MapWithIndexOf[T, S] | Callable[[int, T], S]) -> Dataset[S]:
        """`transform` of each index and element.

        `transform` is a function, or an object of a class derived from `grain.transforms.MapWithIndex`. On a MapDataset
        the index is the one asked for; on an IterDataset it counts the elements of the iterator.

        >>> import grain
        >>> list(grain.MapDataset.source("abc").map_with_index(lambda i, x: x * i))
        ['', 'b', 'cc']
        """
        return self._derived(map_with_index_node(node_of(self), transform))

    def random_map(
        self, transform: RandomMapOf[T, S] | Callable[[T, np.random.Generator], S], *, seed: int | None = None
    ) -> Dataset[S]:
        """`transform` of each element and a `numpy.random.Generator` of its own.

        `transform` is a function, or an object of a class derived from `grain.transforms.RandomMap`. The generator
        depends on the seed and on the element's place alone, not on what ran before. Without `seed` it is derived from
        `ds.seed(...)`.

        >>> import grain
        >>> list(grain.MapDataset.range(5).random_map(lambda x, rng: int(x + rng.integers(0, 100)), seed=0))
        [13, 96, 22, 70, 72]
        """
        return self._derived(random_map_node(node_of(self), transform, seed))

    def filter(self, transform: FilterOf[T] | Callable[[T], object]) -> Dataset[Any]:
        """The elements for which `transform` is true.

        `transform` is a function, or an object of a class derived from `grain.transforms.Filter`. A MapDataset keeps
        its length and has None in place of the others, which iteration skips.

        >>> import grain
        >>> list(grain.MapDataset.range(6).filter(lambda x: x % 2))
        [1, 3, 5]
        """
        return self._derived(filter_node(node_of(self), transform))

    def flat_map(self, transform: FlatMapOf[T, S]) -> Dataset[S]:
        """All items that `transform` makes of each element, one after the other.

        `transform` is an object of a class derived from `grain.transforms.FlatMap`; on an IterDataset it may also be a
        function that returns a sequence.

        >>> import grain
        >>> list(grain.MapDataset.range(1, 4).to_iter_dataset().flat_map(lambda x: [x] * x))
        [1, 2, 2, 3, 3, 3]
        """
        return self._derived(flat_map_node(node_of(self), transform))

    def batch(
        self,
        batch_size: int,
        *,
        drop_remainder: bool = False,
        batch_fn: Callable[[Sequence[T]], S] | None = None,
        keep_bytes: bool = False,
    ) -> Dataset[S]:
        """`batch_size` consecutive elements as one: arrays stacked along a new axis, or what `batch_fn` makes of them.

        With `drop_remainder` a last batch of fewer elements is left out. NumPy's arrays of bytes, and of strings, drop
        zeros at the end of each; with `keep_bytes` these become arrays of objects, which drop nothing.

        >>> import grain
        >>> list(grain.MapDataset.range(5).batch(2))
        [array([0, 1]), array([2, 3]), array([4])]
        >>> grain.MapDataset.source([b"a\\0", b"bc"]).batch(2, keep_bytes=True)[0]
        array([b'a\\x00', b'bc'], dtype=object)
        """
        return self._derived(batch_node(node_of(self), batch_size, drop_remainder, batch_fn, keep_bytes))

    def padded_batch(
        self,
        batch_size: int,
        *,
        pad_to: Target | Mapping[str, Target] = "longest",
        multiple_of: int = 1,
        pad_value: Fill | Mapping[str, Fill] = 0,
        masks: Collection[str] = (),
        drop_remainder: bool = False,
        keep_bytes: bool = False,
    ) -> Dataset[Any]:
        """`batch_size` consecutive elements as one, with arrays filled up along their first axis to the same length.

        That is `batch` with `transforms.Padding` as its `batch_fn`; see there for `pad_to`, `multiple_of`, `pad_value`,
        `masks` and `keep_bytes`. With `drop_remainder` a last batch of fewer elements is left out. To fill up the last
        batch instead, with whole elements, there is `batch_and_pad`.

        >>> import grain, numpy as np
        >>> documents = grain.MapDataset.source([{"x": np.array([1, 2, 3])}, {"x": np.array([4])}])
        >>> documents.padded_batch(2, pad_value=-1, masks=["x"])[0]
        {'x': array([[ 1,  2,  3],
               [ 4, -1, -1]]), 'x_mask': array([[ True,  True,  True],
               [ True, False, False]])}
        """
        padding = Padding(pad_to, multiple_of=multiple_of, value=pad_value, masks=masks, keep_bytes=keep_bytes)
        return self.batch(batch_size, drop_remainder=drop_remainder, batch_fn=padding)

    def seed(self, seed: int | None) -> Dataset[T]:
        """A seed from which the random operators that follow derive theirs; None is no seed.

        >>> import grain
        >>> list(grain.MapDataset.range(10).seed(42).shuffle())
        [1, 7, 6, 9, 0, 8, 4, 5, 3, 2]
        """
        return self._derived(seed_node(node_of(self), seed))

    def pipe(
        self: Self, func: Callable[Concatenate[Self, Params], S], /, *args: Params.args, **kwargs: Params.kwargs
    ) -> S:
        """`func(self, *args, **kwargs)`: to chain functions that build pipelines.

        >>> import grain
        >>> len(grain.MapDataset.range(9).pipe(lambda ds, n: ds[:n], 4))
        4
        """
        return func(self, *args, **kwargs)

    def apply(self, transformations: transforms.Transformation | transforms.Transformations) -> Dataset[Any]:
        """One transformation object, or those of a sequence in turn.

        >>> import grain
        >>> list(grain.MapDataset.range(4).apply([grain.transforms.Batch(2)]))
        [array([0, 1]), array([2, 3])]
        """
        if not isinstance(transformations, Sequence):
            transformations = (transformations,)
        dataset: Dataset[Any] = self
        for transform in transformations:
            dataset = dataset._applied(transform)
        return dataset

    def explain(self) -> Explanation:
        """What this pipeline will do: its operators, the plan, where each part runs, what is held back, and the state.

        Print it, or show it in a notebook. Nothing is read and nothing is started.

        >>> import grain
        >>> print(grain.MapDataset.range(10).shuffle(seed=1).batch(4).explain())
        MapDataset.range(10).shuffle(seed=1).batch(4)
        <BLANKLINE>
        Asked for
          MapDataset.range(10)
          shuffle(seed=1)
          batch(4)
        <BLANKLINE>
        Plan (elements go down, indices up)
          read     Indices()
          index    Modulo(length=10)
          index    Permute(length=10, seed=1)
          group    Extent(size=4, length=3, length_below=10), stacked
        <BLANKLINE>
        Runs
          inline: MapDataset.range, shuffle, batch
          iter(ds): up to 16 threads, at most 500 elements ahead
        <BLANKLINE>
        Holds back between two elements
          nothing
        <BLANKLINE>
        State
          none; of iter(ds): {"next_index": int}
        """
        from grain.explaining.explanation import explained  # only now: `import grain` is to be fast

        return explained(node_of(self))

    def _applied(self, transform: Any) -> Dataset[Any]:
        if isinstance(transform, transforms.Batch):
            return self.batch(
                transform.batch_size,
                drop_remainder=transform.drop_remainder,
                batch_fn=transform.batch_fn,
                keep_bytes=transform.keep_bytes,
            )
        methods: list[tuple[type, Callable[[Any], Dataset[Any]]]] = [
            (transforms.Map, self.map),
            (transforms.RandomMap, self.random_map),
            (transforms.MapWithIndex, self.map_with_index),
            (transforms.FlatMap, self.flat_map),
            (transforms.Filter, self.filter),
        ]
        for kind, method in methods:
            if isinstance(transform, kind):
                return method(transform)
        raise NotImplementedError(
            f"Transformation type: {transform_name(transform)} is not supported. `apply` takes objects of "
            "grain.transforms; use `map`, `filter` or `random_map` for functions."
        )


class NodeDataset:
    """A dataset that is a node of the library's own."""

    _node: Node
    _wraps_node = True
    _kinds: ClassVar[dict[bool, Any]] = {}
    """The class of such datasets with random access, and of those without."""

    @property
    def _parents(self) -> tuple[Any, ...]:
        kinds = NodeDataset._kinds
        return tuple(
            node.dataset if node.is_opaque else kinds[node.is_random_access](node)  # type: ignore[attr-defined]
            for node in self._node.parents
        )

    def __str__(self) -> str:
        return str(self._node)

    def __repr__(self) -> str:
        from grain.explaining.asking import chain  # only now: `import grain` is to be fast

        return chain(self._node)


@overload
def apply_transformations(
    dataset: MapDataset[object], transformations: transforms.Transformation | transforms.Transformations
) -> MapDataset[Any]: ...
@overload
def apply_transformations(
    dataset: IterDataset[object], transformations: transforms.Transformation | transforms.Transformations
) -> IterDataset[Any]: ...
def apply_transformations(dataset: Dataset[Any], transformations: Any) -> Dataset[Any]:
    """`dataset.apply(transformations)`: one transformation object, or those of a sequence in turn."""
    return dataset.apply(transformations)


def get_element_spec(dataset: Dataset[object]) -> Any:
    """The shapes and types of the elements of `dataset`, told without reading any.

    >>> import grain
    >>> get_element_spec(grain.MapDataset.range(5).batch(2, drop_remainder=True))
    ShapeDtypeStruct(shape=(2,), dtype=<class 'numpy.int64'>)
    """
    return element_spec(node_of(dataset))
