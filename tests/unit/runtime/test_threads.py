"""Reading with threads: the same elements as inline, at most a buffer ahead."""

import gc
import itertools
import threading
import weakref

import pytest

from grain import MapDataset, ReadOptions
from grain.runtime.local import chunks, threads
from support.pipelines import READ_OPTIONS
from support.threads import Watched, grain_threads, no_threads, until

THREADS = READ_OPTIONS["threads"]  # always uses its threads, see conftest.py
BUFFER = THREADS.prefetch_buffer_size


@pytest.fixture(autouse=True)
def _threads_end():
    yield
    no_threads()


def mapped(function, count=40, options=THREADS):
    return MapDataset.range(count).map(function).to_iter_dataset(options)


def steps(iterator):
    """All elements, with the types of errors in their places."""
    found = []
    while True:
        try:
            found.append(next(iterator))
        except StopIteration:
            return found
        except Exception as error:
            found.append(type(error))


def test_threads_do_the_work():
    function = Watched()
    assert list(mapped(function)) == list(range(40))
    assert {name.rpartition("-")[0] for name in function.threads} == {"grain-prefetch"}
    assert sorted(function.calls) == list(range(40))


def test_order_is_that_of_the_indices_whatever_is_done_first():
    function = Watched(waits=[0])
    iterator = iter(mapped(function))
    iterator.start_prefetch()
    until(lambda: 1 in function.calls)
    function.go_on.set()
    assert list(iterator) == list(range(40))


@pytest.mark.parametrize("options", [THREADS, ReadOptions(3, 3), ReadOptions(3, 50)])
def test_functions_run_at_most_the_buffer_ahead(options):
    function = Watched()
    iterator = iter(mapped(function, 100, options))
    for count in range(20):
        assert next(iterator) == count
        assert max(function.calls) <= count + options.prefetch_buffer_size
    until(lambda: max(function.calls) > 20)


def test_nothing_runs_before_it_is_asked_for():
    function = Watched()
    iterator = iter(mapped(function))
    iterator.get_state()
    assert (function.calls, grain_threads()) == ([], [])


