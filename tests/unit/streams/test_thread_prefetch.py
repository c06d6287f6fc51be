"""Streams that a thread reads ahead."""

import gc
import threading
import time

import pytest

from grain import DatasetIterator, MapDataset
from grain.experimental import ThreadPrefetchDatasetIterator, get_next_index, set_next_index
from grain.streams import prefetching
from support.pipelines import READ_OPTIONS
from support.threads import Watched, grain_threads, no_threads, run_script, until


@pytest.fixture(autouse=True)
def _threads_end():
    yield
    no_threads()


def stream(count=20):
    return MapDataset.range(count).to_iter_dataset(READ_OPTIONS["inline"])


def prefetched(function, size=3, count=20):
    return stream(count).map(function).thread_prefetch(size)


def test_a_thread_does_the_work():
    function = Watched()
    assert list(prefetched(function)) == list(range(20))
    assert function.threads == {"grain-thread-prefetch-ThreadPrefetchIterDataset"}


def test_without_a_buffer_there_is_no_thread():
    function = Watched()
    assert list(prefetched(function, 0)) == list(range(20))
    assert function.threads == {"MainThread"}


@pytest.mark.parametrize("size", [1, 2, 5])
def test_it_reads_the_buffer_ahead_and_not_more(size):
    function = Watched()
    with iter(prefetched(function, size)) as iterator:
        assert next(iterator) == 0
        until(lambda: len(function.calls) >= size + 1)
        for count in range(1, 10):
            assert next(iterator) == count
            assert len(function.calls) <= count + 1 + size + 1


def test_start_prefetch_starts():
    function = Watched()
    with iter(prefetched(function)) as iterator:
        assert iterator.get_state() == {"next_index": 0}
        assert grain_threads() == []
        iterator.start_prefetch()
        until(lambda: len(function.calls) == 4)
        assert iterator.get_state() == {"next_index": 0}
        assert list(iterator) == list(range(20))


def test_an_error_stands_in_the_place_of_its_element():
    iterator, found = iter(prefetched(Watched(fails=[2, 3, 19]))), []
    for _ in range(20):
        try:
            found.append(next(iterator))
        except ValueError as error:
            found.append(str(error))
        assert iterator.get_state() == {"next_index": len(found)}
    assert found == [f"no {x}" if x in (2, 3, 19) else x for x in range(20)]
    assert list(iterator) == []


def test_the_state_at_the_end_is_that_of_the_last_element():
    iterator = iter(MapDataset.range(5).filter(lambda x: x < 3).to_iter_dataset().thread_prefetch(2))
    assert list(iterator) == [0, 1, 2]
    assert iterator.get_state() == {"next_index": 3}


def test_a_state_that_does_not_fit_changes_nothing():
    function = Watched()
    iterator = iter(prefetched(function))
    assert next(iterator) == 0
    with pytest.raises(IndexError):
        iterator.set_state({"next_index": 99})
    assert list(iterator) == list(range(1, 20))
    assert function.calls == list(range(20))


def test_next_index_counts_what_was_handed_out():
    """Also where the stream below cannot tell; where it was set it is asked."""
    iterator = iter(stream().filter(lambda x: x % 2).thread_prefetch(2))
    assert [next(iterator), next(iterator)] == [1, 3]
    assert get_next_index(iterator) == 2
    iterator = iter(stream().map(abs).thread_prefetch(2))
    iterator.set_state({"next_index": 7})
    assert get_next_index(iterator) == 7
    assert next(iterator) == 7
    set_next_index(iterator, 12)
    assert (get_next_index(iterator), list(iterator)) == (12, list(range(12, 20)))


def test_notes_of_later_operators_name_the_element():
    with (
        iter(prefetched(Watched()).map(Watched(fails=[4]))) as iterator,
        pytest.raises(ValueError, match="no 4") as caught,
    ):
        list(iterator)
    assert "at index 4" in caught.value.__notes__[0]


