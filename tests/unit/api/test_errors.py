"""Every error of the library itself: its type, and that its message says what was wrong and what to do."""

import re

import numpy as np
import pytest

from grain import IterDataset, MapDataset, transforms
from grain.api.checking import assert_equal_output_after_checkpoint
from grain.errors import PyGrainInternalError
from grain.experimental import (
    CacheIterDataset,
    FlatMapIterDataset,
    FlatMapMapDataset,
    InterleaveIterDataset,
    LimitIterDataset,
    RebatchIterDataset,
    RepeatIterDataset,
    ThreadPrefetchIterDataset,
    WindowShuffleMapDataset,
    ZipIterDataset,
    ZipMapDataset,
    get_next_index,
    set_next_index,
)

RANGE = MapDataset.range(10)
STREAM = RANGE.to_iter_dataset()
EMPTY = MapDataset.range(0)
ENDLESS = RANGE.repeat()
SPARSE = RANGE.filter(lambda x: x > 3)


class Twice(transforms.FlatMap):
    max_fan_out = 2

    def flat_map(self, element):
        return [element, element]


class TooMany(Twice):
    def flat_map(self, element):
        return [element] * 3


class Unbounded(transforms.FlatMap):
    def flat_map(self, element):
        return [element]


class Lazy(Twice):
    def flat_map(self, element):
        return (element for _ in range(2))


class TensorFlowMap(transforms.TfRandomMap):
    def np_random_map(self, element, rng):
        return element


def raises(error, *words):
    return pytest.raises(error, match="(?s)" + ".*".join(map(re.escape, words)))


