"""One iterator in several threads, in functions that it calls, and in handlers of signals."""

from __future__ import annotations

import json
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from grain import (
    Batch,
    DataLoader,
    IndexSampler,
    IterDataset,
    MapDataset,
    MultiprocessingOptions,
    ReadOptions,
    experimental,
)
from support.comparison import plain

COUNT = 60
INLINE = ReadOptions(num_threads=0, prefetch_buffer_size=0)


def slowly(x):
    time.sleep(1e-4)
    return x


def stream(options=INLINE):
    return MapDataset.range(COUNT).map(slowly).to_iter_dataset(options)


def loader():
    return DataLoader(
        data_source=range(COUNT),
        sampler=IndexSampler(COUNT, num_epochs=1),
        operations=[slowly, Batch(2)],
        worker_count=0,
    )


SHARED = {
    "by index": stream,
    "threads": lambda: stream(ReadOptions(num_threads=2, prefetch_buffer_size=4)),
    "batch": lambda: stream().batch(3),
    "zip": lambda: IterDataset.zip([stream(), stream().map(lambda x: -x)]),
    "flat_map": lambda: stream().flat_map(lambda x: [x] * (x % 3)),
    "window_shuffle": lambda: experimental.WindowShuffleIterDataset(stream(), window_size=7, seed=1),
    "interleave": lambda: experimental.InterleaveIterDataset([stream(), stream(), stream()], cycle_length=2),
    "thread_prefetch": lambda: stream().batch(2).thread_prefetch(2),
    "workers": lambda: stream().batch(2).mp_prefetch(MultiprocessingOptions(num_workers=2)),
    "DataLoader": loader,
}


def encoded(state):
    return state if isinstance(state, bytes) else json.dumps(state)


@pytest.mark.parametrize("name", SHARED)
def test_a_state_taken_by_another_thread_is_that_of_a_position(name):
    dataset = SHARED[name]()
    iterator = iter(dataset)
    positions = [encoded(iterator.get_state())]
    for _ in iterator:
        positions.append(encoded(iterator.get_state()))
    positions.append(encoded(iterator.get_state()))

    iterator, taken, is_over = iter(dataset), [], threading.Event()

    def save():
        while not is_over.is_set():
            taken.append(encoded(iterator.get_state()))

    with ThreadPoolExecutor(1) as pool:
        saving = pool.submit(save)
        elements = [plain(element) for element in iterator]
        is_over.set()
        saving.result(60)
    assert len(taken) > 1
    assert set(taken) <= set(positions)
    assert elements == [plain(element) for element in dataset]


@pytest.mark.parametrize("name", SHARED)
def test_threads_that_share_an_iterator_get_each_element_once(name):
    iterator = iter(SHARED[name]())
    with ThreadPoolExecutor(4) as pool:
        found = [pool.submit(lambda: [plain(element) for element in iterator]) for _ in range(4)]
        elements = [element for part in found for element in part.result(60)]
    expected = [plain(element) for element in SHARED[name]()]
    assert sorted(map(repr, elements)) == sorted(map(repr, expected))


def test_errors_come_once_however_many_threads_there_are():
    def fail_at_times(x):
        slowly(x)
        if x % 7 == 3:
            raise KeyError(x)
        return x

    iterator = iter(MapDataset.range(COUNT).map(fail_at_times).to_iter_dataset(INLINE).batch(2))

    def take():
        elements, errors = [], []
        while True:
            try:
                elements.extend(next(iterator).tolist())
            except StopIteration:
                return elements, errors
            except KeyError as error:
                errors.append(error.args[0])

    with ThreadPoolExecutor(4) as pool:
        parts = [part.result(60) for part in [pool.submit(take) for _ in range(4)]]
    assert sorted(error for _, errors in parts for error in errors) == [x for x in range(COUNT) if x % 7 == 3]
    assert sorted(element for elements, _ in parts for element in elements) == [x for x in range(COUNT) if x % 7 != 3]


OPERATORS = {
    "by index": lambda ds: ds,
    "batch": lambda ds: ds.batch(2),
    "flat_map": lambda ds: ds.flat_map(lambda x: [x] * (x % 3)),
    "zip": lambda ds: IterDataset.zip([ds, MapDataset.range(6).to_iter_dataset(INLINE)]),
    "window_shuffle": lambda ds: experimental.WindowShuffleIterDataset(ds, window_size=3, seed=1),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_inside_of_a_call_the_state_is_that_before_it(name):
    """In a function of the pipeline, as in a debugger, and in the handler of a signal that comes meanwhile."""
    states = []

    def look(x):
        states.append(iterator.get_state())
        signal.raise_signal(signal.SIGUSR1)
        return x

    dataset = OPERATORS[name](MapDataset.range(6).map(look).to_iter_dataset(INLINE))
    elements = [plain(x) for x in OPERATORS[name](MapDataset.range(6).to_iter_dataset(INLINE))]
    before = signal.signal(signal.SIGUSR1, lambda *_: states.append(iterator.get_state()))
    try:
        iterator, found = iter(dataset), []
        for number, element in enumerate(iterator):
            found += [(number, state) for state in states]
            states.clear()
            assert plain(element) == elements[number]
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(found) >= 10
    for number, state in found:
        again = iter(OPERATORS[name](MapDataset.range(6).to_iter_dataset(INLINE)))
        again.set_state(json.loads(json.dumps(state)))
        assert [plain(element) for element in again] == elements[number:]


@pytest.mark.parametrize("use", [next, lambda it: it.set_state({"next_index": 0})], ids=["next", "set_state"])
def test_a_function_that_moves_its_own_iterator_is_told(use):
    iterator = iter(MapDataset.range(6).map(lambda x: use(iterator) if x == 2 else x).to_iter_dataset(INLINE))
    assert [next(iterator), next(iterator)] == [0, 1]
    with pytest.raises(ValueError, match="used by a function that it has called itself"):
        next(iterator)
    assert list(iterator) == [3, 4, 5]
