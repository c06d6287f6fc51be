"""PackAndBatchOperation: batches of packed rows in a DataLoader."""

import numpy as np
import pytest

from grain import DataLoader, IndexSampler, ReadOptions, Record, RecordMetadata
from grain.experimental import PackAndBatchOperation

INLINE = ReadOptions(num_threads=0, prefetch_buffer_size=0)


def packed_batches(documents, length_struct, batch_size, **options):
    loader = DataLoader(
        data_source=documents,
        sampler=IndexSampler(len(documents), num_epochs=1),
        operations=[PackAndBatchOperation(length_struct, batch_size, **options)],
        read_options=INLINE,
    )
    return list(loader)


def test_batches_of_packed_rows():
    documents = [{"b": np.arange(1, n + 1), "a": np.ones((n, 2), np.float32)} for n in (3, 1, 4, 1, 5)]
    first, second = packed_batches(documents, {"b": 6, "a": 6}, batch_size=2)
    values, segment_ids, positions = first
    assert list(values) == list(segment_ids) == list(positions) == ["a", "b"]
    assert values["b"].tolist() == [[1, 2, 3, 1, 1, 0], [1, 2, 3, 4, 0, 0]]
    assert segment_ids["b"].tolist() == [[1, 1, 1, 2, 3, 0], [1, 1, 1, 1, 0, 0]]
    assert positions["a"].tolist() == [[0, 1, 2, 0, 0, 0], [0, 1, 2, 3, 0, 0]]
    assert values["a"].shape == (2, 6, 2)
    assert second[1]["b"].tolist() == [[1, 1, 1, 1, 1, 0], [0] * 6], "the last batch is of full size"


def test_batches_have_the_metadata_of_their_last_record():
    records = [Record(RecordMetadata(index, record_key=9), {"a": np.arange(2)}) for index in range(5, 8)]
    operation = PackAndBatchOperation({"a": 3}, batch_size=2)
    assert [record.metadata for record in operation(iter(records))] == [RecordMetadata(6), RecordMetadata(7)]
    assert list(operation(iter([]))) == []


def test_a_limit_of_documents_in_a_row_of_a_batch():
    batches = packed_batches([np.arange(1)] * 3, 4, batch_size=2, max_sequences_per_bin=1)
    assert [segment_ids.tolist() for _, segment_ids, _ in batches] == [
        [[1, 0, 0, 0], [1, 0, 0, 0]],
        [[1, 0, 0, 0], [0] * 4],
    ]


def test_documents_that_do_not_fit_into_batches():
    with pytest.raises(ValueError, match="Inputs to PackAndBatchOperation must be truncated to max length"):
        packed_batches([{"a": np.arange(9)}], {"a": 6}, batch_size=2)
    with pytest.raises(ValueError, match="structure"):
        packed_batches([{"a": np.arange(2), "z": 3}], {"a": 6}, batch_size=2)
