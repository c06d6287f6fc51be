"""Rows hold what documents have, or the document is refused: no value is changed in silence."""

from __future__ import annotations

import numpy as np
import pytest

from grain import DataLoader, IndexSampler, MapDataset
from grain.elements.fitting import fitted
from grain.experimental import BOSHandling, batch_and_pad
from grain.ops.pack_and_batch import PackAndBatchOperation
from grain.transforms import Padding

NAN = float("nan")

MISFITS = {
    "a fraction in ints": (np.array([1, 2]), np.array([0.5])),
    "not a number in ints": (np.array([1, 2]), np.array([NAN])),
    "infinity in ints": (np.array([1, 2]), np.array([np.inf])),
    "more than ints hold": (np.array([1], np.int32), np.array([2**40])),
    "more than bytes hold": (np.array([1], np.uint8), np.array([256])),
    "a negative number in unsigned ones": (np.array([1], np.uint64), np.array([-1])),
    "half of the unsigned numbers in signed ones": (np.array([1], np.int64), np.array([2**63], np.uint64)),
    "a large float in ints": (np.array([1]), np.array([1e19])),
    "an int between two floats": (np.array([0.5], np.float32), np.array([2**24 + 1])),
    "an int between two doubles": (np.array([0.5]), np.array([2**53 + 1])),
    "the largest int in doubles": (np.array([0.5]), np.array([2**63 - 1])),
    "more than floats hold": (np.array([0.5], np.float32), np.array([1e300])),
    "2 in truths": (np.array([True]), np.array([2])),
    "a fraction in truths": (np.array([True]), np.array([0.5])),
    "an imaginary part": (np.array([0.5]), np.array([1j])),
    "an object that is no number": (np.array([1]), np.array([None], object)),
    "text among objects": (np.array([1]), np.array(["a"], object)),
    "an int beyond 64 bits": (np.array([1]), np.array([2**70], object)),
    "text": (np.array([1]), np.array(["a"])),
    "text that is another number": (np.array([1]), np.array(["007"])),
    "longer text": (np.array(["a"]), np.array(["abc"])),
    "longer bytes": (np.array([b"a"]), np.array([b"abc"])),
    "a long number in text": (np.array(["a"]), np.array([12])),
    "a time in dates": (np.array(["2020-01-01"], "M8[D]"), np.array(["2020-01-01T10"], "M8[h]")),
}

FITTING = {
    "narrower ints": (np.array([1], np.int64), np.array([2], np.int8)),
    "wider ints": (np.array([1], np.int8), np.array([-128, 127])),
    "unsigned ints": (np.array([1], np.uint8), np.array([0, 255])),
    "whole floats in ints": (np.array([1]), np.array([3.0, -4.0])),
    "truths in ints": (np.array([1]), np.array([True, False])),
    "0 and 1 in truths": (np.array([True]), np.array([0, 1])),
    "ints in floats": (np.array([0.5], np.float32), np.array([2**24, -7])),
    "narrower floats": (np.array([0.5]), np.array([0.25, NAN, np.inf], np.float16)),
    "wider floats, which are rounded": (np.array([0.5], np.float32), np.array([0.1, NAN, -np.inf])),
    "no imaginary part": (np.array([0.5]), np.array([2 + 0j])),
    "ints among objects": (np.array([1]), np.array([7, 8], object)),
    "anything in objects": (np.array([None], object), np.array([7])),
    "text that is a number": (np.array([1]), np.array(["7"])),
    "shorter text": (np.array(["abc"]), np.array(["a"])),
    "nothing": (np.array([1]), np.array([], np.float64)),
    "dates in times": (np.array(["2020-01-01T10"], "M8[h]"), np.array(["2020-01-02", "NaT"], "M8[D]")),
}


@pytest.mark.parametrize("name", MISFITS)
def test_what_does_not_fit(name):
    row, values = MISFITS[name]
    with pytest.raises(ValueError, match="of x does not fit an array of"):
        fitted(values, row.dtype, "of x")
    with pytest.raises(ValueError, match="of x does not fit an array of"):
        fitted(np.stack([values, values]), row.dtype, "of x")


def as_in(row, values):
    return (values.real if values.dtype.kind == "c" else values).astype(row.dtype).tolist()


@pytest.mark.parametrize("name", FITTING)
def test_what_fits(name):
    row, values = FITTING[name]
    assert str(fitted(values, row.dtype, "").tolist()) == str(as_in(row, values))


