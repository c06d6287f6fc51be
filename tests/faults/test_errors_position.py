"""Where an iterator stands after an error: past the element that failed, with a state that the same rest follows."""

import numpy as np
import pytest

from grain import IterDataset, MapDataset, transforms

VICTIMS = {2, 3}  # two in a row: an error must not hide the next one
ERROR = "error"


class BrokenError(Exception):
    pass


def fail(element):
    if element in VICTIMS:
        raise BrokenError(element)
    return element


def with_index(index, element):
    return fail(element)


def with_rng(element, rng):
    return fail(element)


def is_kept(element):
    return fail(element) is not None


def twice(element):
    return [fail(element)] * 2


class Twice(transforms.FlatMap):
    max_fan_out = 2

    def flat_map(self, element):
        return twice(element)


class Source:
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return fail(index)


class SourceOfMany(Source):
    def __getitems__(self, indices):
        return [fail(index) for index in indices]


def join(values):
    return [fail(value) for value in values]


def pairs(batches):
    """[0 1], …: arrays of two elements, of which some cannot be made."""
    return MapDataset.range(batches).map(lambda x: np.array([2 * fail(x), 2 * fail(x) + 1])).to_iter_dataset()


RANGE = MapDataset.range(8)
STREAM = RANGE.to_iter_dataset()
FAILING = RANGE.map(fail)
FAILING_STREAM = FAILING.to_iter_dataset()
TENS = MapDataset.range(10, 18)
REST = MapDataset.source([0, 1, 4, 5, 6, 7]).to_iter_dataset()

PASSED_OVER = [0, 1, ERROR, ERROR, 4, 5, 6, 7]
DOUBLED = [0, 0, 1, 1, ERROR, ERROR, 4, 4, 5, 5, 6, 6, 7, 7]
ALIGNED = [(0, 10), (1, 11), ERROR, ERROR, (4, 14), (5, 15), (6, 16), (7, 17)]
BOTH = [ERROR if element == ERROR else (element, element) for element in PASSED_OVER]
SWAPPED = [ERROR if pair == ERROR else pair[::-1] for pair in ALIGNED]

