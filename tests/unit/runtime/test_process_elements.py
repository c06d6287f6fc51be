"""What crosses from a worker process to the consumer, and where its bytes are."""

from __future__ import annotations

import collections
import dataclasses
import functools
import gc

import jax
import numpy as np
import pytest

from grain import MapDataset
from grain.experimental import DatasetOptions
from grain.runtime.workers import slabs
from support.programs import program
from support.workers import INLINE, images, is_shared, shared_maps, stream, wait_for, workers


class Point:
    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        return type(other) is Point and other.x == self.x


@dataclasses.dataclass
class Sample:
    pixels: np.ndarray
    name: str


Pair = collections.namedtuple("Pair", "a b")


@jax.tree_util.register_pytree_node_class
class Node:
    def __init__(self, x):
        self.x = x

    def tree_flatten(self):
        return (self.x,), None

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children)


def assert_same(got, wanted):
    assert type(got) is type(wanted)
    if isinstance(wanted, np.ndarray):
        assert got.dtype == wanted.dtype
        assert got.flags.writeable
        np.testing.assert_array_equal(got, wanted)
    elif isinstance(wanted, dict):
        assert list(got) == list(wanted)
        for key in wanted:
            assert_same(got[key], wanted[key])
    elif isinstance(wanted, list | tuple):
        assert len(got) == len(wanted)
        for one, other in zip(got, wanted, strict=True):
            assert_same(one, other)
    elif isinstance(wanted, Sample | Node):
        assert_same(vars(got), vars(wanted))
    else:
        assert got == wanted


ELEMENTS = {
    "none in a tuple": (None, 1),
    "text": "grüße\0",
    "bytes": b"\0\1" * 100_000,
    "nested": {"b": [1, (2.5, "x")], "a": {"c": None, "d": np.arange(3)}},
    "large": np.arange(300_000, dtype=np.float32).reshape(100, 3000),
    "large and small": {"large": np.arange(100_000), "small": np.arange(3, dtype=np.int8), "scalar": np.float16(2)},
    "many dtypes": [np.zeros(9000, dtype) for dtype in ("?", "i2", ">f8", "c16", "M8[s]", "U3", "S4", "V5")],
    "nothing in it": {"x": np.zeros((0, 3)), "large": np.ones(100_000)},
    "no dimensions": [np.array(3.5), np.ones(50_000)],
    "not contiguous": np.arange(400_000).reshape(200, 2000)[::2, ::3],
    "fortran order": np.asfortranarray(np.arange(200_000).reshape(400, 500)),
    "transposed": np.arange(200_000).reshape(2, 100, 1000).transpose(2, 0, 1),
    "objects": np.array([None, "x", [1]], dtype=object),
    "structured": np.zeros(20_000, dtype=[("a", "i4"), ("b", "f8", (2,))]),
    "own class": Point(3),
    "arrays in own class": Sample(np.ones((300, 300)), "n"),
    "namedtuple": Pair(np.arange(100_000), "b"),
    "pytree": Node(np.arange(100_000)),
    "set": {1, 2},
    "the same array twice": [np.ones(50_000)] * 2,
    "complex number": 3 + 4j,
    "huge int": 10**40,
}


@pytest.mark.parametrize("min_shm_size", [0, 10_000_000])
@pytest.mark.parametrize("name", ELEMENTS)
def test_any_element_crosses(name, min_shm_size):
    element = ELEMENTS[name]
    dataset = stream(lambda x: element, 3).with_options(DatasetOptions(min_shm_size=min_shm_size))
    for got in dataset.mp_prefetch(workers(1)):
        assert_same(got, element)


def test_classes_and_functions_that_no_one_can_import():
    class Local:
        def __init__(self, x):
            self.x = x

    elements = list(stream(Local, 4).mp_prefetch(workers(2)))
    assert [type(element) for element in elements] == [Local] * 4
    assert [element.x for element in elements] == [0, 1, 2, 3]
    functions = list(stream(lambda x: lambda y: x + y, 3).mp_prefetch(workers(1)))
    assert [function(10) for function in functions] == [10, 11, 12]


