"""Trees as JAX sees them, with and without JAX: structure, leaves, and stacking compared with `jax.tree_util`."""

import subprocess
import sys
from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass
from fractions import Fraction

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grain import MapDataset
from grain.elements.stacking import stacked
from grain.elements.trees import flatten, flatten_with_path, map_structure, spec_like

Point = namedtuple("Point", "x y")


@jax.tree_util.register_pytree_node_class
class Pair:
    def __init__(self, first, second):
        self.first, self.second = first, second

    def tree_flatten(self):
        return (self.first, self.second), None

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children)


class Unregistered:
    pass


def test_pytrees_registered_with_jax():
    batch = stacked([{"pair": Pair(1, [2, None])}, {"pair": Pair(3, [4, None])}])
    assert type(batch["pair"]) is Pair
    assert batch["pair"].first.tolist() == [1, 3]
    assert batch["pair"].second[0].tolist() == [2, 4]
    assert batch["pair"].second[1] is None


def test_unregistered_classes_are_leaves():
    values = [Unregistered(), Unregistered()]
    assert stacked(values).tolist() == values


SHAPES = st.sampled_from([(), (1,), (3,), (2, 0), (2, 3)])
ARRAY_TYPES = st.sampled_from(["i1", "u2", "i4", "i8", "u8", "f2", "f4", "f8", "?", "c8", "U2", "S3", ">i4", "O"])


@st.composite
def leaf_columns(draw, count):
    """`count` leaves that can stand in one place."""

    def times(strategy):
        return draw(st.lists(strategy, min_size=count, max_size=count))

    kind = draw(st.sampled_from(["array", "int", "float", "bool", "str", "bytes", "scalar", "object", "number"]))
    if kind == "array":
        shape, dtype = draw(SHAPES), draw(ARRAY_TYPES)
        return [np.full(shape, value, dtype=dtype) for value in times(st.integers(0, 9))]
    if kind == "scalar":
        scalar = draw(st.sampled_from([np.int8, np.uint16, np.int64, np.uint64, np.float16, np.float32, np.bool_]))
        return [scalar(value) for value in times(st.integers(0, 9))]
    strategies = {
        "int": st.integers(-(2**65), 2**65),
        "float": st.floats(allow_nan=False),
        "bool": st.booleans(),
        "str": st.text("ab\0", max_size=3),
        "bytes": st.binary(max_size=3),
        "object": st.sampled_from([Fraction(1, 3), frozenset({1})]),
        "number": st.one_of(st.integers(-9, 9), st.floats(-1, 1), st.booleans()),
    }
    return times(strategies[kind])


@st.composite
def tree_columns(draw, count, depth=3):
    """`count` trees of the same structure."""
    kind = draw(st.sampled_from(["leaf", "leaf", "dict", "list", "tuple", "Point", "OrderedDict", "None", "Pair"]))
    if kind == "leaf" or depth == 0:
        return draw(leaf_columns(count))
    if kind == "None":
        return [None] * count
    size = 2 if kind in ("Point", "Pair") else draw(st.integers(0, 3))
    columns = [draw(tree_columns(count, depth - 1)) for _ in range(size)]
    rows = list(zip(*columns, strict=True)) if columns else [()] * count
    if kind in ("dict", "OrderedDict"):
        keys = draw(st.permutations("abc"))[:size]
        order = list(range(size)) if kind == "OrderedDict" else draw(st.permutations(range(size)))
        build = dict if kind == "dict" else OrderedDict
        first = [build(zip(keys, row, strict=True)) for row in rows[:1]]
        return first + [build((keys[place], row[place]) for place in order) for row in rows[1:]]
    builds = {"list": list, "tuple": tuple, "Point": lambda row: Point(*row), "Pair": lambda row: Pair(*row)}
    return [builds[kind](row) for row in rows]


