"""Threads that cannot be started, or whose start is interrupted, and what is left of those that have ended."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

from grain import MapDataset, ReadOptions, experimental
from support.comparison import plain
from support.threads import no_threads

INLINE = ReadOptions(num_threads=0, prefetch_buffer_size=0)
COUNT = 12


def numbers(function):
    return MapDataset.range(COUNT).map(function)


def stream(function):
    return numbers(function).to_iter_dataset(INLINE)


def on_device(dataset):
    jax = pytest.importorskip("jax")
    return dataset.device_put(jax.devices("cpu")[0])


def same(x):
    return x


THREADS = ReadOptions(num_threads=2, prefetch_buffer_size=2)
AHEAD = {
    "thread_prefetch": lambda function=same: stream(function).thread_prefetch(2),
    "multithread_prefetch": lambda function=same: experimental.multithread_prefetch(stream(function), 2, 1),
    "device_put": lambda function=same: on_device(stream(function)),
    "ReadOptions": lambda function=same: numbers(function).to_iter_dataset(THREADS),
}


def take_all(iterator, expected_errors):
    """All elements, and how many of the errors came."""
    elements, count = [], 0
    while True:
        try:
            elements.append(plain(next(iterator)))
        except StopIteration:
            return elements, count
        except expected_errors:
            count += 1


class Start:
    """In the place of `threading.Thread.start`: fails the first `times`, before or after it has started one."""

    def __init__(self, error, times, is_late):
        self.error, self.times, self.is_late, self.start = error, times, is_late, threading.Thread.start

    def __call__(self, thread):
        fails = thread.name.startswith("grain-") and self.times > 0
        self.times -= fails
        if fails and not self.is_late:
            raise self.error
        self.start(thread)
        if fails:
            raise self.error


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("name", AHEAD)
def test_a_thread_that_cannot_be_started_is_an_error_that_passes(name, times, monkeypatch):
    expected = [plain(element) for element in AHEAD[name]()]
    failing = Start(RuntimeError("can't start new thread"), times, is_late=False)
    monkeypatch.setattr(threading.Thread, "start", lambda thread: failing(thread))
    iterator = iter(AHEAD[name]())
    if name == "ReadOptions":  # which does with fewer
        iterator.start_prefetch()
    elements, errors = take_all(iterator, RuntimeError)
    assert elements == expected
    assert errors == (0 if name == "ReadOptions" else times)
    iterator.close()
    no_threads()


@pytest.mark.parametrize("is_late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("name", AHEAD)
def test_an_interrupt_while_a_thread_is_started_loses_nothing(name, is_late, monkeypatch):
    expected = [plain(element) for element in AHEAD[name]()]
    interrupting = Start(KeyboardInterrupt(), 1, is_late)
    monkeypatch.setattr(threading.Thread, "start", lambda thread: interrupting(thread))
    iterator = iter(AHEAD[name]())
    interrupts = 0
    if name == "ReadOptions":
        with pytest.raises(KeyboardInterrupt):
            iterator.start_prefetch()
        interrupts = 1
    elements, more = take_all(iterator, KeyboardInterrupt)
    assert (elements, interrupts + more) == (expected, 1)
    iterator.close()
    no_threads()


def test_an_interrupt_of_the_event_that_a_start_waits_for_stays_one(monkeypatch):
    """Ctrl-C where `threading.Condition` has released its lock surfaces as an error of the lock."""

    def interrupted(thread):
        try:
            raise KeyboardInterrupt
        finally:
            raise RuntimeError("cannot release un-acquired lock")

    iterator = iter(AHEAD["thread_prefetch"]())
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            next(iterator)
    assert list(iterator) == list(range(COUNT))


@pytest.mark.parametrize("name", AHEAD)
def test_runs_leave_nothing_behind(name):
    made = []

    class Marked(np.ndarray):
        pass

    def mark(x):
        element = np.zeros(10).view(Marked)
        made.append(weakref.ref(element))
        return element

    iterator = iter(AHEAD[name](mark))
    state = iterator.get_state()
    gc.collect()
    counts = []
    for _ in range(10):
        for _ in range(5):
            next(iterator)
            iterator.set_state(state)
        counts.append(len(weakref.finalize._registry))
    assert counts[-1] <= counts[0]
    iterator.close()
    no_threads()
    gc.collect()
    assert sum(reference() is not None for reference in made) <= 4
