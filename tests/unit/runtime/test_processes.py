"""`mp_prefetch`: the same elements, made in other processes."""

from __future__ import annotations

import gc
import json
import os
import threading

import numpy as np
import pytest

import grain
from grain import IterDataset, MapDataset
from grain.experimental import DatasetOptions
from grain.streams.remote import RemoteStream
from support.programs import program
from support.workers import INLINE, stream, wait_for, workers

# ---------------------------------------------------------------- options


def test_no_workers_is_the_same_dataset():
    dataset = stream(abs)
    assert dataset.mp_prefetch(workers(0)) is dataset


def test_ten_workers_without_options():
    state = iter(stream(abs, 30).mp_prefetch()).get_state()
    assert len(state["exhausted"]) == 10


def test_one_worker_for_each_cpu():
    state = iter(stream(abs, 30).mp_prefetch(workers(None))).get_state()
    assert len(state["exhausted"]) == len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("options", "message"),
    [(workers(-1), "num_workers must be 0 .* got -1"), (workers(2, 0), "`buffer_size` must be greater than 0, got 0")],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        stream(abs).mp_prefetch(options)


def test_bad_init_function():
    with pytest.raises(TypeError, match="worker_init_fn must be callable"):
        stream(abs).mp_prefetch(workers(1), worker_init_fn=3)


def test_old_name():
    with pytest.warns(DeprecationWarning, match="Please use `mp_prefetch` instead"):
        dataset = stream(abs).prefetch(workers(2))
    assert list(dataset) == list(range(8))


# ---------------------------------------------------------------- where and when it runs


def test_functions_run_elsewhere_in_as_many_processes():
    pids = list(stream(lambda x: os.getpid()).mp_prefetch(workers(3)))
    assert len(set(pids)) == 3
    assert os.getpid() not in pids
    assert pids[:3] * 2 + pids[:2] == pids


def test_lambdas_locals_and_classes_of_functions():
    class Scaled:
        def __init__(self, factor):
            self.factor = factor

        def __call__(self, x):
            return x * self.factor

    factor = 3
    dataset = stream(Scaled(factor)).map(lambda x: x + factor).mp_prefetch(workers(2))
    assert list(dataset) == [3 * x + 3 for x in range(8)]


def test_processes_are_used_again(tmp_path):
    """By the next epoch, the next iterator and the next pipeline; a program of its own has no others."""
    running = program(
        """
        import os, grain
        numbers = grain.MapDataset.range(8)
        options = grain.MultiprocessingOptions(num_workers=2)
        dataset = numbers.map(lambda x: os.getpid()).to_iter_dataset().mp_prefetch(options)
        pids = set(dataset)
        print(len(pids), pids == set(dataset) == set(dataset.repeat(3)))
        print(pids == set(numbers.map(lambda x: [os.getpid()][0]).to_iter_dataset().mp_prefetch(options)))
        """,
        folder=tmp_path,
    )
    assert running.finish() == (0, "2 True\nTrue\n", "")
    running.assert_nothing_left()


def test_a_forgotten_iterator_gives_its_workers_back_at_once():
    """Without a garbage collection: nothing refers to itself."""
    gc.collect()
    gc.disable()
    try:
        next(iter(stream(abs).mp_prefetch(workers(3))))
        assert not [thing for thing in gc.get_objects() if isinstance(thing, RemoteStream)]
    finally:
        gc.enable()


def test_nothing_runs_before_it_is_asked_for(tmp_path):
    def touch(x):
        (tmp_path / str(x)).touch()
        return x

    iterator = iter(stream(touch).mp_prefetch(workers(2)))
    iterator.get_state()
    assert not list(tmp_path.iterdir())
    assert next(iterator) == 0


def test_start_prefetch_starts(tmp_path):
    def touch(x):
        (tmp_path / str(x)).touch()
        return x

    iterator = iter(stream(touch).mp_prefetch(workers(2)))
    iterator.start_prefetch()
    wait_for(lambda: {"0", "1", "2", "3"} <= set(os.listdir(tmp_path)))
    assert list(iterator) == list(range(8))