@pytest.mark.parametrize("options", [THREADS, None])
def test_start_prefetch_fills_the_buffer(options):
    function = Watched()
    with iter(mapped(function, 1000, options)) as iterator:
        iterator.start_prefetch()
        size = (options or ReadOptions()).prefetch_buffer_size
        until(lambda: len(function.calls) >= size // 2)
        iterator.start_prefetch()
        assert max(function.calls) < size
        assert list(itertools.islice(iterator, 600)) == list(range(600))
        assert sorted(set(function.calls)) == sorted(function.calls)  # nothing twice


def test_an_error_stands_in_the_place_of_its_element_and_nothing_is_computed_twice():
    function = Watched(fails=[0, 7, 8, 39])
    expected = [ValueError if x in function.fails else x for x in range(40)]
    assert steps(iter(mapped(function))) == expected
    assert sorted(function.calls) == list(range(40))


def test_the_state_after_an_error_is_after_its_element():
    with iter(mapped(Watched(fails=[3]))) as iterator:
        assert [next(iterator) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(ValueError, match="no 3") as caught:
            next(iterator)
        assert iterator.get_state() == {"next_index": 4}
    assert "at index 3" in caught.value.__notes__[0]
    assert not any("/grain/runtime/" in str(entry.path) for entry in caught.traceback)


class Pages(Watched):
    """A source that reads many records at once, and fails for some."""

    def __len__(self):
        return 30

    def __getitem__(self, index):
        return self(index)

    def __getitems__(self, indices):
        return [self(index) for index in indices]


def test_what_is_read_together_fails_together():
    def batches(options):
        return steps(map(list, iter(MapDataset.source(Pages(fails=[4])).to_iter_dataset(options).batch(3))))

    assert batches(THREADS) == batches(READ_OPTIONS["inline"])


def test_groups_larger_than_the_buffer_are_read_together():
    batches = MapDataset.source(Pages()).to_iter_dataset(ReadOptions(3, 3)).batch(10)
    assert [batch.tolist() for batch in batches] == [list(range(start, start + 10)) for start in (0, 10, 20)]


def test_an_interrupt_in_a_thread_is_raised_in_its_place_and_the_element_is_computed_again():
    function = Watched(fails=[5], error=KeyboardInterrupt)
    iterator = iter(mapped(function))
    found = [next(iterator) for _ in range(5)]
    with pytest.raises(KeyboardInterrupt):
        next(iterator)
    function.fails.clear()
    assert found + list(iterator) == list(range(40))


@pytest.mark.parametrize("options", [None, THREADS])
def test_an_interrupt_of_the_consumer_loses_nothing(options):
    """Wherever it computes or waits."""
    for place in range(12):
        function = Watched(fails=[place] if options is None else [], error=KeyboardInterrupt)
        iterator, found = iter(mapped(function, 20, options)), []
        try:
            for element in iterator:
                found.append(element)
                if options is not None and element == place:
                    raise KeyboardInterrupt
        except KeyboardInterrupt:
            function.fails.clear()
        assert found + list(iterator) == list(range(20))


def test_going_on_within_what_is_ahead_keeps_it():
    function = Watched()
    iterator = iter(mapped(function))
    assert next(iterator) == 0
    until(lambda: len(function.calls) >= BUFFER - 2)
    for index in (2, 4, 3, 12):
        iterator.set_state({"next_index": index})
        assert next(iterator) == index
    assert list(iterator) == list(range(13, 40))


def test_going_elsewhere_drops_what_is_ahead():
    iterator = iter(mapped(Watched()))
    for index in (30, 2, 39, 0):
        iterator.set_state({"next_index": index})
        assert next(iterator) == index
    iterator.set_state({"next_index": 40})
    assert list(iterator) == []


def test_threads_end_with_the_last_element():
    iterator = iter(mapped(Watched()))
    assert list(iterator) == list(range(40))
    no_threads()
    iterator.set_state({"next_index": 35})
    assert list(iterator) == list(range(35, 40))


def test_arithmetic_that_fails_is_told_in_its_place(monkeypatch):
    class Failing(chunks.Block):
        def __init__(self, plan, indices):
            if indices[0] >= 0:
                raise OverflowError("too large")

    monkeypatch.setattr(chunks, "Block", Failing)
    assert list(mapped(Watched())) == list(range(40))  # the consumer's own arithmetic is fine


def test_a_system_without_threads_reads_inline(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    function = Watched()
    assert list(mapped(function)) == list(range(40))
    assert function.threads == {"MainThread"}


def test_short_work_stays_with_the_consumer():
    function = Watched()
    assert list(mapped(function, 1000, None)) == list(range(1000))
    assert function.threads == {"MainThread"}
    assert grain_threads() == []


def test_measuring_and_resting_hand_over_to_each_other(monkeypatch):
    """At level 0 elements are computed one chunk at a time while it measures, and one at a time while it rests."""
    answers = itertools.cycle([True, False, False, True, True])
    monkeypatch.setattr(threads.Pacing, "is_resting", lambda self, now: next(answers))
    function = Watched(fails=[3, 17, 64, 65])
    expected = [ValueError if x in function.fails else x for x in range(200)]
    iterator = iter(mapped(function, 200, None))
    assert steps(iterator) == expected
    iterator.set_state({"next_index": 100})
    assert steps(iterator) == expected[100:]
    assert function.calls == [*range(200), *range(100, 200)]


def test_what_was_learned_of_a_map_dataset_helps_its_next_iterator(monkeypatch):
    begun = []

    class Watching(threads.Pacing):
        def __init__(self, ceiling, new_probe, learned):
            super().__init__(ceiling, new_probe, learned)
            begun.append(learned)

    monkeypatch.setattr(threads, "Pacing", Watching)
    dataset = MapDataset.source(list(range(100))).map(lambda x: x + 1)
    for _ in range(2):
        with iter(dataset) as iterator:
            next(iterator)
            iterator._stream._reader._pacing.level = 3
    assert [learned.level for learned in begun] == [0, 3]


def test_a_function_that_knows_its_iterator_does_not_keep_it_alive():
    def reader_of_one():
        known = []

        def knowing(x):
            return x if known else None

        known.append(iter(MapDataset.range(40).map(knowing).to_iter_dataset(ReadOptions())))
        next(known[0])
        return weakref.ref(known[0]._stream._reader)

    reader = reader_of_one()
    gc.collect()
    assert reader() is None
