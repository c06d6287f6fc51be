"""Packing, as classes: the names that Grain has for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from grain.api.dataset_iterator import NodeIterator
from grain.api.iter_dataset import NodeIterDataset
from grain.ops.custom import iter_node_of
from grain.ops.pack_and_batch import PackAndBatchOperation
from grain.ops.packing import PackingOptions, pack_best_fit_node, pack_first_fit_node
from grain.ops.splitting import BOSHandling, SplittingOptions, concat_and_split_node

if TYPE_CHECKING:
    from grain.api.dataset import Dataset

__all__ = [
    "BOSHandling",
    "BestFitPackIterDataset",
    "ConcatThenSplitIterDataset",
    "FirstFitPackIterDataset",
    "PackAndBatchOperation",
]


class _PackIterDataset(NodeIterDataset[dict[str, Any]]):
    def __iter__(self) -> PackDatasetIterator:
        return PackDatasetIterator(self._node)


class FirstFitPackIterDataset(_PackIterDataset):
    """`parent.pack_first_fit(...)`."""

    def __init__(self, parent: Dataset[Mapping[str, Any]], **options: Unpack[PackingOptions]) -> None:
        super().__init__(pack_first_fit_node(iter_node_of(parent), **options))


class BestFitPackIterDataset(_PackIterDataset):
    """`parent.pack_best_fit(...)`."""

    def __init__(self, parent: Dataset[Mapping[str, Any]], **options: Unpack[PackingOptions]) -> None:
        super().__init__(pack_best_fit_node(iter_node_of(parent), **options))


class PackDatasetIterator(NodeIterator[dict[str, Any]]):
    """An iterator over packed rows."""

    def get_packed_batch_size_bytes(self) -> int:
        """The size of all rows that are filled at a time; known from the first element on."""
        stream: Any = self._stream
        return stream.operator.batch_bytes(stream.state)  # type: ignore[no-any-return]


class ConcatThenSplitIterDataset(NodeIterDataset[dict[str, np.ndarray[Any, Any]]]):
    """`parent.concat_and_split(...)`."""

    def __init__(self, parent: Dataset[Mapping[str, Any]], **options: Unpack[SplittingOptions]) -> None:
        super().__init__(concat_and_split_node(iter_node_of(parent), **options))
