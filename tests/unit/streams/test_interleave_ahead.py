"""An interleave opens and reads ahead, but only what has turned out to be slow."""

import pytest

from grain import MapDataset
from grain.api.iter_dataset import NodeIterDataset
from grain.experimental import InterleaveIterDataset
from grain.ops.configuring import Transparent
from grain.ops.custom import node_of
from grain.streams import interleave as module
from grain.streams.stream import OperatorStream
from support.pipelines import READ_OPTIONS
from support.threads import LONG, Watched, grain_threads, no_threads, until


@pytest.fixture(autouse=True)
def _threads_end():
    yield
    no_threads()


@pytest.fixture
def slow_elements(monkeypatch):
    """Every element counts as slow."""
    monkeypatch.setattr(module, "SLOW_ELEMENT_SECONDS", -1.0)


@pytest.fixture
def slow_openings(monkeypatch):
    """Every opening counts as slow."""
    monkeypatch.setattr(module, "SLOW_OPENING_SECONDS", -1.0)


def stream(*bounds):
    return MapDataset.range(*bounds).to_iter_dataset(READ_OPTIONS["inline"])


def interleave(datasets, cycle_length=2, **options):
    return InterleaveIterDataset(datasets, cycle_length=cycle_length, **options)


def test_fast_streams_are_read_inline(monkeypatch):
    monkeypatch.setattr(module, "SLOW_ELEMENT_SECONDS", LONG)
    function = Watched()
    assert len(list(interleave([stream(9).map(function) for _ in range(3)]))) == 27
    assert function.threads == {"MainThread"}


@pytest.mark.usefixtures("slow_elements")
def test_slow_streams_are_read_ahead_with_the_same_elements_and_states():
    def build(size):
        return interleave([stream(9).map(function), stream(20, 26).filter(bool), stream(3)], iter_buffer_size=size)

    function = Watched()
    iterator, expected = iter(build(2)), iter(build(0))
    for element in expected:
        assert next(iterator) == element
        assert iterator.get_state() == expected.get_state()
    assert list(iterator) == []
    assert iterator.get_state() == expected.get_state()
    assert any(name.startswith("grain-thread-prefetch") for name in function.threads)


@pytest.mark.usefixtures("slow_elements")
def test_slow_streams_are_read_the_buffer_ahead():
    function = Watched()
    with iter(interleave([stream(50).map(function)], 1, iter_buffer_size=4)) as iterator:
        assert [next(iterator) for _ in range(5)] == [0, 1, 2, 3, 4]
        until(lambda: len(function.calls) > 5 + 2)
        iterator.set_state(iterator.get_state())
        assert list(iterator) == list(range(5, 50))


@pytest.mark.usefixtures("slow_elements")
def test_errors_of_slow_streams_stand_in_their_place():
    iterator, found = iter(interleave([stream(8).map(Watched(fails=[5, 6])), stream(10, 14)])), []
    while True:
        try:
            found.append(next(iterator))
        except StopIteration:
            break
        except ValueError:
            found.append(None)
    assert found == [0, 10, 1, 11, 2, 12, 3, 13, 4, None, None, 7]


class Datasets:
    """A sequence of datasets that takes note of what is opened."""

    def __init__(self, count=6, **kwargs):
        self.open, self.count = Watched(**kwargs), count

    def __len__(self):
        return self.count

    def __getitem__(self, position):
        self.open(position)
        return stream(10 * position, 10 * position + 2)


def test_fast_openings_are_done_when_they_are_due(monkeypatch):
    monkeypatch.setattr(module, "SLOW_OPENING_SECONDS", LONG)  # on a busy machine any may be slow
    datasets = Datasets()
    iterator = iter(interleave(datasets, 1, make_iter_buffer_size=3))
    assert next(iterator) == 0
    assert datasets.open.calls == [0]
    assert len(list(iterator)) == 11
    assert datasets.open.threads == {"MainThread"}


@pytest.mark.usefixtures("slow_openings")
def test_slow_openings_are_done_ahead_and_do_not_count_in_the_state():
    datasets = Datasets()
    with iter(interleave(datasets, 1, make_iter_buffer_size=3, num_make_iter_threads=2)) as iterator:
        assert next(iterator) == 0
        until(lambda: len(datasets.open.calls) >= 3)
        assert iterator.get_state()["next_index_in_datasets"] == 1
        assert list(iterator) == [10 * k + n for k in range(6) for n in range(2)][1:]
    assert sorted(datasets.open.calls) == list(range(6))
    assert any(name.startswith("grain-interleave-open") for name in datasets.open.threads)