@pytest.mark.parametrize(
    "dataset",
    [
        images().batch(4),
        MapDataset.range(40)
        .map(lambda x: {"image": np.full((64, 64, 3), x % 256, np.uint8), "label": x})
        .batch(4)
        .to_iter_dataset(),
        MapDataset.source(np.arange(40 * 3000).reshape(40, 3000))
        .map(lambda x: {"image": x, "label": 0})
        .batch(4)
        .to_iter_dataset(),
    ],
)
def test_large_arrays_are_views_of_shared_memory(dataset):
    batches = list(dataset.mp_prefetch(workers(2)))
    assert all(is_shared(batch["image"]) for batch in batches)
    assert len({batch["image"].__array_interface__["data"][0] for batch in batches}) == len(batches)


def test_array_rows_are_gathered_into_shared_memory():
    rows = np.arange(64 * 4000).reshape(64, 4000)
    batches = list(MapDataset.source(rows).shuffle(seed=1).batch(8).to_iter_dataset().mp_prefetch(workers(2)))
    assert all(map(is_shared, batches))
    expected = list(MapDataset.source(rows).shuffle(seed=1).batch(8))
    np.testing.assert_array_equal(np.stack(batches), np.stack(expected))


def test_small_arrays_are_not_shared():
    (array,) = stream(lambda x: np.arange(10), 1).mp_prefetch(workers(1))
    assert not is_shared(array)


def test_min_shm_size():
    options = DatasetOptions(min_shm_size=200_000)
    dataset = stream(lambda x: [np.ones(1000), np.ones(30_000)], 2).with_options(options)
    for small, large in dataset.mp_prefetch(workers(1)):
        assert (is_shared(small), is_shared(large)) == (False, True)


def test_slabs_are_used_again():
    """However many batches are read, and dropped, there are a few pieces of shared memory."""
    gc.collect()
    wait_for(lambda: not shared_maps())
    iterator = iter(images(4000).batch(4).mp_prefetch(workers(2)))
    most = 0
    for batch in iterator:
        most = max(most, shared_maps())
        assert batch["image"].shape == (4, 64, 64, 3)
    assert 0 < most <= 12


def test_consumer_that_keeps_every_batch():
    """More slabs, then copies; and nothing that is held changes."""
    kept = [batch["image"] for batch in images(2000).batch(4).mp_prefetch(workers(2))]
    for number, image in enumerate(kept):
        worker, turn = number % 2, number // 2
        expected = np.arange(4) * 2 + worker + turn * 8
        assert (image == expected.astype(np.uint8)[:, None, None, None]).all()
    assert 32 < sum(map(is_shared, kept)) <= slabs.most_leases()


def test_slab_is_kept_by_any_view():
    iterator = iter(images(4000).batch(4).mp_prefetch(workers(1)))
    row = next(iterator)["image"][1, 2:4]
    for _ in range(100):
        next(iterator)
    assert (row == 1).all()


def test_views_outlive_the_iterator():
    iterator = iter(images().batch(4).mp_prefetch(workers(1)))
    batch = next(iterator)
    iterator.close()
    del iterator
    assert list(images().batch(4).mp_prefetch(workers(1)))
    assert (batch["image"][:, 0, 0, 0] == [0, 1, 2, 3]).all()
    batch["image"][:] = 7  # and it may be written to


def test_shared_memory_is_given_back():
    gc.collect()
    wait_for(lambda: not shared_maps())  # of earlier iterators
    iterator = iter(images().batch(4).mp_prefetch(workers(2)))
    batches = [next(iterator) for _ in range(4)]
    assert shared_maps()
    iterator.close()
    del iterator, batches
    gc.collect()
    wait_for(lambda: not shared_maps())