@pytest.mark.parametrize("buffer_size", [1, 3])
def test_functions_run_at_most_a_buffer_ahead(tmp_path, buffer_size):
    def touch(x):
        (tmp_path / str(x)).touch()
        return x

    iterator = iter(stream(touch, 1000).mp_prefetch(workers(1, buffer_size)))
    next(iterator)
    wait_for(lambda: len(list(tmp_path.iterdir())) == buffer_size + 2)
    threading.Event().wait(0.1)
    assert len(list(tmp_path.iterdir())) == buffer_size + 2


def test_from_a_thread():
    results = []
    threads = [
        threading.Thread(target=lambda k=k: results.append(list(stream(lambda x: x * k).mp_prefetch(workers(2)))))
        for k in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(results) == [[x * k for x in range(8)] for k in range(4)]


def test_iterators_at_the_same_time():
    dataset = stream(lambda x: x * x).mp_prefetch(workers(2))
    assert list(zip(dataset, dataset, strict=True)) == [(x * x, x * x) for x in range(8)]


# ---------------------------------------------------------------- states


def test_state_before_any_element_is_that_of_the_parts():
    dataset = IterDataset.interleave([MapDataset.range(k) for k in (3, 4, 5)], cycle_length=2)
    iterator = iter(dataset.mp_prefetch(workers(2)))
    state = json.loads(json.dumps(iterator.get_state()))
    assert [len(part["exhausted"]) for part in state["iterators_in_use_states"]] == [2, 1]
    iterator.set_state(state)
    assert iterator.get_state() == state
    assert list(iterator) == list(dataset.mp_prefetch(workers(2)))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_restored_anywhere_on_fresh_and_used_iterators(count):
    dataset = stream(lambda x: {"x": np.full(20_000, x)}, 7).batch(2).mp_prefetch(workers(count))
    iterator = iter(dataset)
    states, firsts = [iterator.get_state()], []
    for batch in iterator:
        firsts.append(int(batch["x"][0, 0]))
        states.append(iterator.get_state())
    used = iter(dataset)
    for position in [*range(len(states)), *reversed(range(len(states)))]:
        for other in (iter(dataset), used):
            other.set_state(json.loads(json.dumps(states[position])))
            assert other.get_state() == states[position]
            assert [int(batch["x"][0, 0]) for batch in other] == firsts[position:]


def test_restored_in_a_later_epoch():
    dataset = stream(abs, 6).mp_prefetch(workers(2)).repeat(2)
    iterator = iter(dataset)
    before = [next(iterator) for _ in range(8)]
    state = iterator.get_state()
    resumed = iter(dataset)
    resumed.set_state(state)
    assert before == [0, 1, 2, 3, 4, 5, 0, 1]
    assert list(resumed) == list(iterator) == [2, 3, 4, 5]


def test_state_that_does_not_fit_leaves_the_iterator_as_it_was():
    iterator = iter(stream(abs).mp_prefetch(workers(2)))
    assert next(iterator) == 0
    state = iterator.get_state()
    wrong = json.loads(json.dumps(state))
    wrong["iterators_in_use_states"][1] = {"next_index": 100}
    with pytest.raises(IndexError, match="100 is out of range"):
        iterator.set_state(wrong)
    assert iterator.get_state() == state
    with pytest.raises(ValueError, match="same datasets and cycle_length"):
        iterator.set_state(iter(stream(abs).mp_prefetch(workers(3))).get_state())
    assert list(iterator) == [1, 2, 3, 4, 5, 6, 7]


def test_closed_iterator():
    iterator = iter(stream(abs).mp_prefetch(workers(2)))
    next(iterator)
    state = iterator.get_state()
    iterator.close()
    iterator.close()
    with pytest.raises(ValueError, match="closed iterator"):
        next(iterator)
    assert iterator.get_state() == state


def test_next_index_with_one_worker():
    iterator = iter(stream(abs, 10).batch(2).mp_prefetch(workers(1)))
    next(iterator)
    assert grain.experimental.get_next_index(iterator) == 1
    grain.experimental.set_next_index(iterator, 3)
    assert list(next(iterator)) == [6, 7]
    assert grain.experimental.get_next_index(iterator) == 4


def test_options_that_are_set_afterwards_hold_in_workers():
    options = DatasetOptions(filter_raise_threshold_ratio=0.5)
    dataset = MapDataset.range(3000).filter(lambda x: x > 2990).to_iter_dataset(INLINE).mp_prefetch(workers(1))
    with pytest.raises(ValueError, match=r"skipped 100\.00 %"):
        list(dataset.with_options(options))
