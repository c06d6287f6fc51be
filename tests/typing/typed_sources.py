"""What type checkers say of sources and of the datasets that read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex, assert_type

import numpy as np
import numpy.typing as npt

import grain
from grain import MapDataset
from grain import sources as files


class Squares:
    """A source of a user's own."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> float:
        return float(index**2)


class Cubes(grain.RandomAccessDataSource[int]):
    """One that says so."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, record_key: SupportsIndex) -> int:
        return int(record_key) ** 3


class Unsized:
    def __getitem__(self, index: int) -> int:
        return index


class ByName:
    def __len__(self) -> int:
        return 3

    def __getitem__(self, name: str) -> int:
        return len(name)


def sequences(sequence: Sequence[bytes], pair: tuple[int, int]) -> None:
    assert_type(MapDataset.source([1, 2]), MapDataset[int])
    assert_type(MapDataset.source(pair), MapDataset[int])
    assert_type(MapDataset.source("ab"), MapDataset[str])
    assert_type(MapDataset.source(b"ab"), MapDataset[int])
    assert_type(MapDataset.source(range(3)), MapDataset[int])
    assert_type(MapDataset.source([{"x": 1.5}]), MapDataset[dict[str, float]])
    assert_type(MapDataset.source(sequence), MapDataset[bytes])
    assert_type(MapDataset.source(MapDataset.range(3)), MapDataset[int | None])


def arrays(array: npt.NDArray[np.float32]) -> None:
    assert_type(MapDataset.source(array), MapDataset[Any])  # rows or numbers: that is a matter of the shape
    assert_type(MapDataset.source(files.NumpyDataSource({"x": array})), MapDataset[Any])


def objects() -> None:
    assert_type(MapDataset.source(Squares()), MapDataset[float])
    assert_type(MapDataset.source(Cubes()), MapDataset[int])
    declared: grain.RandomAccessDataSource[float] = Squares()
    assert_type(declared[0], float)
    MapDataset.source(3)  # type: ignore[arg-type]
    MapDataset.source({1, 2})  # type: ignore[arg-type]
    MapDataset.source(Unsized())  # type: ignore[arg-type]
    MapDataset.source(ByName())  # type: ignore[arg-type]
    MapDataset.source(iter([1]))  # type: ignore[arg-type]


def formats() -> None:
    assert_type(files.ArrayRecordDataSource("x")[0], bytes)
    assert_type(MapDataset.source(files.ArrayRecordDataSource("x")), MapDataset[bytes])
    assert_type(MapDataset.source(files.TFRecordDataSource("x")), MapDataset[bytes])
    assert_type(MapDataset.source(files.ParquetDataSource("x")), MapDataset[dict[str, Any]])
    assert_type(MapDataset.source(files.ArrowDataSource(["x", "y"])), MapDataset[dict[str, Any]])
    assert_type(MapDataset.source(files.CsvDataSource("x")), MapDataset[dict[str, Any]])
    assert_type(MapDataset.source(files.WebDatasetDataSource("x")), MapDataset[dict[str, Any]])
    assert_type(MapDataset.source(files.ImageFolderDataSource("x")), MapDataset[dict[str, Any]])
    assert_type(MapDataset.source(files.JsonLinesDataSource("x")), MapDataset[Any])
    assert_type(MapDataset.source(files.RangeDataSource(0, 9, 2)), MapDataset[int])
    assert_type(files.open_source("x"), grain.RandomAccessDataSource[Any])
    files.ParquetDataSource(3)  # type: ignore[arg-type]


def memory() -> None:
    assert_type(files.SharedMemoryDataSource(["a"]), files.SharedMemoryDataSource[str])
    assert_type(files.InMemoryDataSource(["a"], name="words")[0], str)
    assert_type(MapDataset.source(files.SharedMemoryDataSource([1, 2])), MapDataset[int])
    assert_type(files.SharedMemoryDataSource(name="words"), files.SharedMemoryDataSource[Any])
    files.SharedMemoryDataSource()  # type: ignore[call-overload]


def writing() -> None:
    assert_type(files.write([b"a"], "x.arrayrecord"), list[str])
    files.write(MapDataset.range(3), "x.arrayrecord", encode=lambda number: str(number).encode())
    files.write(Squares(), "x.parquet", encode=lambda square: {"square": square})
    files.write(3, "x.parquet")  # type: ignore[call-overload]
    files.write(["a"], "x.parquet", encode=abs)  # type: ignore[arg-type]