def test_sizes_that_change():
    def array(x):
        return np.full(((x * 7919) % 60_000 + 5_000,), x)

    for number, got in enumerate(stream(array, 200).mp_prefetch(workers(2))):
        assert len(got) == (number * 7919) % 60_000 + 5_000
        assert (got == number).all()


def test_arrays_of_the_pipeline_are_sent_once_and_shared():
    """Each worker sees the array of a source without a copy of its own."""
    table = np.arange(500_000)

    class Source:
        def __init__(self, array):
            self.array = array

        def __len__(self):
            return 4

        def __getitem__(self, index):
            return is_shared(self.array), int(self.array.sum())

    dataset = MapDataset.source(Source(table)).to_iter_dataset(INLINE).mp_prefetch(workers(2))
    assert list(dataset) == [(True, int(table.sum()))] * 4


def test_classes_with_cached_properties_go_by_value():
    class Source:
        @functools.cached_property
        def squares(self):
            return [x * x for x in range(3)]

        def __len__(self):
            return 3

        def __getitem__(self, index):
            return self.squares[index]

    dataset = MapDataset.source(Source()).to_iter_dataset(INLINE).mp_prefetch(workers(1))
    assert list(dataset) == [0, 1, 4]


# ---------------------------------------------------------------- slabs by themselves


def test_slab_is_free_when_nobody_looks_at_it():
    slab = slabs.Slab(0, 10_000)
    allocate = slab.take()
    array = allocate((10, 10), np.dtype(np.float32))
    view = array[3]
    del array, allocate
    assert not slab.is_free
    del view
    assert slab.is_free


def test_arrays_that_do_not_fit_are_made_elsewhere():
    slab = slabs.Slab(0, 1000)
    allocate = slab.take()
    inside, outside = allocate((100,), np.dtype(np.float64)), allocate((100,), np.dtype(np.float64))
    assert slab.place_of(inside.view(np.uint8)) == (0, 0, 800)
    assert slab.place_of(outside.view(np.uint8)) is None


def test_many_small_arrays():
    (arrays,) = stream(lambda x: [np.full(3, k) for k in range(3000)], 1).mp_prefetch(workers(1))
    assert [int(array[1]) for array in arrays] == list(range(3000))


def test_many_large_arrays():
    (arrays,) = stream(lambda x: [np.full(600, k) for k in range(3000)], 1).mp_prefetch(workers(1))
    assert all((array == k).all() for k, array in enumerate(arrays))


def test_what_is_kept_over_many_epochs_does_not_use_up_files():
    kept = []
    for _ in range(12):
        kept += [batch["image"] for batch in images(160).batch(4).mp_prefetch(workers(2))]
    assert len(kept) == 480
    assert sum(map(is_shared, kept)) <= slabs.most_leases()


def test_what_is_held_over_a_fork_does_not_change(tmp_path):
    """In either process, though the slab is the same."""
    running = program(
        """
        import os
        import numpy as np
        import grain

        dataset = grain.MapDataset.range(10**6).map(lambda x: np.full(20_000, x))
        dataset = dataset.to_iter_dataset(grain.ReadOptions(0, 0))
        iterator = iter(dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=1)))
        held = [next(iterator) for _ in range(3)]
        reading, writing = os.pipe()
        if not os.fork():
            os.read(reading, 1)
            print([int(array.max()) for array in held], flush=True)
            os._exit(0)
        del held
        for _ in range(50):
            next(iterator)
        os.write(writing, b"x")
        os.wait()
        """,
        folder=tmp_path,
    )
    assert running.finish() == (0, "[0, 1, 2]\n", "")
    running.assert_nothing_left()


def test_no_shared_memory_to_be_had(monkeypatch):
    """Then the bytes are part of the message."""

    def init(index, count):
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    dataset = stream(lambda x: np.full(50_000, x), 3).mp_prefetch(workers(1), worker_init_fn=init)
    for number, array in enumerate(dataset):
        assert (array == number).all()
        assert not is_shared(array)
