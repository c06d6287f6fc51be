"""What type checkers say of users' own datasets and iterators."""

from __future__ import annotations

from typing import Any, TypeVar, assert_type, overload

import grain
from grain import DatasetIterator, IterDataset, MapDataset

T = TypeVar("T")


class Squares(MapDataset[int]):
    """A source, as short as it can be."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: Any) -> Any:
        return index**2 if isinstance(index, int) else self.slice(index)


class Reversed(MapDataset[T]):
    """An operator on elements of any type, that says all."""

    def __init__(self, parent: MapDataset[T]) -> None:
        super().__init__(parent)
        self.parent = parent

    def __len__(self) -> int:
        return len(self.parent)

    @overload
    def __getitem__(self, index: slice) -> MapDataset[T]: ...
    @overload
    def __getitem__(self, index: int) -> T | None: ...
    def __getitem__(self, index: int | slice) -> MapDataset[T] | T | None:
        return self.slice(index) if isinstance(index, slice) else self.parent[len(self) - 1 - index]


class Untyped(MapDataset):  # type: ignore[type-arg]
    """A class as in older programs, which mypy takes as it is if it is not strict."""

    def __init__(self, first: MapDataset[int], second: MapDataset[int]) -> None:
        super().__init__([first, second])

    def __len__(self) -> int:
        return len(self._parents[0])

    def __getitem__(self, index: Any) -> Any:
        return self._parents[index % 2][index // 2]


class WithoutSlices(MapDataset[int]):
    """It is told that `dataset[1:]` will not work."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> int:  # type: ignore[override]
        return index


class EveryOther(IterDataset[T]):
    def __init__(self, parent: IterDataset[T]) -> None:
        super().__init__(parent)
        self.parent = parent

    def __iter__(self) -> EveryOtherIterator[T]:
        return EveryOtherIterator(iter(self.parent))


class EveryOtherIterator(DatasetIterator[T]):
    def __init__(self, parent: DatasetIterator[T]) -> None:
        super().__init__(parent)
        self.parent = parent

    def __next__(self) -> T:
        element = next(self.parent)
        next(self.parent, None)
        return element

    def get_state(self) -> dict[str, Any]:
        return self.parent.get_state()

    def set_state(self, state: dict[str, Any]) -> None:
        self.parent.set_state(state)


class WrongIterator(DatasetIterator[int]):
    def __next__(self) -> str:  # type: ignore[override]
        return ""

    def get_state(self) -> dict[str, Any]:
        return {}

    def set_state(self, state: dict[str, Any]) -> None:
        pass


class Incomplete(MapDataset[int]):
    def __len__(self) -> int:
        return 3


def sources() -> None:
    assert_type(Squares().map(str), MapDataset[str])
    assert_type(Squares().seed(1), MapDataset[int])
    assert_type(Squares().shuffle(seed=1), MapDataset[int])
    assert_type(iter(Squares()), DatasetIterator[int])
    assert_type(list(Squares()), list[int])
    assert_type(MapDataset.zip((Squares(), Squares().map(str))), MapDataset[tuple[int, str]])
    Squares().map(len)  # type: ignore[arg-type]
    Incomplete()  # type: ignore[abstract]


def operators() -> None:
    words = MapDataset.source(["a", "b"])
    assert_type(Reversed(words), Reversed[str])
    assert_type(Reversed(words)[0], str | None)
    assert_type(Reversed(words)[:1], MapDataset[str])
    assert_type(Reversed(words).map(len), MapDataset[int])
    assert_type(words.pipe(Reversed), Reversed[str])
    untyped = Untyped(Squares(), Squares())
    assert_type(untyped.map(str), MapDataset[str])  # pyright: ignore[reportUnknownMemberType]
    assert_type(untyped.shuffle(seed=1), MapDataset[Any])
    Reversed([1])  # type: ignore[arg-type]


def streams() -> None:
    words = MapDataset.source(["a", "b"]).to_iter_dataset()
    assert_type(EveryOther(words), EveryOther[str])
    assert_type(next(iter(EveryOther(words))), str)
    assert_type(EveryOther(words).map(len).limit(1), IterDataset[int])
    assert_type(IterDataset.mix([EveryOther(words), words]), IterDataset[str])
    assert_type(grain.experimental.get_next_index(iter(EveryOther(words))), int)