@pytest.mark.usefixtures("slow_openings")
def test_an_opening_that_fails_is_told_when_it_is_due():
    iterator, found = iter(interleave(Datasets(4, fails=[1]), 1, make_iter_buffer_size=3, num_make_iter_threads=3)), []
    found = [next(iterator), next(iterator)]
    with pytest.raises(ValueError, match="no 1"):
        next(iterator)
    assert found + list(iterator) == [0, 1, 20, 21, 30, 31]


@pytest.mark.usefixtures("slow_openings")
def test_closing_closes_what_was_opened_ahead(monkeypatch):
    monkeypatch.setattr(module, "SECONDS_TO_STOP", 0.05)
    datasets = Datasets(waits=[1])
    closed = []
    monkeypatch.setattr("grain.streams.boundary.BoundaryStream.close", lambda self: closed.append(self))
    iterator = iter(interleave(datasets, 1, make_iter_buffer_size=1))
    assert next(iterator) == 0
    assert datasets.open.waiting.wait(LONG)
    iterator.close()
    assert len(closed) == 1
    datasets.open.go_on.set()
    until(lambda: len(closed) == 2)


def test_start_prefetch_opens_and_starts_the_slots():
    functions = [Watched() for _ in range(3)]
    datasets = [MapDataset.range(5).map(function).to_iter_dataset(READ_OPTIONS["threads"]) for function in functions]
    with iter(interleave(datasets)) as iterator:
        iterator.start_prefetch()
        until(lambda: all(len(function.calls) == 5 for function in functions[:2]))
        assert functions[2].calls == []
        assert len(list(iterator)) == 15


# ---------------------------------------------------------------- nodes that start early


class Early(Transparent):
    """A stream that starts early, as worker processes do."""

    log: list
    number: int
    starts_early = True

    def run(self, state, parent):
        self.log.append(f"run {self.number}")
        return iter(parent)

    def __str__(self):
        return f"Early({self.number})"


@pytest.fixture
def log(monkeypatch):
    events = []
    plain = OperatorStream.start_prefetch

    def start_prefetch(self):
        if isinstance(self.operator, Early):
            events.append(f"start {self.operator.number}")
        plain(self)

    monkeypatch.setattr(OperatorStream, "start_prefetch", start_prefetch)
    return events


def early(log, count, function=abs):
    return [NodeIterDataset(Early(node_of(stream(10 * k, 10 * k + 3).map(function)), log, k)) for k in range(count)]


def test_nodes_that_start_early_are_all_started_before_the_first_is_read(log):
    iterator = iter(interleave(early(log, 3), 3, make_iter_buffer_size=3))
    iterator.get_state()
    assert log == []
    assert next(iterator) == 0
    first_run = log.index("run 0")
    assert {"start 0", "start 1", "start 2"} <= set(log[:first_run])
    assert grain_threads() == []
    assert list(iterator) == [10, 20, 1, 11, 21, 2, 12, 22]


def test_nodes_that_start_early_and_wait_for_a_place_are_started_too(log):
    iterator = iter(interleave(early(log, 3), 1, make_iter_buffer_size=1))
    assert next(iterator) == 0
    assert log == ["start 1", "start 0", "run 0"]
    assert list(iterator) == [1, 2, 10, 11, 12, 20, 21, 22]


def test_nodes_that_start_early_are_started_after_set_state_too(log):
    dataset = interleave(early(log, 3), 3, make_iter_buffer_size=3)
    used = iter(dataset)
    next(used)
    state = used.get_state()
    resumed = iter(dataset)
    resumed.set_state(state)
    log.clear()
    assert next(resumed) == 10
    assert set(log[: log.index("run 1")]) == {"start 0", "start 1", "start 2"}


def test_an_error_of_a_node_that_starts_early_gives_the_turn_to_the_next(log):
    iterator, found = iter(interleave(early(log, 2, Watched(fails=[1])), 2)), []
    for _ in range(6):
        try:
            found.append(next(iterator))
        except ValueError:
            found.append(None)
    assert found == [0, 10, None, 11, 2, 12]


@pytest.mark.usefixtures("slow_openings")
def test_datasets_that_no_thread_can_open_are_opened_when_it_is_their_turn(monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(module.Opening, "start", refuse)
    datasets = [stream(number, number + 1) for number in range(6)]
    assert list(interleave(datasets, cycle_length=1, make_iter_buffer_size=3)) == [0, 1, 2, 3, 4, 5]