# what is built -> type, words of the message in their order
CONSTRUCTORS = {
    "MapDataset": (lambda: MapDataset(), TypeError, ["abstract"]),
    "IterDataset": (lambda: IterDataset(), TypeError, ["abstract"]),
    "range of step 0": (lambda: MapDataset.range(1, 5, 0), ValueError, ["zero"]),
    "repeat 0": (lambda: RANGE.repeat(0), ValueError, ["num_epochs must be positive, but got 0."]),
    "repeat -1": (lambda: RANGE.repeat(-1), ValueError, ["num_epochs must be positive, but got -1."]),
    "repeat of endless": (lambda: ENDLESS.repeat(), ValueError, ["already infinite dataset Repeat", "does nothing."]),
    "repeat twice of endless": (lambda: ENDLESS.repeat(2), ValueError, ["already infinite"]),
    "repeat of a stream": (lambda: STREAM.repeat(0), ValueError, ["num_epochs must be positive, but got 0."]),
    "RepeatIterDataset": (lambda: RepeatIterDataset(STREAM, -2), ValueError, ["must be positive, but got -2."]),
    "batch 0": (lambda: RANGE.batch(0), ValueError, ["batch_size must be positive.", "0"]),
    "batch -1": (lambda: RANGE.batch(-1), ValueError, ["batch_size must be positive.", "-1"]),
    "batch of a stream": (lambda: STREAM.batch(0), ValueError, ["batch_size must be positive."]),
    "rebatch": (lambda: STREAM.batch(2).rebatch(0), ValueError, ["batch_size must be positive."]),
    "RebatchIterDataset": (lambda: RebatchIterDataset(STREAM, -1), ValueError, ["must be positive.", "-1"]),
    "batch after filter": (
        lambda: SPARSE.batch(2),
        ValueError,
        ["`MapDataset.batch` can not follow `MapDataset.filter`", "to_iter_dataset()"],
    ),
    "batch some way after filter": (
        lambda: SPARSE.map(abs).shuffle(1).repeat(2).batch(2),
        ValueError,
        ["can not follow `MapDataset.filter`"],
    ),
    "batch after a mix with a filter": (
        lambda: MapDataset.mix([RANGE, SPARSE]).batch(2),
        ValueError,
        ["can not follow `MapDataset.filter`"],
    ),
    "batch after flat_map": (
        lambda: FlatMapMapDataset(RANGE, Twice()).map(abs).batch(2),
        ValueError,
        ["`MapDataset.batch` can not follow", "FlatMapMapDataset", "to_iter_dataset()"],
    ),
    "weight 0": (
        lambda: MapDataset.mix([RANGE, RANGE], [1, 0]),
        ValueError,
        ["Must specify all non-zero proportions for mixing.", "[1, 0]"],
    ),
    "weight 0 of a stream": (
        lambda: IterDataset.mix([STREAM, STREAM], [0.0, 1]),
        ValueError,
        ["Must specify all non-zero proportions for mixing."],
    ),
    "negative weight": (lambda: MapDataset.mix([RANGE, RANGE], [1, -1]), ValueError, ["positive", "[1, -1]"]),
    "negative weight of a stream": (lambda: IterDataset.mix([STREAM] * 2, [-1, 2]), ValueError, ["[-1, 2]"]),
    "too many weights": (
        lambda: MapDataset.mix([RANGE, RANGE], [1, 2, 3]),
        AssertionError,
        ["3 weights", "2 datasets"],
    ),
    "too few weights": (lambda: IterDataset.mix([STREAM] * 2, [1]), AssertionError, ["1 weights", "2 datasets"]),
    "mix of nothing": (lambda: MapDataset.mix([]), ValueError, ["empty"]),
    "mix of no streams": (lambda: IterDataset.mix([]), ValueError, ["empty"]),
    "mix of no named streams": (lambda: IterDataset.mix({}), ValueError, ["empty"]),
    "mix with empty": (
        lambda: MapDataset.mix([EMPTY, RANGE, EMPTY]),
        ValueError,
        [
            "All datasets must have positive length for mixing, but dataset(s) at index 0 (RangeMapDataset(start=0, "
            "stop=0, step=1)), 2 (RangeMapDataset(start=0, stop=0, step=1)) have length 0."
        ],
    ),
    "names of weights": (
        lambda: IterDataset.mix({"a": STREAM, "b": STREAM}, {"a": 1, "c": 2}),
        ValueError,
        ["keys", "weights"],
    ),
    "named weights only": (lambda: IterDataset.mix([STREAM, STREAM], {"a": 1, "b": 2}), ValueError, ["weights"]),
    "mix of streams as a MapDataset": (lambda: MapDataset.mix([STREAM]), TypeError, ["MapDataset", "Prefetch"]),
    "mix of lists": (lambda: MapDataset.mix([[1, 2]]), TypeError, ["MapDataset", "[1, 2]", "list"]),
    "zip of lists": (lambda: IterDataset.zip([[1, 2]]), TypeError, ["[1, 2]", "list"]),
    "concatenate endless": (
        lambda: MapDataset.concatenate([RANGE, ENDLESS]),
        ValueError,
        ["Cannot concatenate infinite datasets. RepeatMapDataset(num_epochs=None) is infinite."],
    ),
    "zip of nothing": (lambda: MapDataset.zip([]), ValueError, ["At least one parent must be provided."]),
    "zip of no streams": (lambda: ZipIterDataset([]), ValueError, ["At least one parent must be provided."]),
    "zip of two lengths": (
        lambda: ZipMapDataset([RANGE, MapDataset.range(3)]),
        ValueError,
        ["All parents must have the same length.", "[10, 3]"],
    ),
    "limit 0": (lambda: STREAM.limit(0), ValueError, ["Count must be a positive integer.", "0"]),
    "limit -1": (lambda: LimitIterDataset(STREAM, -1), ValueError, ["Count must be a positive integer.", "-1"]),
    "slice by a number": (lambda: RANGE.slice(3), (TypeError, ValueError), ["slice", "int"]),
    "thread_prefetch": (
        lambda: ThreadPrefetchIterDataset(STREAM, prefetch_buffer_size=-1),
        ValueError,
        ["`prefetch_buffer_size` must be greater than or equal to 0, got -1"],
    ),
    "apply a function": (
        lambda: RANGE.apply(abs),
        NotImplementedError,
        ["Transformation type: ", "abs", "is not supported.", "`map`"],
    ),
    "apply a generator": (
        lambda: RANGE.apply(x for x in [Twice()]),
        NotImplementedError,
        ["Transformation type: ", "is not supported."],
    ),
    "apply TfRandomMap": (lambda: STREAM.apply([TensorFlowMap()]), NotImplementedError, ["TensorFlowMap"]),
    "flat_map without max_fan_out": (lambda: len(RANGE.flat_map(Unbounded())), AttributeError, ["max_fan_out"]),
    "operators of streams on a MapDataset": (lambda: RANGE.limit(3), AttributeError, ["limit"]),
    "operators of a MapDataset on streams": (lambda: STREAM.shuffle(3), AttributeError, ["shuffle"]),
    "factories on objects": (lambda: RANGE.source([1]), AttributeError, ["source"]),
}