# name -> (dataset, what is seen by who catches errors and goes on)
PIPELINES = {
    "source": (MapDataset.source(Source()), PASSED_OVER),
    "source of many": (MapDataset.source(SourceOfMany()), PASSED_OVER),
    "Map map": (FAILING, PASSED_OVER),
    "Map map_with_index": (RANGE.map_with_index(with_index), PASSED_OVER),
    "Map random_map": (RANGE.random_map(with_rng, seed=1), PASSED_OVER),
    "Map filter": (RANGE.filter(is_kept), PASSED_OVER),
    "Map flat_map": (
        RANGE.flat_map(Twice()),
        [0, 0, 1, 1, ERROR, ERROR, ERROR, ERROR, 4, 4, 5, 5, 6, 6, 7, 7],  # each item is an element
    ),
    "Map batch": (FAILING.batch(3), [ERROR, ERROR, [6, 7]]),
    "Map batch_fn": (RANGE.batch(3, batch_fn=join), [ERROR, ERROR, [6, 7]]),
    "Map zip, first": (MapDataset.zip([FAILING, TENS]), ALIGNED),
    "Map zip, second": (MapDataset.zip([TENS, FAILING]), SWAPPED),
    "Map mix": (
        MapDataset.mix([FAILING, TENS]),
        [0, 10, 1, 11, ERROR, 12, ERROR, 13, 4, 14, 5, 15, 6, 16, 7, 17],
    ),
    "concatenate": (MapDataset.concatenate([FAILING, MapDataset.range(1)]), [*PASSED_OVER, 0]),
    "shuffle": (FAILING.shuffle(1), [ERROR if x in VICTIMS else x for x in RANGE.shuffle(1)]),
    "map": (STREAM.map(fail), PASSED_OVER),
    "map_with_index": (STREAM.map_with_index(with_index), PASSED_OVER),
    "random_map": (STREAM.random_map(with_rng, seed=1), PASSED_OVER),
    "filter": (STREAM.filter(is_kept), PASSED_OVER),
    "flat_map": (STREAM.flat_map(twice), DOUBLED),
    "batch_fn": (STREAM.batch(3, batch_fn=join), [ERROR, ERROR, [6, 7]]),
    "map above": (FAILING_STREAM.map(lambda x: x), PASSED_OVER),
    "map_with_index above": (FAILING_STREAM.map_with_index(lambda i, x: x), PASSED_OVER),
    "random_map above": (FAILING_STREAM.random_map(lambda x, rng: x, seed=1), PASSED_OVER),
    "filter above": (FAILING_STREAM.filter(lambda x: True), PASSED_OVER),
    "flat_map above": (FAILING_STREAM.flat_map(lambda x: [x, x]), DOUBLED),
    "seed above": (FAILING_STREAM.seed(1), PASSED_OVER),
    "thread_prefetch above": (FAILING_STREAM.thread_prefetch(2), PASSED_OVER),
    "limit above": (FAILING_STREAM.limit(4), [0, 1, ERROR, ERROR, 4, 5]),
    "repeat above": (FAILING_STREAM.repeat(2), PASSED_OVER * 2),
    "batch above": (FAILING_STREAM.batch(3), [ERROR, ERROR, [0, 1, 4], [5, 6, 7]]),
    "rebatch above": (pairs(6).rebatch(3), [[0, 1, 2], ERROR, ERROR, [3, 8, 9], [10, 11]]),
    "zip above, first": (IterDataset.zip([FAILING_STREAM, TENS]), ALIGNED),
    "zip above, second": (IterDataset.zip([TENS, FAILING_STREAM]), SWAPPED),
    "zip above, both": (IterDataset.zip([FAILING_STREAM, FAILING_STREAM]), BOTH),
    "interleave above": (
        IterDataset.interleave([FAILING_STREAM, TENS[:3]], cycle_length=2),
        [0, 10, 1, 11, ERROR, ERROR, 4, 12, 5, 6, 7],
    ),
    "mix above": (
        IterDataset.mix([FAILING_STREAM, TENS]),
        [0, 10, 1, 11, ERROR, 12, ERROR, 13, 4, 14, 5, 15, 6, 16, 7, 17],
    ),
    "batch above map": (STREAM.map(fail).batch(2), [[0, 1], ERROR, ERROR, [4, 5], [6, 7]]),
    "window_shuffle above": (FAILING_STREAM.window_shuffle(4, seed=3), [ERROR, ERROR, *REST.window_shuffle(4, seed=3)]),
    "window_shuffle later": (
        MapDataset.range(8).map(lambda x: fail(x - 4)).to_iter_dataset().window_shuffle(4, seed=3),
        None,
    ),
    "cache above": (FAILING_STREAM.cache(), PASSED_OVER),
    "repeat of a cache above": (FAILING_STREAM.cache().repeat(2), [*PASSED_OVER, 0, 1, 4, 5, 6, 7]),
}


def step(iterator):
    """The next element, ERROR for one that fails, or None at the end."""
    try:
        element = next(iterator)
    except BrokenError:
        return ERROR
    except StopIteration:
        return None
    return element.tolist() if isinstance(element, np.ndarray) else element


def steps(iterator, limit=60):
    seen = []
    for _ in range(limit):
        element = step(iterator)
        if element is None:
            return seen
        seen.append(element)
    raise AssertionError(f"no end in sight: {seen}")


@pytest.mark.parametrize(("dataset", "expected"), PIPELINES.values(), ids=PIPELINES)
def test_failed_elements_are_passed_over(dataset, expected):
    iterator = iter(dataset)
    seen = steps(iterator)
    if expected is not None:
        assert seen == expected
    assert ERROR in seen
    assert step(iterator) is None  # still the end


