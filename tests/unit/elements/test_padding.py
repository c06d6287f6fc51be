"""Padding: what arrays of different lengths become, and what is refused."""

import numpy as np
import pytest

from grain import MapDataset, transforms
from grain.experimental import ShapeDtypeStruct, get_element_spec
from grain.transforms import Padding
from support.comparison import plain

SHORT, LONG = np.array([1, 2], np.int16), np.array([3, 4, 5], np.int16)
RECORDS = [
    {"ids": SHORT, "n": 2, "name": "a", "nested": [{"scores": np.ones((1, 2), np.float32)}, None]},
    {"ids": LONG, "n": 3, "name": "bc", "nested": [{"scores": np.ones((4, 2), np.float32)}, None]},
]


def test_the_longest_decides():
    assert plain(Padding()([SHORT, LONG])) == plain(np.array([[1, 2, 0], [3, 4, 5]], np.int16))


@pytest.mark.parametrize(("padding", "length"), [(Padding(multiple_of=2), 4), (Padding(8), 8), (Padding(3), 3)])
def test_length(padding, length):
    assert padding([SHORT, LONG]).shape == (2, length)


def test_a_single_element_is_padded_too():
    assert Padding(4)([SHORT]).tolist() == [[1, 2, 0, 0]]


def test_trees():
    batch = Padding(value=-1)(RECORDS)
    assert list(batch) == sorted(RECORDS[0])
    assert batch["ids"].tolist() == [[1, 2, -1], [3, 4, 5]]
    assert (batch["n"].tolist(), batch["name"].tolist()) == ([2, 3], ["a", "bc"])
    scores, nothing = batch["nested"]
    assert nothing is None
    assert scores["scores"].shape == (2, 4, 2)
    assert (scores["scores"][0, 1:] == -1).all()


def test_settings_by_key():
    batch = Padding({"ids": 5}, value={"nested": np.nan})(RECORDS)
    assert batch["ids"].tolist() == [[1, 2, 0, 0, 0], [3, 4, 5, 0, 0]]
    assert np.isnan(batch["nested"][0]["scores"][0, 1:]).all()


def test_masks_tell_data_from_padding():
    batch = Padding(4, masks="ids")([{"ids": SHORT}, {"ids": np.zeros(0, np.int16)}])
    assert plain(batch["ids_mask"]) == plain(np.array([[True, True, False, False], [False] * 4]))


@pytest.mark.parametrize(
    ("array", "value"), [(np.array(["a", "bc"]), ""), (np.array(["a"]), "x"), (np.array([{}]), None)]
)
def test_values_that_are_no_numbers(array, value):
    assert Padding(3, value=value)([array]).tolist() == [[*array, *[value] * (3 - len(array))]]


def test_arrays_of_two_types_are_joined_like_numpy_does():
    assert Padding()([SHORT, np.ones(1, np.float64)]).dtype == np.result_type(np.int16, np.float64)


REFUSED = {
    "too long": (Padding(2), [LONG], "length 3 cannot be padded to 2: crop"),
    "too long at a key": (Padding({"ids": 2}), RECORDS, "length 3 at 'ids' cannot be padded to 2"),
    "negative in unsigned": (
        Padding(value=-1),
        [np.zeros(1, np.uint8)],
        "padding value -1 does not fit arrays of uint8",
    ),
    "fraction in integers": (Padding(value=0.5), [SHORT], "padding value 0.5 does not fit arrays of int16"),
    "no number in integers": (Padding(value={"ids": np.nan}), RECORDS, "padding value nan does not fit .* at 'ids'"),
    "several numbers": (Padding(value=[1, 2]), [SHORT], r"must be one number, or a dict of them by key, got \[1, 2\]"),
    "number in text": (Padding(), [np.array(["a"])], "padding value 0 does not fit arrays of <U1"),
    "other axes": (Padding(), [np.ones((1, 2)), np.ones((1, 3))], r"shapes differ .*\[\(1, 2\), \(1, 3\)\]"),
    "other number of axes": (Padding(), [np.ones(1), np.ones((1, 3))], "shapes differ in another way"),
    "a number among arrays": (Padding(), [np.ones(1), 1.0], "shapes differ in another way"),
    "lists": (Padding(), [[1, 2], [3]], "differ in structure: .* make arrays of those that are data"),
    "unknown keys": (Padding(masks=["tokens"]), RECORDS, r"names the keys \['tokens'\], but elements are .*'ids'"),
    "keys without dicts": (Padding({"x": 3}), [SHORT], r"names the keys \['x'\], but elements are int16\[2\]"),
    "mask of a number": (Padding(masks=["n"]), RECORDS, "no mask for 'n', which is no array with a length"),
    "mask that is there": (
        Padding(masks=["x"]),
        [{"x": SHORT, "x_mask": SHORT}],
        r"already have the keys \['x_mask'\]",
    ),
    "boundary": (Padding("boundary"), [SHORT], "is for `bucket_by_length`"),
}


@pytest.mark.parametrize(("padding", "values", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_padded_is_refused(padding, values, message):
    with pytest.raises(ValueError, match=message):
        padding(values)


@pytest.mark.parametrize("pad_to", ["shortest", 0, -3, 2.5, None, {"x": "wide"}])
def test_wrong_lengths_are_refused_at_once(pad_to):
    with pytest.raises(ValueError, match="pad_to must be"):
        Padding(pad_to)
    with pytest.raises(ValueError, match="multiple_of must be positive, got 0"):
        Padding(multiple_of=0)


@pytest.mark.parametrize("to_stream", [False, True])
def test_padded_batch_names_itself_in_errors(to_stream):
    dataset = MapDataset.source([SHORT, LONG])
    dataset = dataset.to_iter_dataset() if to_stream else dataset
    with pytest.raises(ValueError, match="cannot be padded to 2") as caught:
        list(dataset.padded_batch(2, pad_to=2))
    assert "batch_fn Padding(pad_to=2" in caught.value.__notes__[0]


class Tokens(transforms.Map):
    def map(self, element):
        return {"ids": np.ones(element, np.int32), "n": element, "pairs": np.ones((element, 2))}

    def output_spec(self, input_spec):
        return {
            "ids": ShapeDtypeStruct((None,), np.int32),
            "n": input_spec,
            "pairs": ShapeDtypeStruct((None, 2), np.float64),
        }


def test_element_spec():
    dataset = MapDataset.range(1, 5).map(Tokens())
    batches = dataset.padded_batch(2, pad_to={"ids": 6}, multiple_of=4, masks=["ids"], drop_remainder=True)
    spec = get_element_spec(batches)
    assert {key: (leaf.shape, leaf.dtype) for key, leaf in spec.items()} == {
        "ids": ((2, 8), np.int32),
        "n": ((2,), np.int64),
        "pairs": ((2, None, 2), np.float64),
        "ids_mask": ((2, 8), np.bool_),
    }
    assert all(len(spec[key].shape) == batch.ndim for key, batch in batches[0].items())
    buckets = dataset.to_iter_dataset().bucket_by_length([4], [2])
    assert get_element_spec(buckets)["pairs"].shape == (None, None, 2)
    assert get_element_spec(dataset.to_iter_dataset().batch_by_cost(9, len))["n"].shape == (None,)