def assert_same(found, expected):
    assert jax.tree_util.tree_structure(found) == jax.tree_util.tree_structure(expected)
    for leaf, wanted in zip(jax.tree_util.tree_leaves(found), jax.tree_util.tree_leaves(expected), strict=True):
        assert type(leaf) is type(wanted)
        assert (leaf.dtype, leaf.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_array_equal(leaf, wanted)


def stacked_by_jax(values):
    def stack(*leaves):
        return np.stack(leaves) if len(leaves) > 1 else np.expand_dims(leaves[0], 0)  # which keeps the byte order

    return jax.tree_util.tree_map(stack, *values)


@given(st.integers(1, 4).flatmap(tree_columns))
@settings(deadline=None, derandomize=True, max_examples=300)
def test_like_trees_are_stacked_as_by_jax(values):
    assert_same(stacked(values), stacked_by_jax(values))


@given(st.lists(tree_columns(1, depth=2), min_size=2, max_size=3))
@settings(deadline=None, derandomize=True, max_examples=300)
def test_unlike_trees_are_refused_where_jax_refuses_them(columns):
    values = [column[0] for column in columns]
    try:
        expected = stacked_by_jax(values)
    except ValueError:
        with pytest.raises(ValueError, match="Expected all input elements to have the same structure"):
            stacked(values)
    else:
        assert_same(stacked(values), expected)


def test_error_for_registered_classes_says_what_differs():
    with pytest.raises(ValueError, match=r"float64\[2\].*float64\[3\].*element 1"):
        stacked([Pair(np.zeros(2), 1), Pair(np.zeros(3), 1)])


@given(tree_columns(1))
@settings(deadline=None, derandomize=True, max_examples=100)
def test_flatten_and_map_as_jax_does(column):
    (tree,) = column
    leaves = jax.tree_util.tree_leaves(tree)
    assert [id(leaf) for leaf in flatten(tree)] == [id(leaf) for leaf in leaves]
    assert [id(leaf) for _, leaf in flatten_with_path(tree)] == [id(leaf) for leaf in leaves]
    assert flatten(map_structure(id, tree)) == [id(leaf) for leaf in leaves]
    assert jax.tree_util.tree_structure(map_structure(id, tree)) == jax.tree_util.tree_structure(tree)


PATHS = {
    "leaf": (5, [((), 5)]),
    "dict": ({"b": 1, "a": {"c": 2}}, [(("a", "c"), 2), (("b",), 1)]),
    "sequences": ([1, (2, 3)], [((0,), 1), ((1, 0), 2), ((1, 1), 3)]),
    "namedtuple": (Point(1, 2), [(("x",), 1), (("y",), 2)]),
    "OrderedDict": (OrderedDict(b=1, a=2), [(("b",), 1), (("a",), 2)]),
    "None": ({"a": None, "b": 1}, [(("b",), 1)]),
    "empty": ({"a": [], "b": {}}, []),
}


@pytest.mark.parametrize(("tree", "paths"), PATHS.values(), ids=PATHS)
def test_paths(tree, paths):
    assert flatten_with_path(tree) == paths


def test_map_structure_of_several_trees():
    assert map_structure(lambda x, y: x + y, {"b": 1, "a": (2,)}, {"a": (20,), "b": 10}) == {"a": (22,), "b": 11}
    assert map_structure(lambda x, y: (x, y), [1], [{"a": 2}]) == [(1, {"a": 2})]  # what stands in place of a leaf


@pytest.mark.parametrize("other", [{"a": 1, "c": 2}, {"a": 1}, [1, 2], 5, None])
def test_map_structure_of_trees_that_differ(other):
    with pytest.raises(ValueError, match="structure"):
        map_structure(lambda x, y: x, {"a": 1, "b": 2}, other)


@dataclass
class Record:
    name: str
    values: np.ndarray


SPECS = {
    "array": (np.zeros((2, 3), np.float32), "float32[2, 3]"),
    "int": (1, "int[]"),
    "str": ("a", "str[]"),
    "numpy scalar": (np.int8(1), "int8[]"),
    "list of one type": ([1, 2], "list<int>[2]"),
    "empty list": ([], "list<>[0]"),
    "empty tuple": ((), "tuple<>[0]"),
    "ragged": ([np.zeros(2), np.zeros(3)], "list<ndarray>[unknown shape]"),
    "dict": ({"b": 1, "a": [1, "x"]}, {"a": ["int[]", "str[]"], "b": "int[]"}),
    "list of dicts": ([{"a": 1}, {"a": 2}], "list<dict>[2]"),
    "None": ({"a": None}, {"a": None}),
    "dataclass": (Record("a", np.zeros(2)), "Record\n{'name': 'str[]', 'values': 'float64[2]'}[]"),
    "list of two types": ([1, 2.5], ["int[]", "float[]"]),
}


@pytest.mark.parametrize(("tree", "spec"), SPECS.values(), ids=SPECS)
def test_spec_like(tree, spec):
    assert spec_like(tree) == spec


def test_trees_are_the_same_without_jax():
    script = """
import sys, grain
from collections import defaultdict
elements = [{"b": (1, None), "a": 2}, {"a": 3, "b": (4, None)}]
batch = grain.MapDataset.source(elements).batch(2)[0]
assert list(batch) == ["a", "b"], batch
assert batch["a"].tolist() == [2, 3] and batch["b"][1] is None, batch
for wrong in ([{"a": 1}, {"b": 1}], [[1, 2], [1]], [[1], (1,)], [None, 1], [{"a": None}, {"a": 1}]):
    for dataset in (grain.MapDataset.source(wrong), grain.MapDataset.source(wrong).to_iter_dataset(allow_nones=True)):
        try:
            list(dataset.batch(2))
        except ValueError as error:
            assert "same structure" in str(error), error
        else:
            raise AssertionError(wrong)
mixed = grain.IterDataset.mix({"b": grain.MapDataset.range(10, 12), "a": grain.MapDataset.range(2)})
assert list(mixed) == [0, 10, 1, 11], list(mixed)
assert not [name for name in sys.modules if name.partition(".")[0] in ("jax", "jaxlib")]
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_jax_imported_later_counts():
    script = """
import grain, numpy as np
batches = grain.MapDataset.source([1, 2]).batch(2)
assert batches[0].tolist() == [1, 2]
import jax
from functools import partial
@partial(jax.tree_util.register_dataclass, data_fields=["x"], meta_fields=[])
class Box:
    def __init__(self, x):
        self.x = x
box = grain.MapDataset.source([Box(1), Box(2)]).batch(2)[0]
assert type(box) is Box and box.x.tolist() == [1, 2], box
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_jax_arrays_are_leaves():
    elements = [{"x": jax.numpy.ones(2)}, {"x": jax.numpy.zeros(2)}]
    (batch,) = MapDataset.source(elements).batch(2)
    assert type(batch["x"]) is np.ndarray
    assert batch["x"].tolist() == [[1, 1], [0, 0]]


def test_default_factories_are_kept():
    assert map_structure(str, defaultdict(list, a=1)).default_factory is list
