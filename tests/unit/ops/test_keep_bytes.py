"""Bytes and strings that end in zeros, in batches."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from grain import DataLoader, IndexSampler, MapDataset, MultiprocessingOptions, transforms
from grain.elements import stacking
from grain.experimental import get_element_spec
from grain.graph.specs import ShapeDtypeStruct

KINDS = {
    "bytes": [b"a\0", b"bc", b"\0\0", b""],
    "text": ["a\0", "bc", "\0", ""],
    "NumPy's text": [np.str_("a\0"), np.str_("bc"), "\0", ""],
    "NumPy's bytes": [np.bytes_(b"a\0"), np.bytes_(b"bc"), b"\0", b""],
}


@pytest.fixture
def warnings_of(monkeypatch, caplog):
    monkeypatch.setattr(stacking, "_has_warned", False)
    caplog.set_level(logging.WARNING, "grain")
    return lambda: [record.getMessage() for record in caplog.records]


def loaded(values, *operations, **options):
    sampler = IndexSampler(len(values), num_epochs=1, seed=0)
    return DataLoader(data_source=values, sampler=sampler, operations=operations, **options)


def pair(value):
    return {"key": value, "pixels": np.zeros(20_000)}


class WithIndex(transforms.MapWithIndex):
    def map_with_index(self, index, element):
        return element


def in_a_worker(dataset):
    return dataset.mp_prefetch(MultiprocessingOptions(num_workers=1)).map(lambda batch: batch["key"])


KEEPING = {
    "batch": lambda values, n: MapDataset.source(values).batch(n, keep_bytes=True),
    "batch of a stream": lambda values, n: MapDataset.source(values).to_iter_dataset().batch(n, keep_bytes=True),
    "batch of records": lambda values, n: (
        MapDataset.source(values).map(pair).batch(n, keep_bytes=True).map(lambda batch: batch["key"])
    ),
    "padded_batch": lambda values, n: MapDataset.source(values).padded_batch(n, keep_bytes=True),
    "Batch, applied": lambda values, n: MapDataset.source(values).apply(transforms.Batch(n, keep_bytes=True)),
    "rebatch": lambda values, n: MapDataset.source(values).to_iter_dataset().batch(1, keep_bytes=True).rebatch(n),
    "loader": lambda values, n: loaded(values, transforms.Batch(n, keep_bytes=True)),
    "loader of records": lambda values, n: loaded(values, WithIndex(), transforms.Batch(n, keep_bytes=True)),
    "loader with a worker": lambda values, n: loaded(values, transforms.Batch(n, keep_bytes=True), worker_count=1),
    "a worker": lambda values, n: in_a_worker(
        MapDataset.source(values).map(pair).to_iter_dataset().batch(n, keep_bytes=True)
    ),
    "a worker, by index": lambda values, n: in_a_worker(
        MapDataset.source(values).map(pair).batch(n, keep_bytes=True).to_iter_dataset()
    ),
}


@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, kind) for name in KEEPING for kind in KINDS if not ("worker" in name and "NumPy" in kind)],
)
def test_batches_of_objects_keep_zeros(name, kind, warnings_of):
    values = KINDS[kind]
    for size in (1, 3, 4):
        batches = list(KEEPING[name](values, size))
        assert {batch.dtype for batch in batches} == {np.dtype(object)}
        assert [value for batch in batches for value in batch] == [value[:0].join([value]) for value in values]
    assert warnings_of() == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 4])
def test_other_batches_are_those_of_numpy_with_one_warning(kind, size, warnings_of):
    for _ in range(2):
        for dataset in (MapDataset.source(KINDS[kind]).batch(size), loaded(KINDS[kind], transforms.Batch(size))):
            first = next(iter(dataset))
            expected = np.array(KINDS[kind][:size])
            assert (first.dtype, first.tolist()) == (expected.dtype, expected.tolist())
    (message,) = warnings_of()
    assert "batch(..., keep_bytes=True)" in message


def test_no_warning_where_nothing_is_lost(warnings_of):
    MapDataset.source([b"a\0b", b"c", b""]).batch(3)[0]
    MapDataset.source(["a\0b", "c"]).batch(2)[0]
    MapDataset.source([1, 2]).batch(2)[0]
    assert warnings_of() == []


def test_only_text_becomes_objects():
    batch = MapDataset.source([{"x": 1, "y": np.ones(2), "z": b"\0"}] * 3).batch(3, keep_bytes=True)[0]
    assert {key: (leaf.dtype, leaf.shape) for key, leaf in batch.items()} == {
        "x": (np.dtype(np.int64), (3,)),
        "y": (np.dtype(np.float64), (3, 2)),
        "z": (np.dtype(object), (3,)),
    }


def test_the_spec_of_batches_of_objects():
    class Named(transforms.Map):
        def map(self, element):
            return str(element)

        def output_spec(self, input_spec):
            return ShapeDtypeStruct((), np.dtype(np.str_))

    for dataset in (MapDataset.range(3), MapDataset.range(3).to_iter_dataset()):
        spec = get_element_spec(dataset.map(Named()).batch(2, keep_bytes=True))
        assert (spec.shape, spec.dtype) == ((None,), np.dtype(object))


def test_a_function_joins_elements_itself():
    with pytest.raises(ValueError, match="not with batch_fn="):
        MapDataset.range(3).batch(2, batch_fn=list, keep_bytes=True)
    with pytest.raises(ValueError, match="not with batch_fn="):
        transforms.Batch(2, batch_fn=list, keep_bytes=True)


def test_it_is_shown():
    assert "batch(2, keep_bytes=True)" in repr(MapDataset.range(3).to_iter_dataset().batch(2, keep_bytes=True))