@pytest.mark.parametrize("dataset", [dataset for dataset, _ in PIPELINES.values()], ids=PIPELINES)
def test_any_state_is_followed_by_the_same_rest(dataset):
    whole = steps(iter(dataset))
    for position in range(len(whole) + 1):
        iterator = iter(dataset)
        for _ in range(position):
            step(iterator)
        resumed = iter(dataset)
        resumed.set_state(iterator.get_state())
        assert steps(resumed) == whole[position:], position
        assert steps(iterator) == whole[position:], position


@pytest.mark.parametrize("dataset", [dataset for dataset, _ in PIPELINES.values()], ids=PIPELINES)
def test_asking_for_the_state_after_an_error_changes_nothing(dataset):
    iterator = iter(dataset)
    seen = []
    while (element := step(iterator)) is not None:
        seen.append(element)
        iterator.get_state()
    assert seen == steps(iter(dataset))


class FailsForMany(SourceOfMany):
    def __getitem__(self, index):
        return index


def test_of_records_read_together_only_the_bad_ones_are_lost():
    dataset = MapDataset.source(SourceOfMany()).to_iter_dataset()
    assert steps(iter(dataset.batch(3, batch_fn=list).flat_map(list))) == [ERROR, ERROR, 0, 1, 4, 5, 6, 7]
    assert steps(iter(MapDataset.source(SourceOfMany()).batch(3).map(list).to_iter_dataset())) == [ERROR, ERROR, [6, 7]]


def test_reading_records_together_fails_for_no_single_one():
    """A failed `__getitems__` does not say which record it was: what follows it may vary, but it ends, and soon."""
    dataset = MapDataset.source(FailsForMany()).to_iter_dataset().batch(3)
    whole = steps(iter(dataset))
    assert whole[-1][-1] == 7
    assert 1 <= whole.count(ERROR) <= len(RANGE.batch(3))
    for position in range(len(whole) + 1):
        iterator = iter(dataset)
        for _ in range(position):
            step(iterator)
        resumed = iter(dataset)
        resumed.set_state(iterator.get_state())
        assert steps(resumed) == whole[position:], position


def test_opening_a_dataset_of_an_interleave_fails():
    datasets = MapDataset.range(5).map(lambda x: MapDataset.source([fail(x)] * 2))
    assert steps(iter(IterDataset.interleave(datasets, cycle_length=2))) == [0, 1, 0, 1, ERROR, ERROR, 4, 4]
    assert steps(iter(IterDataset.interleave(datasets, cycle_length=1))) == [0, 0, 1, 1, ERROR, ERROR, 4, 4]


def test_strict_zip_ends_after_its_complaint():
    iterator = iter(IterDataset.zip([MapDataset.range(3), MapDataset.range(2)]))
    assert [next(iterator), next(iterator)] == [(0, 0), (1, 1)]
    with pytest.raises(ValueError, match="shorter"):
        next(iterator)
    with pytest.raises((StopIteration, ValueError)):
        next(iterator)


@pytest.mark.parametrize(
    "dataset",
    [
        RANGE.map(lambda x: next(iter(()))),
        RANGE.filter(lambda x: next(iter(()))),
        RANGE.batch(2, batch_fn=lambda values: next(iter(()))),
        MapDataset.zip([RANGE, RANGE.map(lambda x: next(iter(())))]),
        STREAM.map(lambda x: next(iter(()))),
        STREAM.filter(lambda x: next(iter(()))),
        STREAM.flat_map(lambda x: next(iter(()))),
        STREAM.batch(2, batch_fn=lambda values: next(iter(()))),
        RANGE.map(lambda x: next(iter(()))).to_iter_dataset().batch(2),
    ],
)
def test_stop_iteration_of_a_users_function_is_not_the_end(dataset):
    """As in generators: it would silently drop the rest of the data."""
    with pytest.raises(RuntimeError, match="StopIteration"):
        next(iter(dataset))


def test_an_interrupt_can_be_survived():
    interrupts = iter([KeyboardInterrupt])

    def interrupted(element):
        for interrupt in interrupts:
            raise interrupt
        return element

    iterator = iter(STREAM.map(interrupted))
    with pytest.raises(KeyboardInterrupt):
        next(iterator)
    assert steps(iterator) == [*range(8)]
