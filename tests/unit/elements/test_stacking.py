"""Batches: types of stacked leaves, containers, padding, rebatching, and errors that say what differs."""

import functools
import itertools
from collections import OrderedDict, defaultdict, namedtuple
from fractions import Fraction

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grain import MapDataset
from grain.elements.stacking import stacked
from grain.experimental import batch_and_pad

Point = namedtuple("Point", "x y")


def map_batch(values):
    return MapDataset.source(values).batch(len(values))[0]


def iter_batch(values):
    (batch,) = MapDataset.source(values).to_iter_dataset(allow_nones=True).batch(len(values))
    return batch


@pytest.fixture(params=[stacked, map_batch, iter_batch])
def batch_of(request):
    return request.param


LEAVES = {
    "int": ([1, -2], np.int64),
    "large int": ([2**62, 1], np.int64),
    "int above int64": ([2**63, 2**63 + 1], np.uint64),
    "int of two sizes": ([2**63, 1], np.float64),
    "int above uint64": ([2**64, 1], np.object_),
    "float": ([0.5, 1.5], np.float64),
    "bool": ([True, False], np.bool_),
    "complex": ([1j, 2.0 + 0j], np.complex128),
    "str": (["a", "bcd"], "<U3"),
    "bytes": ([b"a", b"bcd"], "S3"),
    "int and float": ([1, 0.5], np.float64),
    "bool and int": ([True, 5], np.int64),
    "int and str": ([1, "a"], "<U21"),
    "np.int8": ([np.int8(1), np.int8(2)], np.int8),
    "np.uint64": ([np.uint64(2**63), np.uint64(1)], np.uint64),
    "np.float16": ([np.float16(1), np.float16(2)], np.float16),
    "np.bool": ([np.True_, np.False_], np.bool_),
    "np.int32 and np.float32": ([np.int32(1), np.float32(2)], np.float64),
    "np.str": ([np.str_("a"), np.str_("bc")], "<U2"),
    "datetime": ([np.datetime64("2020-01-01"), np.datetime64("2021-01-01")], "<M8[D]"),
    "0-d arrays": ([np.array(1, np.int16), np.array(2, np.int16)], np.int16),
    "arrays": ([np.zeros((2, 3), np.float32), np.ones((2, 3), np.float32)], np.float32),
    "arrays of two types": ([np.zeros(2, np.int32), np.ones(2, np.float32)], np.float64),
    "empty arrays": ([np.zeros((0, 3)), np.zeros((0, 3))], np.float64),
    "arrays and numbers": ([np.array(1), 2], np.int64),
    "arrays of str": ([np.array(["a"]), np.array(["bc"])], "<U2"),
    "arrays in Fortran order": ([np.ones((2, 3), order="F"), np.zeros((2, 3))], np.float64),
    "strided arrays": ([np.arange(6)[::2], np.arange(6)[1::2]], np.int64),
    "sets": ([{1}, {2, 3}], np.object_),
    "objects": ([Fraction(1, 2), Fraction(1, 3)], np.object_),
    "a number, then a dict": ([1, {"a": 2}], np.object_),
    "a number, then None": ([1, None], np.object_),
}


@pytest.mark.parametrize(("values", "dtype"), LEAVES.values(), ids=LEAVES)
def test_type_of_stacked_leaves(batch_of, values, dtype):
    batch = batch_of(values)
    expected = np.stack(values)
    assert type(batch) is np.ndarray
    assert batch.dtype == dtype == expected.dtype
    assert batch.shape == (len(values), *np.shape(values[0]))
    assert batch.tolist() == expected.tolist()


def test_trailing_zero_bytes_are_lost(batch_of):
    assert batch_of([b"a\0", b"b\0"]).tolist() == [b"a", b"b"]


