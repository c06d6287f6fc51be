"""Packing for a DataLoader of older programs: an operation on an iterator of records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from grain.elements.bin_packing import FirstFit
from grain.elements.fitting import fitted
from grain.elements.packed_rows import Feature, RowFormat, as_document
from grain.elements.record import Record
from grain.elements.trees import flatten, flatten_with_path, map_structure
from grain.fields import Fields


class PackAndBatchOperation(Fields):
    """First-fit into batches of `batch_size` rows: (values, segment ids, positions), each like `length_struct`.

    Use `grain.experimental.FirstFitPackIterDataset`, which can be saved and restored.
    """

    length_struct: Any
    batch_size: int
    max_sequences_per_bin: int | None = None

    def __call__(self, input_iterator: Iterator[Record[Any]]) -> Iterator[Record[Any]]:
        """The batches, each with the metadata of its last record."""
        import logging  # only now: `import grain` is to be fast

        logging.getLogger("grain").error(
            "PackAndBatchOperation is deprecated: use grain.experimental.FirstFitPackIterDataset."
        )
        batch, last = _Batch(self), None
        for record in input_iterator:
            documents, index = self._documents(record.data), record.metadata.index
            if not batch.add(documents, index):
                yield self._joined(last, batch)
                batch = _Batch(self)
                batch.add(documents, index)
            last = record
        if last is not None:
            yield self._joined(last, batch)

    def _documents(self, data: Any) -> list[Any]:
        leaves = flatten(map_structure(lambda length, leaf: leaf, self.length_struct, data))
        documents = []
        for (path, length), leaf in zip(flatten_with_path(self.length_struct), leaves, strict=True):
            document = as_document(leaf, str(path))
            if len(document) > length:
                raise ValueError(
                    "Inputs to PackAndBatchOperation must be truncated to max length. "
                    f"Got {len(document)} tokens at {path} for rows of {length}."
                )
            documents.append(document)
        return documents

    def _joined(self, last: Any, batch: _Batch) -> Record[Any]:
        trees = []
        for arrays in batch.columns():
            columns = iter(arrays)
            trees.append(map_structure(lambda length, columns=columns: next(columns), self.length_struct))
        return Record(last.metadata.remove_record_key(), tuple(trees))


class _Batch:
    def __init__(self, operation: PackAndBatchOperation) -> None:
        paths = flatten_with_path(operation.length_struct)
        self._paths, self._lengths = [path for path, _ in paths], [length for _, length in paths]
        self._count = operation.batch_size
        self._bins = FirstFit(self._lengths, [1] * len(self._lengths), self._count, operation.max_sequences_per_bin)
        features = [Feature((str(place),), length, False) for place, length in enumerate(self._lengths)]
        self._format = RowFormat({feature.name: feature.length for feature in features}, features, (), is_sorted=False)
        self._rows: list[list[list[Any]]] = [[[] for _ in features] for _ in range(self._count)]
        """For each row and feature, the documents."""
        self._examples: list[Any] = []

    def add(self, documents: list[Any], index: int) -> bool:
        """Put the record at `index` into a row; False where none has room."""
        self._examples = self._examples or documents
        for row in self._bins.places([[len(document) for document in documents]]):
            columns = zip(self._rows[row], documents, self._examples, self._paths, strict=True)
            for column, document, example, path in columns:
                column.append(fitted(document, example.dtype, f"in feature {path} of record {index}"))
            return True
        return False

    def columns(self) -> Iterator[list[Any]]:
        """The values of all rows, feature by feature, then their segment ids, then their positions."""
        rows = [self._format.row(columns, self._examples) for columns in self._rows]
        for suffix in ("", "_segment_ids", "_positions"):
            names = [f"{feature.name}{suffix}" for feature in self._format.features]
            yield [np.stack([row.element[name] for row in rows]) for name in names]