PACKS = {
    "pack_first_fit": lambda ds: ds.pack_first_fit(length_struct={"t": 9}, num_packing_bins=2, shuffle_bins=False),
    "pack_best_fit": lambda ds: ds.pack_best_fit(length_struct={"t": 9}, num_packing_bins=1),
    "concat_and_split": lambda ds: ds.concat_and_split(length_struct={"t": 9}),
    "concat_and_split of more": lambda ds: ds.map(lambda x: {**x, "u": np.array([1])}).concat_and_split(
        length_struct={"t": 9, "u": 9}
    ),
}


def stream(*documents):
    return MapDataset.source([{"t": document} for document in documents]).to_iter_dataset()


@pytest.mark.parametrize("pack", PACKS)
@pytest.mark.parametrize("name", MISFITS)
def test_a_document_that_does_not_fit_its_row_is_told_and_passed_over(name, pack):
    row, values = MISFITS[name]
    iterator = iter(PACKS[pack](stream(row, values, row)))
    with pytest.raises(ValueError, match=r"in feature 't' of a document does not fit an array of") as raised:
        next(iterator)
    assert any("for the element at index 1." in note for note in raised.value.__notes__)
    (packed,) = iterator
    assert packed["t"].dtype == row.dtype
    assert packed["t"][: 2 * len(row)].tolist() == [*row.tolist(), *row.tolist()]


@pytest.mark.parametrize("pack", PACKS)
@pytest.mark.parametrize("name", FITTING)
def test_a_document_that_fits_its_row_is_in_it(name, pack):
    row, values = FITTING[name]
    (packed,) = PACKS[pack](stream(row, values))
    whole = [*row.tolist(), *as_in(row, values)]
    assert str(packed["t"][: len(whole)].tolist()) == str(whole)


def test_a_row_takes_the_type_of_the_document_that_it_begins_with():
    rows = list(stream(np.array([1, 2]), np.array([0.5, 1.5])).concat_and_split(length_struct={"t": 2}))
    assert [row["t"].tolist() for row in rows] == [[1, 2], [0.5, 1.5]]
    with pytest.raises(ValueError, match=r"0\.5 in feature 't' of a document does not fit an array of int64"):
        list(stream(np.array([1, 2]), np.array([0.5, 1.5])).concat_and_split(length_struct={"t": 3}))


@pytest.mark.parametrize(("padding", "dtype"), [(0.5, np.int32), (-1, np.uint8), (300, np.uint8), (NAN, np.int64)])
def test_padding_and_first_tokens_that_do_not_fit(padding, dtype):
    documents = stream(np.array([1, 2], dtype))
    with pytest.raises(ValueError, match="as padding of feature 't' does not fit"):
        list(documents.pack_first_fit(length_struct={"t": 9}, num_packing_bins=1, padding_struct={"t": padding}))
    bos = {"bos_handling": BOSHandling.REPLACE_FIRST_TOKEN_WITH_BOS, "bos_features": ["t"], "bos_token_id": padding}
    with pytest.raises(ValueError, match="as bos_token_id of 't' does not fit"):
        list(documents.concat_and_split(length_struct={"t": 9}, **bos))


@pytest.mark.parametrize(
    ("value", "padding"), [(1, 0.5), (np.uint8(1), -1), (1, NAN), (True, 2), (np.float32(1), 1e300), (1, 2**70)]
)
def test_batch_and_pad(value, padding):
    with pytest.raises(ValueError, match="as pad_value does not fit an array of"):
        batch_and_pad([value], batch_size=2, pad_value=padding)


def test_padded_batches_of_several_types():
    def batch(*values):
        return Padding()([{"x": value} for value in values])["x"].tolist()

    assert batch(np.array([1]), np.array([0.5, 2])) == [[1, 0], [0.5, 2]]
    with pytest.raises(ValueError, match=f"{2**53 + 1} in element 0 at 'x' does not fit an array of float64"):
        batch(np.array([2**53 + 1]), np.array([0.5]))
    with pytest.raises(ValueError, match=f"{2**63 + 1} in element 1 at 'x' does not fit an array of float64"):
        batch(np.array([-1]), np.array([2**63 + 1], np.uint64))


def test_pack_and_batch():
    documents = [np.array([1]), np.array([2.0]), np.array([0.5])]
    loader = DataLoader(
        data_source=[{"t": document} for document in documents],
        sampler=IndexSampler(3, num_epochs=1, seed=1),
        operations=[PackAndBatchOperation(length_struct={"t": 4}, batch_size=1)],
    )
    with pytest.raises(ValueError, match=r"0\.5 in feature \('t',\) of record 2 does not fit an array of int64"):
        list(loader)