CONTAINERS = {
    "dict": ([{"b": 1, "a": 2}, {"a": 3, "b": 4}], {"a": [2, 3], "b": [1, 4]}),
    "list": ([[1, 2], [3, 4]], [[1, 3], [2, 4]]),
    "tuple": ([(1, 2), (3, 4)], ([1, 3], [2, 4])),
    "namedtuple": ([Point(1, 2), Point(3, 4)], Point([1, 3], [2, 4])),
    "OrderedDict": (
        [OrderedDict(b=1, a=2), OrderedDict(b=3, a=4)],
        OrderedDict(b=[1, 3], a=[2, 4]),
    ),
    "defaultdict": ([defaultdict(int, b=1, a=2), defaultdict(int, a=3, b=4)], defaultdict(int, a=[2, 3], b=[1, 4])),
    "nested": ([{"x": [(1,)]}, {"x": [(2,)]}], {"x": [([1, 2],)]}),
    "None": ([None, None], None),
    "None inside": ([{"a": None, "b": 1}, {"a": None, "b": 2}], {"a": None, "b": [1, 2]}),
    "empty dict": ([{}, {}], {}),
    "empty list": ([[], []], []),
    "empty inside": ([{"a": ()}, {"a": ()}], {"a": ()}),
    "integer keys": ([{2: 1, 1: 2}, {1: 3, 2: 4}], {1: [2, 3], 2: [1, 4]}),
}


def listed(tree):
    return jax.tree_util.tree_map(lambda leaf: leaf.tolist(), tree)


@pytest.mark.parametrize(("values", "expected"), CONTAINERS.values(), ids=CONTAINERS)
def test_containers_are_kept(batch_of, values, expected):
    batch = batch_of(values)
    assert type(batch) is type(expected)
    assert listed(batch) == expected
    if isinstance(expected, dict):
        assert list(batch) == list(expected)  # the order of the keys
    if isinstance(expected, defaultdict):
        assert batch.default_factory is int


def test_batch_of_nothing_is_skipped():
    assert list(MapDataset.source([None, None, None]).batch(2)) == []
    assert list(MapDataset.source([None] * 3).to_iter_dataset(allow_nones=True).batch(2)) == [None, None]


# values, and what the error must say
DIFFERENCES = {
    "shapes": ([np.zeros(3), np.zeros(2)], ["float64[3]", "float64[2]", "element 1"]),
    "shapes inside": (
        [{"x": np.zeros((2, 3)), "y": 1}, {"x": np.zeros((2, 3)), "y": 1}, {"x": np.zeros((2, 4)), "y": 1}],
        ["['x']", "float64[2, 3]", "float64[2, 4]", "element 2"],
    ),
    "the same elsewhere": (
        [{"a": np.zeros(2), "b": {"c": np.zeros(3, np.int32)}}, {"a": np.zeros(2), "b": {"c": np.zeros(4, np.int32)}}],
        ["['b']['c']", "int32[3]", "int32[4]"],
    ),
    "a key is missing": ([{"a": 1, "b": 2}, {"a": 1}], ["['b']", "int[]", "nothing", "element 1"]),
    "a key too many": ([{"a": 1}, {"a": 1, "b": 2.5}], ["['b']", "float[]", "nothing", "element 1"]),
    "other keys": ([{"a": 1}, {"b": 1}], ["['a']", "element 1"]),
    "lengths of lists": ([[1, 2], [1]], ["[1]", "int[]", "nothing"]),
    "lengths of lists inside": ([{"a": [1, 2]}, {"a": [1, 2, 3]}], ["['a'][2]", "nothing"]),
    "list and tuple": ([[1, 2], (1, 2)], ["list<int>[2]", "tuple<int>[2]", "element 1"]),
    "list and tuple inside": ([{"a": [1, 2]}, {"a": (1, 2)}], ["['a']", "list", "tuple"]),
    "None first": ([None, 1], ["None", "int[]"]),
    "None first, inside": ([{"a": None}, {"a": 1}], ["['a']", "None", "int[]"]),
    "dict, then a number": ([{"a": 1}, 1], ["{'a': 'int[]'}", "int[]", "element 1"]),
    "kinds of dict": ([OrderedDict(a=1), {"a": 1}], ["OrderedDict", "element 1"]),
    "defaults of a dict": ([defaultdict(int, a=1), defaultdict(float, a=1)], ["int", "float", "element 1"]),
    "orders of an OrderedDict": ([OrderedDict(a=1, b=2), OrderedDict(b=2, a=1)], ["OrderedDict", "element 1"]),
}


@pytest.mark.parametrize(("values", "words"), DIFFERENCES.values(), ids=DIFFERENCES)
def test_error_says_what_differs(batch_of, values, words):
    with pytest.raises(ValueError, match="Expected all input elements to have the same structure but got:") as raised:
        batch_of(values)
    for word in [*words, "batch_fn"]:
        assert word in str(raised.value)


def test_unsortable_keys(batch_of):
    with pytest.raises(ValueError, match=r"keys .* comparable, got \[1, 'a'\]"):
        batch_of([{1: 1, "a": 2}, {1: 1, "a": 2}])