def test_closing_stops_the_thread():
    iterator = iter(prefetched(Watched()))
    next(iterator)
    iterator.close()
    assert grain_threads() == []
    with pytest.raises(ValueError, match="closed"):
        next(iterator)


def test_closing_does_not_wait_for_a_function_that_blocks(monkeypatch):
    monkeypatch.setattr(prefetching, "SECONDS_TO_STOP", 0.05)
    function = Watched(waits=[3])
    iterator = iter(prefetched(function))
    next(iterator)
    assert function.waiting.wait(20)
    began = time.monotonic()
    iterator.close()
    assert time.monotonic() - began < 5
    function.go_on.set()


def test_a_forgotten_iterator_stops_its_thread():
    iterator = iter(prefetched(Watched(), count=10_000))
    next(iterator)
    gc.disable()
    try:
        del iterator
        no_threads()
    finally:
        gc.enable()


SCRIPT = """
import os, threading
from grain import MapDataset
is_blocking = threading.Event()
def function(x):
    if x == {victim}:
        is_blocking.set()
        threading.Event().wait()
    return x
iterator = iter(MapDataset.range(1000).map(function).to_iter_dataset().thread_prefetch(5))
print(next(iterator))
{then}
"""


def test_the_interpreter_exits_while_a_function_blocks_for_ever():
    assert run_script(SCRIPT.format(victim=4, then="is_blocking.wait()")) == "0\n"


def test_a_forked_child_goes_on_by_itself():
    text = """
child = os.fork()
assert list(iterator) == list(range(1, 1000))
iterator.set_state({"next_index": 990})
assert list(iterator) == list(range(990, 1000))
if child:
    assert os.waitpid(child, 0)[1] == 0
    print("done")
"""
    assert run_script(SCRIPT.format(victim=-1, then=text)).endswith("done\n")


# ---------------------------------------------------------------- any iterator


class Counter:
    """An iterator of a user's that knows nothing of this library."""

    def __init__(self, fails=()):
        self.position, self.fails, self.threads = 0, fails, set()

    def __next__(self):
        self.threads.add(threading.current_thread())
        if self.position == 9:
            raise StopIteration
        self.position += 1
        if self.position in self.fails:
            raise ValueError(self.position)
        return self.position

    def get_state(self):
        return {"position": self.position}

    def set_state(self, state):
        self.position = state["position"]


@pytest.mark.parametrize("size", [0, 1, 4])
def test_any_iterator_can_be_read_ahead(size):
    iterator = ThreadPrefetchDatasetIterator(Counter(), size)
    assert isinstance(iterator, DatasetIterator)
    assert [next(iterator), next(iterator)] == [1, 2]
    state = iterator.get_state()
    assert state == {"position": 2}
    assert list(iterator) == list(range(3, 10))
    iterator.set_state(state)
    assert list(iterator) == list(range(3, 10))
    with pytest.raises(ValueError, match="only supported for native dataset iterators"):
        set_next_index(iterator, 1)


def test_errors_of_any_iterator_stand_in_their_place():
    iterator = ThreadPrefetchDatasetIterator(Counter(fails=[3]), 4)
    assert [next(iterator), next(iterator)] == [1, 2]
    with pytest.raises(ValueError, match="3"):
        next(iterator)
    assert iterator.get_state() == {"position": 3}
    assert list(iterator) == list(range(4, 10))


def test_an_iterator_of_this_library_can_be_read_ahead():
    iterator = ThreadPrefetchDatasetIterator(iter(stream(5)), prefetch_buffer_size=2)
    set_next_index(iterator, 2)
    assert (get_next_index(iterator), list(iterator), get_next_index(iterator)) == (2, [2, 3, 4], 5)
    iterator.close()
    with pytest.raises(ValueError, match="closed"):
        next(iterator)


def test_a_negative_buffer_is_refused():
    with pytest.raises(ValueError, match="greater than or equal to 0, got -1"):
        ThreadPrefetchDatasetIterator(Counter(), -1)
