"""`device_put`: elements on a JAX device."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from grain.experimental import device_put
from support.pipelines import numbers
from support.user_code import add_one, as_record

jax = pytest.importorskip("jax")
CPU = jax.devices("cpu")[0]


def stream():
    return numbers(6).shuffle(seed=1).to_iter_dataset()


def test_elements_are_on_the_device():
    for batch in device_put(stream().batch(2), CPU):
        assert isinstance(batch, jax.Array)
        assert batch.devices() == {CPU}


@pytest.mark.parametrize("sizes", [{}, {"cpu_buffer_size": 0, "device_buffer_size": 0}, {"cpu_buffer_size": 1}])
def test_elements_are_the_same_in_the_same_order(sizes):
    expected = list(stream())
    assert [int(element) for element in device_put(stream(), CPU, **sizes)] == expected
    assert [int(element) for element in stream().device_put(CPU, **sizes)] == expected


def test_structures_are_moved_leaf_by_leaf():
    records = numbers(3).map(as_record).map(lambda record: {key: record[key] for key in ("id", "pixels")})
    for index, record in enumerate(device_put(records, jax.sharding.SingleDeviceSharding(CPU))):
        assert all(isinstance(leaf, jax.Array) for leaf in record.values())
        np.testing.assert_array_equal(record["pixels"], np.full((2, 2), index))


def test_state_is_that_of_the_parent():
    iterator = iter(device_put(stream().random_map(lambda x, rng: x, seed=1), CPU))
    next(iterator)
    assert iterator.get_state() == {"parent": {"next_index": 1}, "index_for_rng": 1}
    resumed = iter(device_put(stream().random_map(lambda x, rng: x, seed=1), CPU))
    resumed.set_state(iterator.get_state())
    assert list(map(int, resumed)) == list(map(int, iterator)) == list(stream())[1:]


def test_more_operators_may_follow():
    assert [int(element) for element in device_put(stream(), CPU).map(add_one)] == [x + 1 for x in stream()]


@pytest.mark.parametrize("name", ["cpu_buffer_size", "device_buffer_size"])
def test_negative_buffers_are_refused(name):
    with pytest.raises(ValueError, match="must be greater than or equal to 0, got -1"):
        device_put(stream(), CPU, **{name: -1})


def test_without_jax(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(ImportError, match=r"pip install grain\[jax\]"):
        device_put(stream(), None)
