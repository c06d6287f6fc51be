"""What type checkers see: which transformation makes elements of which type. It is not imported at run time.

The methods that both kinds of datasets share stand in `api/dataset.py`. Here they are declared once more for each kind,
because Python has no way to say "a dataset of the same kind, of other elements".
"""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypeGuard, TypeVar, overload

import numpy as np

from grain.api.dataset import Dataset
from grain.api.iter_dataset import IterDataset
from grain.api.map_dataset import MapDataset
from grain.elements.padding import Fill, Target
from grain.sources.random_access import RandomAccessDataSource
from grain.transforms import Batch, TfRandomMap, Transformations

if TYPE_CHECKING:
    from typing_extensions import TypeIs  # known to all type checkers, installed or not

T = TypeVar("T", covariant=True)
S = TypeVar("S")
K = TypeVar("K")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
In = TypeVar("In", contravariant=True)
Out = TypeVar("Out", covariant=True)


class MapOf(Protocol[In, Out]):
    """A `transforms.Map` from elements of one type to those of another, as its method is annotated."""

    _is_map: ClassVar[bool]

    def map(self, element: In, /) -> Out: ...


class RandomMapOf(Protocol[In, Out]):
    """A `transforms.RandomMap`, as its method is annotated."""

    _is_random_map: ClassVar[bool]

    def random_map(self, element: In, rng: np.random.Generator, /) -> Out: ...


class MapWithIndexOf(Protocol[In, Out]):
    """A `transforms.MapWithIndex`, as its method is annotated."""

    _is_map_with_index: ClassVar[bool]

    def map_with_index(self, index: int, element: In, /) -> Out: ...


class FilterOf(Protocol[In]):
    """A `transforms.Filter`, as its method is annotated."""

    _is_filter: ClassVar[bool]

    def filter(self, element: In, /) -> object: ...


class FlatMapOf(Protocol[In, Out]):
    """A `transforms.FlatMap`, as its method is annotated."""

    _is_flat_map: ClassVar[bool]

    def flat_map(self, element: In, /) -> Sequence[Out]: ...


class Resumable(Protocol[Out]):
    """An iterator of anybody's, whose position can be saved."""

    def __next__(self) -> Out: ...

    def get_state(self) -> Any: ...

    def set_state(self, state: Any, /) -> None: ...


AnyMapOf: TypeAlias = MapOf[In, Out] | RandomMapOf[In, Out] | MapWithIndexOf[In, Out] | FlatMapOf[In, Out]
"""A transformation that makes elements of other ones, each by itself."""


class MapSignatures(Dataset[T]):
    """The shared methods on a MapDataset. What is None is a gap there, which nobody is given."""

    def map(self, transform: MapOf[T, S | None] | Callable[[T], S | None]) -> MapDataset[S]: ...

    def map_with_index(
        self, transform: MapWithIndexOf[T, S | None] | Callable[[int, T], S | None]
    ) -> MapDataset[S]: ...

    def random_map(
        self,
        transform: RandomMapOf[T, S | None] | Callable[[T, np.random.Generator], S | None],
        *,
        seed: int | None = None,
    ) -> MapDataset[S]: ...

    @overload
    def filter(self, transform: Callable[[T], TypeGuard[S]]) -> MapDataset[S]: ...
    @overload
    def filter(self, transform: Callable[[T], TypeIs[S]]) -> MapDataset[S]: ...
    @overload
    def filter(self, transform: FilterOf[T] | Callable[[T], object]) -> MapDataset[T]: ...
    def filter(self, transform: Any) -> Any: ...

    @overload  # type: ignore[override]  # one case after the other, where the shared method has a union
    def batch(
        self, batch_size: int, *, drop_remainder: bool = False, batch_fn: Callable[[Sequence[T]], S]
    ) -> MapDataset[S]: ...
    @overload
    def batch(
        self, batch_size: int, *, drop_remainder: bool = False, batch_fn: None = None, keep_bytes: bool = False
    ) -> MapDataset[Any]: ...
    def batch(self, batch_size: int, **options: Any) -> Any: ...

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
    ) -> MapDataset[Any]: ...

    def seed(self, seed: int | None) -> MapDataset[T]: ...

    @overload
    def apply(self, transformations: AnyMapOf[T, S | None]) -> MapDataset[S]: ...
    @overload
    def apply(self, transformations: FilterOf[T]) -> MapDataset[T]: ...
    @overload
    def apply(self, transformations: Batch | TfRandomMap | Transformations) -> MapDataset[Any]: ...
    def apply(self, transformations: Any) -> Any: ...


class IterSignatures(Dataset[T]):
    """The shared methods on an IterDataset."""

    def map(self, transform: MapOf[T, S] | Callable[[T], S]) -> IterDataset[S]: ...

    def map_with_index(self, transform: MapWithIndexOf[T, S] | Callable[[int, T], S]) -> IterDataset[S]: ...

    def random_map(
        self, transform: RandomMapOf[T, S] | Callable[[T, np.random.Generator], S], *, seed: int | None = None
    ) -> IterDataset[S]: ...

    @overload
    def filter(self, transform: Callable[[T], TypeGuard[S]]) -> IterDataset[S]: ...
    @overload
    def filter(self, transform: Callable[[T], TypeIs[S]]) -> IterDataset[S]: ...
    @overload
    def filter(self, transform: FilterOf[T] | Callable[[T], object]) -> IterDataset[T]: ...
    def filter(self, transform: Any) -> Any: ...

    def flat_map(self, transform: FlatMapOf[T, S] | Callable[[T], RandomAccessDataSource[S]]) -> IterDataset[S]: ...

    @overload  # type: ignore[override]  # one case after the other, where the shared method has a union
    def batch(
        self, batch_size: int, *, drop_remainder: bool = False, batch_fn: Callable[[Sequence[T]], S]
    ) -> IterDataset[S]: ...
    @overload
    def batch(
        self, batch_size: int, *, drop_remainder: bool = False, batch_fn: None = None, keep_bytes: bool = False
    ) -> IterDataset[Any]: ...
    def batch(self, batch_size: int, **options: Any) -> Any: ...

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
    ) -> IterDataset[Any]: ...

    def seed(self, seed: int | None) -> IterDataset[T]: ...

    @overload
    def apply(self, transformations: AnyMapOf[T, S]) -> IterDataset[S]: ...
    @overload
    def apply(self, transformations: FilterOf[T]) -> IterDataset[T]: ...
    @overload
    def apply(self, transformations: Batch | TfRandomMap | Transformations) -> IterDataset[Any]: ...
    def apply(self, transformations: Any) -> Any: ...