@pytest.mark.parametrize(("build", "error", "words"), CONSTRUCTORS.values(), ids=CONSTRUCTORS)
def test_constructor_errors(build, error, words):
    with raises(error, *words):
        build()


INDEXED_WITHOUT_ELEMENTS = {
    "range": EMPTY,
    "source": MapDataset.source([]),
    "map": EMPTY.map(abs),
    "shuffle": EMPTY.shuffle(1),
    "slice": RANGE[3:3],
    "indices": RANGE.slice([]),
    "batch": EMPTY.batch(2),
    "dropped batch": RANGE.batch(20, drop_remainder=True),
    "concatenate": MapDataset.concatenate([]),
    "concatenate of empty": MapDataset.concatenate([EMPTY, EMPTY]),
    "repeat": EMPTY.repeat(),
    "window_shuffle of no window": WindowShuffleMapDataset(RANGE, window_size=0, seed=1),
}


@pytest.mark.parametrize("dataset", INDEXED_WITHOUT_ELEMENTS.values(), ids=INDEXED_WITHOUT_ELEMENTS)
def test_index_of_an_empty_dataset(dataset):
    with pytest.raises(ZeroDivisionError):
        dataset[0]


@pytest.mark.parametrize("name", [name for name in INDEXED_WITHOUT_ELEMENTS if "window" not in name])
def test_empty_datasets_can_be_iterated(name):
    assert len(INDEXED_WITHOUT_ELEMENTS[name]) == 0
    assert list(INDEXED_WITHOUT_ELEMENTS[name]) == []


def test_endless_repeat_of_nothing_ends():
    assert list(EMPTY.repeat()) == []
    assert list(EMPTY.to_iter_dataset().repeat()) == []
    assert list(STREAM.filter(lambda x: False).repeat()) == []


def zipped(*lengths):
    return ZipIterDataset([MapDataset.range(length).to_iter_dataset() for length in lengths])


class Unsized:
    def __getitem__(self, index):
        return index


class Forgetful(list):
    def __getitems__(self, indices):
        return [self[index] for index in indices[1:]]


