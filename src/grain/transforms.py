"""Transformations as objects: classes to derive from where a plain function is not enough.

Annotate the method of a class of your own, and type checkers know what a dataset becomes by it. They look at the method
alone; that it is the method of a class of this module is what the names `_is_...` tell them, which no object has.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from grain.elements.padding import Padding

__all__ = [
    "Batch",
    "BatchTransform",
    "DatasetSelectionMap",
    "Filter",
    "FilterTransform",
    "FlatMap",
    "FlatMapTransform",
    "Map",
    "MapTransform",
    "MapWithIndex",
    "MapWithIndexTransform",
    "Padding",
    "RandomMap",
    "RandomMapTransform",
    "TfRandomMap",
    "Transformation",
    "Transformations",
]


class Map(abc.ABC):
    """Changes one element.

    >>> class Double(Map):
    ...     def map(self, element):
    ...         return 2 * element
    >>> Double().map(3)
    6
    """

    if TYPE_CHECKING:
        _is_map: ClassVar[bool]

    @abc.abstractmethod
    def map(self, element: Any, /) -> Any:
        """The new element; None drops it from a MapDataset."""


class RandomMap(abc.ABC):
    """Changes one element with random numbers of its own."""

    if TYPE_CHECKING:
        _is_random_map: ClassVar[bool]

    @abc.abstractmethod
    def random_map(self, element: Any, rng: np.random.Generator, /) -> Any:
        """The new element; `rng` depends only on the seed and on the element's place."""


class TfRandomMap(abc.ABC):
    """Changes one element with random numbers, for use in a DataLoader."""

    @abc.abstractmethod
    def np_random_map(self, element: Any, rng: np.random.Generator, /) -> Any:
        """The new element."""


class MapWithIndex(abc.ABC):
    """Changes one element, knowing its index."""

    if TYPE_CHECKING:
        _is_map_with_index: ClassVar[bool]

    @abc.abstractmethod
    def map_with_index(self, index: int, element: Any, /) -> Any:
        """The new element."""


class Filter(abc.ABC):
    """Keeps some elements."""

    if TYPE_CHECKING:
        _is_filter: ClassVar[bool]

    @abc.abstractmethod
    def filter(self, element: Any, /) -> bool:
        """Whether the element is kept."""


class FlatMap(abc.ABC):
    """Makes several elements of one, at most `max_fan_out` on a MapDataset."""

    max_fan_out: int
    if TYPE_CHECKING:
        _is_flat_map: ClassVar[bool]

    @abc.abstractmethod
    def flat_map(self, element: Any, /) -> Sequence[Any]:
        """The elements that take the place of `element`."""


@dataclasses.dataclass(frozen=True)
class Batch:
    """Joins `batch_size` consecutive elements, with `batch_fn` or by stacking arrays.

    With `drop_remainder` a last batch of fewer elements is left out; with `keep_bytes` bytes and strings become arrays
    of objects, which keep zeros at the end.

    >>> Batch(8)
    Batch(batch_size=8, drop_remainder=False, batch_fn=None)
    """

    batch_size: int
    drop_remainder: bool = False
    batch_fn: Callable[[Sequence[Any]], Any] | None = None
    keep_bytes: bool = dataclasses.field(default=False, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        if self.keep_bytes and self.batch_fn is not None:
            raise ValueError(f"Batch keeps bytes where it stacks elements itself, not with batch_fn={self.batch_fn}.")


class DatasetSelectionMap(abc.ABC):
    """Says which element of which dataset stands at each index of `MapDataset.select_from_datasets`.

    Indices at and beyond the length are asked for too, by later epochs. It is called in any order and copied to worker
    processes, so it keeps no state.
    """

    @abc.abstractmethod
    def __len__(self) -> int:
        """The number of elements of one epoch."""

    @abc.abstractmethod
    def __getitem__(self, index: int) -> tuple[int, int]:
        """(position of the dataset, index in that dataset)."""


Transformation: TypeAlias = Map | RandomMap | TfRandomMap | MapWithIndex | Filter | FlatMap | Batch
Transformations: TypeAlias = Sequence[Transformation]

# The names of older programs.
MapTransform = Map
RandomMapTransform = RandomMap
MapWithIndexTransform = MapWithIndex
FilterTransform = Filter
FlatMapTransform = FlatMap
BatchTransform = Batch
