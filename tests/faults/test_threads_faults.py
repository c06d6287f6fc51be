"""Whatever happens to readers with threads: nothing hangs, and no thread stays."""

import gc
import logging
import os
import signal
import threading
import time

import pytest

from grain import MapDataset
from grain.runtime.local import chunks, threads
from support.pipelines import READ_OPTIONS
from support.threads import Watched, grain_threads, no_threads, run_script, until

THREADS = READ_OPTIONS["threads"]


def mapped(function, count=40):
    return MapDataset.range(count).map(function).to_iter_dataset(THREADS)


def test_closing_stops_the_threads():
    iterator = iter(mapped(Watched()))
    next(iterator)
    iterator.close()
    assert grain_threads() == []
    with pytest.raises(ValueError, match="closed"):
        next(iterator)
    with pytest.raises(ValueError, match="closed"):
        iterator.start_prefetch()


def test_closing_does_not_wait_for_a_function_that_blocks(monkeypatch):
    monkeypatch.setattr(threads, "SECONDS_TO_STOP", 0.05)
    function = Watched(waits=[3])
    iterator = iter(mapped(function))
    iterator.start_prefetch()
    assert function.waiting.wait(20)
    began = time.monotonic()
    iterator.close()
    assert time.monotonic() - began < 5
    function.go_on.set()
    no_threads()


def test_closing_wakes_up_a_consumer_that_waits(monkeypatch):
    monkeypatch.setattr(threads, "SECONDS_TO_STOP", 0.05)
    function, caught = Watched(waits=[0]), []

    def consume():
        try:
            next(iterator)
        except ValueError as error:
            caught.append(error)

    iterator = iter(mapped(function))
    consumer = threading.Thread(target=consume)
    consumer.start()
    assert function.waiting.wait(20)
    iterator.close()
    consumer.join(20)
    assert "closed" in str(caught)
    function.go_on.set()
    no_threads()


@pytest.mark.parametrize("used", [1, 40])
def test_a_forgotten_iterator_stops_its_threads(used):
    iterator = iter(mapped(Watched(), 10_000))
    for _ in range(used):
        next(iterator)
    gc.disable()  # counting references must be enough
    try:
        del iterator
        no_threads()
    finally:
        gc.enable()


def test_an_iterator_that_failed_stops_its_threads_when_forgotten():
    iterator = iter(mapped(Watched(fails=[1]), 10_000))
    next(iterator)
    with pytest.raises(ValueError, match="no 1"):
        next(iterator)
    del iterator
    gc.collect()
    no_threads()


SCRIPT = """
import threading, time
from grain import MapDataset, ReadOptions
from grain.runtime.local import threads

class Forced(threads.Pacing):
    def __init__(self, *args):
        super().__init__(*args)
        self.level = 3
    def took(self, *args, **kwargs):
        pass

threads.Pacing = Forced
is_blocking = threading.Event()

def function(x):
    if x == {victim}:
        is_blocking.set()
        threading.Event().wait()
    return x

iterator = iter(MapDataset.range(100_000).map(function).to_iter_dataset(ReadOptions(3, 50)))
print(next(iterator))
{then}
"""


def test_the_interpreter_exits_while_threads_work():
    assert run_script(SCRIPT.format(victim=-1, then="")) == "0\n"


def test_the_interpreter_exits_while_a_function_blocks_for_ever():
    assert run_script(SCRIPT.format(victim=9, then="is_blocking.wait()")) == "0\n"


def test_an_interrupt_while_waiting_loses_nothing():
    function = Watched(waits=[4])
    iterator = iter(mapped(function))
    found = [next(iterator) for _ in range(4)]

    def interrupt():
        assert function.waiting.wait(20)
        time.sleep(0.05)  # it is to wait by then; if not, the test sees less, but does not fail
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    sender = threading.Thread(target=interrupt)
    sender.start()
    with pytest.raises(KeyboardInterrupt):
        next(iterator)
    sender.join()
    function.go_on.set()
    assert found + list(iterator) == list(range(40))
    no_threads()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_goes_on_by_itself():
    text = """
import os
it = iterator
child = os.fork()
rest = [next(it) for _ in range(2000)]
assert rest == list(range(1, 2001)), rest[:5]
it.set_state({"next_index": 10})
assert next(it) == 10
it.close()
if child:
    assert os.waitpid(child, 0)[1] == 0
    print("done")
"""
    assert run_script(SCRIPT.format(victim=-1, then=text)).endswith("done\n")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_forked_while_a_thread_is_in_a_function_goes_on():
    """The thread, and the lock it may hold, are not there in the child."""
    text = """
import os
is_blocking.wait()
child = os.fork()
if child == 0:
    function.__globals__["is_blocking"] = None
    iterator.set_state({"next_index": 100})
    assert next(iterator) == 100
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    assert run_script(SCRIPT.format(victim=9, then=text)) == "0\n"


def test_waiting_long_is_told_with_function_and_element(monkeypatch, caplog):
    monkeypatch.setattr(chunks, "SECONDS_BEFORE_WARNING", 0.02)
    function = Watched(waits=[5])
    iterator = iter(mapped(function))
    for _ in range(5):
        next(iterator)

    def release():
        until(lambda: len(caplog.records) >= 2)
        function.go_on.set()

    releasing = threading.Thread(target=release)
    with caplog.at_level(logging.WARNING, logger="grain"):
        releasing.start()
        assert list(iterator) == list(range(5, 40))
        releasing.join()
    first, second = (record.getMessage() for record in caplog.records[:2])
    assert "element at index 5 for PrefetchIterDataset" in first
    assert ".wait" in first
    assert "0.02 s" in first
    assert "0.04 s" in second
