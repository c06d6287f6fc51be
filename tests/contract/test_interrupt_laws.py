"""Interrupts lose nothing: after one, at any call of any user's function, the next call gives what was next."""

from __future__ import annotations

import json
import sys

import pytest

from grain import IterDataset, MapDataset, MultiprocessingOptions, ReadOptions
from support.comparison import plain, recorded
from support.interruption import Interruption, count_events
from support.pipelines import NAMES, READ_OPTIONS, iter_pipeline


class HarmlessError(BaseException):
    """Something that is no Exception, and not Ctrl-C either."""


def places(count, most=sys.maxsize):
    """The numbers of events at which to interrupt: all, or `most` that are evenly spread."""
    return range(1, count + 1, max(1, count // most))


def assert_nothing_is_lost(dataset, interruption, elements, states=None):
    """Go on after the interrupt, and also resume from the state at that time."""
    iterator, seen = iter(dataset), []
    while True:
        try:
            seen.append(plain(interruption.call(next, iterator)))
        except StopIteration:
            break
        except interruption.exception:
            state = iterator.get_state()
            if states is not None:
                assert state == states[len(seen)], interruption.place
            resumed = iter(dataset)
            resumed.set_state(json.loads(json.dumps(state)))
            assert [plain(element) for element in resumed] == elements[len(seen) :], interruption.place
    assert seen == elements, interruption.place


@pytest.mark.parametrize("back_end", READ_OPTIONS)
@pytest.mark.parametrize("name", NAMES)
def test_an_interrupt_of_any_function(name, back_end):
    dataset = iter_pipeline(name, back_end)
    elements, states = recorded(dataset)
    count = count_events(dataset)
    for place in places(count):
        interruption = Interruption(place)
        assert_nothing_is_lost(dataset, interruption, elements, states)
        assert interruption.place is not None or place > count // 2  # datasets opened by threads are not seen


# Of files there are none: a lock that is held while such an exception is raised between two lines is never released,
# which no signal can bring about.
TRACED = [
    "iter: map",
    "iter: batch",
    "iter: zip",
    "iter: mix",
    "iter: flat_map",
    "iter: window_shuffle",
    "iter: interleave, one after the other",
    "iter: bucket_by_length",
    "iter: batch_by_cost",
    "iter: pack_first_fit",
    "iter: concat_and_split",
    "map: mix",
]


@pytest.mark.parametrize("name", TRACED)
def test_an_interrupt_in_any_line_of_the_library(name):
    dataset = iter_pipeline(name, "inline")
    elements = [plain(element) for element in dataset]
    count = count_events(dataset, lines=True)
    for place in places(count, most=150):
        assert_nothing_is_lost(dataset, Interruption(place, lines=True), elements)


# In a destructor Python says that it ignores it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", TRACED)
def test_an_interrupt_while_another_is_seen_to(name):
    dataset = iter_pipeline(name, "inline")
    elements = [plain(element) for element in dataset]
    for place in places(count_events(dataset), most=3):
        for again in range(1, 40):
            interruption = Interruption(place, again=again)
            assert_nothing_is_lost(dataset, interruption, elements)
            if ", and " not in interruption.place:
                break
        assert again > 10


@pytest.mark.parametrize("exception", [KeyboardInterrupt, SystemExit, GeneratorExit, HarmlessError])
def test_whatever_is_no_exception_interrupts(exception):
    dataset = iter_pipeline("iter: deep", "inline")
    elements, states = recorded(dataset)
    for place in places(count_events(dataset)):
        assert_nothing_is_lost(dataset, Interruption(place, exception=exception), elements, states)


class Interrupting:
    """A function that raises an interrupt for one element, once, wherever it is called; a file tells the others."""

    def __init__(self, folder, at):
        self.folder, self.at = folder, at

    def __call__(self, element):
        file = self.folder / f"{element}"
        if element == self.at and not file.exists():
            file.touch()
            raise KeyboardInterrupt
        return element


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(lambda ds: ds.to_iter_dataset(ReadOptions(num_threads=3, prefetch_buffer_size=7)), id="threads"),
        pytest.param(lambda ds: ds.to_iter_dataset().thread_prefetch(3), id="thread_prefetch"),
        pytest.param(lambda ds: ds.to_iter_dataset().mp_prefetch(MultiprocessingOptions(2)), id="processes"),
        pytest.param(lambda ds: ds.to_iter_dataset().batch(2).mp_prefetch(MultiprocessingOptions(2)), id="batches"),
    ],
)
def test_an_interrupt_of_a_function_that_runs_elsewhere(tmp_path, run):
    expected = [plain(element) for element in run(MapDataset.range(12))]
    iterator = iter(run(MapDataset.range(12).map(Interrupting(tmp_path, 5))))
    seen, interrupts = [], 0
    while True:
        before = iterator.get_state()
        try:
            seen.append(plain(next(iterator)))
        except StopIteration:
            break
        except KeyboardInterrupt:
            interrupts += 1
            assert iterator.get_state() == before
    assert seen == expected
    assert interrupts == 1


def test_pairs_stay_pairs():
    def decode(image):
        return image + 100

    images, labels = (MapDataset.range(8).to_iter_dataset() for _ in range(2))
    zipped = IterDataset.zip([images.map(decode), labels])
    for at in range(8):
        armed = [at]

        def interrupted(pair, armed=armed):
            if armed and pair[1] == armed[0]:
                armed.pop()
                raise KeyboardInterrupt
            return pair

        iterator, seen = iter(zipped.map(interrupted)), []
        while True:
            try:
                seen.append(next(iterator))
            except StopIteration:
                break
            except KeyboardInterrupt:
                continue
        assert seen == [(x + 100, x) for x in range(8)]


def test_counts_are_those_of_what_was_handed_out():
    dataset = iter_pipeline("iter: pack_first_fit", "inline")
    whole = iter(dataset)
    list(whole)
    for place in places(count_events(dataset, lines=True), most=40):
        iterator, interruption = iter(dataset), Interruption(place, lines=True)
        while True:
            try:
                interruption.call(next, iterator)
            except StopIteration:
                break
            except KeyboardInterrupt:
                continue
        assert repr(iterator.packing_statistics) == repr(whole.packing_statistics), interruption.place


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("at", [6, 8, 9, 15])
def test_an_interrupt_after_an_error_that_does_not_come_again(at, times):
    """As of a file that could not be read for a moment: no element is lost, or comes twice."""
    left = {"error": 1, "interrupt": times}

    def flaky(x):
        for kind, place, exception in (("error", 5, ValueError), ("interrupt", at, KeyboardInterrupt)):
            if x == place and left[kind]:
                left[kind] -= 1
                raise exception
        return x

    inline = ReadOptions(num_threads=0, prefetch_buffer_size=0)
    iterator = iter(MapDataset.range(20).to_iter_dataset(inline).map(flaky).batch(4, batch_fn=list))
    seen = []
    while True:
        try:
            seen.extend(next(iterator))
        except StopIteration:
            break
        except (ValueError, KeyboardInterrupt):
            continue
    # Read again for the batch that was interrupted, it is there.
    assert seen == ([*range(20)] if at < 9 else [*range(5), *range(6, 20)])