@pytest.mark.parametrize(
    ("usual", "other"),
    [({"x": np.zeros(2)}, {"x": np.zeros(3)}), ({"x": [1]}, {"x": (1,)}), ({"x": 1}, {"y": 1})],
)
def test_error_is_short_and_finds_the_one_that_differs(usual, other):
    with pytest.raises(ValueError, match="element 500") as raised:
        stacked([usual] * 500 + [other])
    assert len(str(raised.value)) < 1000


def test_empty_batch():
    with pytest.raises(ValueError, match="Cannot batch 0 values"):
        stacked([])


def test_batch_of_one_is_a_view():
    array = np.arange(6).reshape(2, 3)
    batch = stacked([{"a": array, "b": [5]}])
    assert batch["a"].shape == (1, 2, 3)
    assert np.shares_memory(batch["a"], array)
    assert batch["b"][0].tolist() == [5]


def test_batch_of_several_is_no_view():
    array = np.arange(3)
    assert not np.shares_memory(stacked([array, array]), array)


PADDED = {
    "int": ([1, 2], 4, 0, [1, 2, 0, 0]),
    "value": ([1, 2], 3, -1, [1, 2, -1]),
    "full": ([1, 2], 2, -1, [1, 2]),
    "one": ([7], 3, 0, [7, 0, 0]),
    "bool": ([True], 2, 0, [True, False]),
    "str is cut": (["ab"], 3, "zzz", ["ab", "zz", "zz"]),
    "arrays": ([np.array([1, 2])], 2, 9, [[1, 2], [9, 9]]),
    "tree": ([{"a": 1, "b": [np.zeros(2)]}], 2, 5, {"a": [1, 5], "b": [[[0, 0], [5, 5]]]}),
    "None": ([{"a": None, "b": 1}], 2, 5, {"a": None, "b": [1, 5]}),
}


@pytest.mark.parametrize(("values", "size", "pad_value", "expected"), PADDED.values(), ids=PADDED)
def test_batch_and_pad(values, size, pad_value, expected):
    batch = batch_and_pad(values, batch_size=size, pad_value=pad_value)
    assert listed(batch) == expected
    dtypes = [np.asarray(leaf).dtype for leaf in jax.tree_util.tree_leaves(values[0])]
    assert [leaf.dtype for leaf in jax.tree_util.tree_leaves(batch)] == dtypes


def test_batch_and_pad_as_batch_fn():
    batch_fn = functools.partial(batch_and_pad, batch_size=3)
    expected = [[0, 1, 2], [3, 4, 0]]
    assert [batch.tolist() for batch in MapDataset.range(5).batch(3, batch_fn=batch_fn)] == expected
    assert [batch.tolist() for batch in MapDataset.range(5).to_iter_dataset().batch(3, batch_fn=batch_fn)] == expected


@pytest.mark.parametrize(
    ("values", "message"),
    [([], "Cannot batch 0 values"), ([1, 2, 3], "Cannot batch 3 values to 2"), ([[1], (1,)], "the same structure")],
)
def test_batch_and_pad_refuses(values, message):
    with pytest.raises(ValueError, match=message):
        batch_and_pad(values, batch_size=2)


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=6),
    st.integers(1, 7),
    st.booleans(),
)
@settings(deadline=None, derandomize=True, max_examples=100)
def test_rebatch(sizes, size, drop_remainder):
    ends = np.cumsum([0, *sizes])
    batches = [
        {"x": np.arange(start, stop), "y": [np.arange(2 * start, 2 * stop).reshape(-1, 2)]}
        for start, stop in itertools.pairwise(ends)
    ]
    found = list(MapDataset.source(batches).to_iter_dataset().rebatch(size, drop_remainder=drop_remainder))
    total = int(ends[-1])
    stops = [stop for stop in range(size, total + size, size) if stop <= total or not drop_remainder]
    assert [batch["x"].tolist() for batch in found] == [list(range(stop - size, min(stop, total))) for stop in stops]
    for batch in found:
        assert (batch["y"][0] == np.stack([2 * batch["x"], 2 * batch["x"] + 1], axis=1)).all()


def test_rebatch_of_one_parent_batch_is_a_view():
    array = np.arange(6)
    first, second = MapDataset.source([array]).to_iter_dataset().rebatch(3)
    assert np.shares_memory(first, array)
    assert np.shares_memory(second, array)