RUNS = {
    "negative index of random_map": (
        lambda: RANGE.random_map(lambda x, rng: x, seed=1)[-1],
        OverflowError,
        ["-1"],
    ),
    "length beyond ssize_t": (lambda: len(MapDataset.range(2**40).repeat(2**40)), OverflowError, []),
    "list as an index": (lambda: RANGE[[1, 2]], TypeError, ["list"]),
    "fan-out": (
        lambda: FlatMapMapDataset(RANGE, TooMany())[0],
        ValueError,
        ["The user-provided FlatMapTransform has a split that exceeds specified max fan-out size.", "3", "2"],
    ),
    "flat_map of a stream to a generator": (
        lambda: list(FlatMapIterDataset(STREAM, Lazy())),
        TypeError,
        ["object of type 'generator' has no len()"],
    ),
    "zip 3 2": (lambda: list(zipped(3, 2)), ValueError, ["ZipIterDataset argument 2 is shorter than argument 1"]),
    "zip 3 3 2": (
        lambda: list(zipped(3, 3, 2)),
        ValueError,
        ["ZipIterDataset argument 3 is shorter than arguments 1-2"],
    ),
    "zip 2 3": (lambda: list(zipped(2, 3)), ValueError, ["ZipIterDataset argument 2 is longer than argument 1"]),
    "zip 2 2 3": (
        lambda: list(zipped(2, 2, 3)),
        ValueError,
        ["ZipIterDataset argument 3 is longer than arguments 1-2"],
    ),
    "rebatch of empty batches": (
        lambda: list(MapDataset.source([np.zeros((0, 2))]).to_iter_dataset().rebatch(2)),
        ValueError,
        ["Rebatching with starting batch size of 0 is not supported."],
    ),
    "rebatch of numbers": (lambda: list(STREAM.rebatch(2)), TypeError, ["len()"]),
    "source of unknown length": (lambda: list(MapDataset.source(Unsized())), TypeError, ["len()"]),
    "too few records": (
        lambda: list(MapDataset.source(Forgetful([1, 2, 3])).batch(3)),
        ValueError,
        ["Forgetful.__getitems__", "3 records", "2"],
    ),
    "check of nothing": (lambda: assert_equal_output_after_checkpoint(EMPTY), AssertionError, ["no elements"]),
}


@pytest.mark.parametrize(("run", "error", "words"), RUNS.values(), ids=RUNS)
def test_errors_while_running(run, error, words):
    with raises(error, *words):
        run()


WITHOUT_NEXT_INDEX = {
    "filter": STREAM.filter(bool),
    "flat_map": STREAM.flat_map(Twice()),
    "mix": IterDataset.mix([STREAM]),
    "zip": zipped(3, 3),
    "repeat": STREAM.repeat(2),
    "cache": CacheIterDataset(STREAM),
    "rebatch": STREAM.batch(2).rebatch(3),
    "window_shuffle": STREAM.window_shuffle(2, seed=1),
    "interleave": InterleaveIterDataset([STREAM, STREAM], cycle_length=2),
    "map after filter": STREAM.filter(bool).map(abs),
}


@pytest.mark.parametrize("dataset", WITHOUT_NEXT_INDEX.values(), ids=WITHOUT_NEXT_INDEX)
def test_next_index_where_it_is_not_known(dataset):
    iterator = iter(dataset)
    with raises(NotImplementedError, "get_next_index is not supported for"):
        get_next_index(iterator)
    with raises(NotImplementedError, "set_next_index is not supported for"):
        set_next_index(iterator, 2)
    assert str(next(iterator)) == str(next(iter(dataset)))


@pytest.mark.parametrize("index", [-1, 11])
@pytest.mark.parametrize("dataset", [STREAM, STREAM.map(abs), STREAM.map_with_index(lambda i, x: (i, x))])
def test_next_index_out_of_range(dataset, index):
    iterator = iter(dataset)
    next(iterator)
    state = iterator.get_state()
    with raises(IndexError, f"`next_index` {index} is out of range for dataset of length 10."):
        set_next_index(iterator, index)
    assert iterator.get_state() == state
    assert list(iterator) == list(dataset)[1:]


def test_closed_iterator():
    iterator = iter(STREAM.map(abs))
    iterator.close()
    with raises(ValueError, "Trying to advance a closed iterator: 'MapDatasetIterator(transform=abs)'", "iter("):
        next(iterator)
    with raises(ValueError, "closed iterator"):
        iterator.start_prefetch()


def test_check_says_where_the_output_differs():
    class Stuck(IterDataset):
        """Starts anew wherever it is set."""

        def __iter__(self):
            iterator = RANGE.to_iter_dataset().__iter__()
            iterator.set_state = lambda state: None
            return iterator

    with pytest.raises(AssertionError):
        assert_equal_output_after_checkpoint(Stuck())


def test_internal_error_is_an_exception_of_its_own():
    assert PyGrainInternalError.__base__ is Exception
