"""DataLoader: which elements, made how, in which order."""

import dataclasses
import itertools
import pickle
from collections.abc import Iterator

import numpy as np
import pytest

import grain
from grain import Batch, DataLoader, IndexSampler, NoSharding, Record, RecordMetadata, SequentialSampler, ShardOptions
from grain.indices.rng import KeyedRngPool

WORKER_COUNTS = [0, 1, 2, 3]


def add_one(x):
    return x + 1


def as_list(x):
    return [x]


class AddOne(grain.MapTransform):
    def map(self, element):
        return element + 1


class Even(grain.FilterTransform):
    def filter(self, element):
        return element % 2 == 0


class Draw(grain.RandomMapTransform):
    def random_map(self, element, rng):
        return element, int(rng.integers(1000))


class TfDraw(grain.TfRandomMap):
    def np_random_map(self, element, rng):
        return Draw().random_map(element, rng)


class WithIndex(grain.MapWithIndexTransform):
    def map_with_index(self, index, element):
        return index, element


class Twice(grain.experimental.FlatMapTransform):
    max_fan_out = 3

    def flat_map(self, element):
        yield element
        yield -element


class NoneIfOdd(grain.MapTransform):
    def map(self, element):
        return element if element % 2 == 0 else None


class IsNone(grain.MapTransform):
    def map(self, element):
        return element is None


class Failing(grain.MapTransform):
    def map(self, element):
        if element == 3:
            raise KeyError("boom")
        return element


class Halves(grain.Operation):
    def __call__(self, input_iterator):
        for record in input_iterator:
            yield Record(record.metadata, record.data / 2)


def loader(*operations, records=8, sampler=None, **kwargs):
    sampler = sampler or SequentialSampler(records, seed=5)
    return DataLoader(data_source=range(records), sampler=sampler, operations=operations, **kwargs)


def plain(elements):
    return [element.tolist() if isinstance(element, np.ndarray) else element for element in elements]


# ---------------------------------------------------------------- operations


@pytest.mark.parametrize(
    ("operations", "expected"),
    {
        "none": ([], [0, 1, 2, 3]),
        "map": ([AddOne()], [1, 2, 3, 4]),
        "function": ([add_one, str], ["1", "2", "3", "4"]),
        "filter": ([Even()], [0, 2]),
        "batch": ([Batch(3)], [[0, 1, 2], [3]]),
        "batch without the rest": ([Batch(3, drop_remainder=True)], [[0, 1, 2]]),
        "batch with a function": ([Batch(2, batch_fn=sum)], [1, 5]),
        "flat map of a generator": ([Twice()], [0, 0, 1, -1, 2, -2, 3, -3]),
        "random map": ([Draw()], [(0, 206), (1, 208), (2, 163), (3, 312)]),
        "random map of TensorFlow": ([TfDraw()], [(0, 206), (1, 208), (2, 163), (3, 312)]),
        "map with index": ([AddOne(), WithIndex()], [(0, 1), (1, 2), (2, 3), (3, 4)]),
        "index after a filter": ([Even(), WithIndex()], [(0, 0), (2, 2)]),
        "index after a flat map": ([Even(), Twice(), WithIndex()], [(0, 0), (1, 0), (6, 2), (7, -2)]),
        "index after a batch": ([Batch(3, batch_fn=sum), WithIndex()], [(2, 3), (3, 3)]),
        "map of None": ([NoneIfOdd(), IsNone()], [False, True, False, True]),
        "None is an element": ([NoneIfOdd()], [0, None, 2, None]),
        "operation on iterators": ([AddOne(), Halves(), add_one], [1.5, 2.0, 2.5, 3.0]),
    }.values(),
)
def test_operations(operations, expected):
    assert plain(loader(*operations, records=4)) == expected


def test_a_record_has_one_generator_for_all_operations():
    class Add(grain.RandomMapTransform):
        def random_map(self, element, rng):
            return [*element, int(rng.integers(1000))]

    assert list(loader(as_list, Add(), All(), Add(), records=2)) == [[0, 206, 733], [1, 208, 685]]
    # Grain's answer: a batch has the generator of its last record.
    joined = Batch(2, batch_fn=lambda lists: [*itertools.chain(*lists)])
    assert list(loader(as_list, Add(), joined, Add(), records=3)) == [[0, 206, 1, 208, 685], [2, 163, 872]]


class All(grain.FilterTransform):
    def filter(self, element):
        return True


@pytest.mark.parametrize("worker_count", WORKER_COUNTS)
def test_random_numbers_depend_on_the_record_alone(worker_count):
    sampler = IndexSampler(9, shuffle=True, num_epochs=2, seed=5)
    assert sorted(loader(Draw(), sampler=sampler, worker_count=worker_count)) == sorted(loader(Draw(), sampler=sampler))


def test_without_a_seed_random_operations_get_no_generator():
    class Get(grain.RandomMapTransform):
        def random_map(self, element, rng):
            return rng

    assert list(loader(Get(), sampler=SequentialSampler(2))) == [None, None]


def test_generators_are_made_only_for_those_who_use_them(monkeypatch):
    monkeypatch.setattr(KeyedRngPool, "acquire", lambda self, key: pytest.fail("a generator was made"))
    assert len(list(loader(AddOne(), Even(), WithIndex(), HalvesOfPairs(), Batch(2)))) == 2


class HalvesOfPairs(grain.Operation):
    def __call__(self, input_iterator):
        for record in input_iterator:
            yield Record(record.metadata, record.data[1] / 2)


def test_operations_on_iterators_see_all_metadata():
    seen = []

    def look(records):
        for record in records:
            seen.append((record.metadata.index, record.metadata.record_key, record.metadata.rng.integers(1000)))
            yield Record(dataclasses.replace(record.metadata, record_key=None), record.data)

    sampler = IndexSampler(3, ShardOptions(1, 2), num_epochs=2, seed=4)
    assert list(loader(look, sampler=sampler, records=3)) == [2, 2]
    assert seen == [(1, 2, 206), (3, 2, 163)]  # the generators of 4 + 1 and 4 + 3


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (grain.MapOperation(add_one), [1, 2, 3]),
        (grain.FilterOperation(lambda x: x != 1), [0, 2]),
        (grain.RandomMapOperation(lambda x, rng: x + int(rng.integers(1000))), [206, 209, 165]),
        (grain.BatchOperation(2), [[0, 1], [2]]),
        (grain.BatchOperation(2, drop_remainder=True, batch_fn=sum), [1]),
    ],
)
def test_operations_of_older_programs(operation, expected):
    assert plain(loader(operation, records=3)) == expected
    records = (Record(RecordMetadata(i, i, np.random.Generator(np.random.Philox(key=5 + i))), i) for i in range(3))
    assert plain(record.data for record in operation(records)) == expected


def test_errors_of_operations_of_older_programs():
    for kind in ("map", "random map", "condition"):
        name = {"condition": "FilterOperation"}.get(kind, kind.title().replace(" ", "") + "Operation")
        with pytest.raises(ValueError, match=f"error when calling {kind} function.") as raised:
            list(loader(getattr(grain, name)(lambda *args: 1 / 0)))
        assert isinstance(raised.value.__cause__, ZeroDivisionError)
    with pytest.raises(TypeError, match=r"Record structures do not match.*positions \[1\]"):
        list(loader(lambda x: [0] * x, grain.BatchOperation(2)))
    with pytest.raises(ValueError, match=r"batch_size must be a positive integer. Got 0."):
        grain.BatchOperation(0)


# ---------------------------------------------------------------- workers


@pytest.mark.parametrize(
    ("operations", "worker_count", "expected"),
    [
        ([add_one, Even(), Batch(2)], 3, [[4, 10], [2, 8], [6, 12], [16], [14]]),
        ([Batch(2)], 2, [[0, 2], [1, 3], [4, 6], [5, 7], [8, 10], [9, 11], [12, 14], [13, 15]]),
        ([Batch(5, drop_remainder=True)], 2, [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]]),
    ],
)
def test_every_worker_has_its_own_batches(operations, worker_count, expected):
    assert plain(loader(*operations, records=16, worker_count=worker_count)) == expected


def test_more_workers_than_records():
    assert list(loader(records=2, worker_count=3)) == [0, 1]


@pytest.mark.parametrize("worker_count", WORKER_COUNTS)
def test_nothing_but_what_failed_is_lost(worker_count):
    iterator = iter(loader(Failing(), records=8, worker_count=worker_count))
    found = list(itertools.islice(iterator, 3))
    with pytest.raises(KeyError, match="boom"):
        next(iterator)
    assert sorted([*found, *iterator]) == [0, 1, 2, 4, 5, 6, 7]


def test_start_prefetch_starts_the_workers():
    from grain.streams.remote import RemoteStream

    with iter(loader(worker_count=2)) as iterator:
        iterator.start_prefetch()
        streams = iterator._stream.parents[0]._turns.streams()
        assert len(streams) == 2
        assert all(isinstance(stream, RemoteStream) and stream._worker is not None for stream in streams)


@pytest.mark.parametrize("worker_count", [0, 2])
def test_closing(worker_count):
    with iter(loader(worker_count=worker_count)) as iterator:
        assert next(iterator) == 0
    iterator.close()
    with pytest.raises(ValueError, match="closed iterator"):
        next(iterator)


# ---------------------------------------------------------------- the loader itself


@pytest.mark.parametrize("worker_count", WORKER_COUNTS)
@pytest.mark.parametrize(
    "operations", [[], [Draw()], [add_one, Batch(3)], [Batch(3, True, sum), WithIndex(), Batch(2, batch_fn=list)]]
)
def test_length(operations, worker_count):
    made = loader(*operations, records=17, worker_count=worker_count)
    assert len(made) == len(list(made))


@pytest.mark.parametrize("operation", [Even(), Twice(), Halves()])
def test_a_length_that_is_not_known(operation):
    made = loader(operation)
    with pytest.raises(TypeError, match="no length: its operations"):
        len(made)
    assert made


def test_an_endless_loader_has_no_length():
    for shard in (NoSharding(), ShardOptions(0, 2)):
        with pytest.raises(TypeError, match="no length: it is endless"):
            len(loader(sampler=IndexSampler(8, shard)))


def test_a_loader_can_be_iterated_again_and_pickled():
    made = loader(AddOne(), Draw())
    assert list(made) == list(made) == list(pickle.loads(pickle.dumps(made)))


def test_attributes_that_programs_reach_for():
    options = grain.ReadOptions(1, 1)
    made = loader(AddOne(), worker_count=2, worker_buffer_size=3, read_options=options, enable_profiling=True)
    again = DataLoader(
        data_source=made._data_source,
        sampler=made._sampler,
        operations=[*made._operations, add_one],
        shard_options=made._shard_options,
        read_options=made._read_options,
        worker_count=0,
    )
    assert list(again) == list(range(2, 10))
    assert made._multiprocessing_options == grain.MultiprocessingOptions(2, 3, True) == made.multiprocessing_options


@pytest.mark.parametrize(
    ("kwargs", "error", "message"),
    [
        ({"worker_count": -1}, ValueError, "Worker count should be greater than or equal zero.*-1"),
        ({"worker_buffer_size": -1}, ValueError, "Worker buffer size must be greater than or equal zero.*-1"),
        ({"worker_count": 1, "worker_buffer_size": 0}, ValueError, "`buffer_size` must be greater than 0, got 0"),
        ({"sampler": [7]}, ValueError, "No shard options were provided to the DataLoader.*list"),
        ({"operations": [Batch(0)]}, ValueError, "batch_size must be positive."),
        ({"operations": [7]}, TypeError, "operations must be objects of grain.transforms or callable, got 7"),
    ],
)
def test_arguments_that_make_no_sense(kwargs, error, message):
    with pytest.raises(error, match=message):
        DataLoader(**{"data_source": [1, 2], "sampler": SequentialSampler(2), **kwargs})


def test_load():
    made = grain.load(range(5), shuffle=True, seed=0, num_epochs=1, transformations=[AddOne()], batch_size=2)
    assert plain(made) == [[1, 5], [2, 3], [4]]
    assert plain(grain.load([1, 2, 3], num_epochs=1, batch_size=2, drop_remainder=True)) == [[1, 2]]


def test_as_in_the_guide():
    class Images:
        def __len__(self):
            return 20

        def __getitem__(self, index):
            return {"image": np.full((4, 4, 3), index, np.uint8), "label": index}

        def __repr__(self):
            return "Images()"

    class Resize(grain.MapTransform):
        def map(self, element):
            return {**element, "image": element["image"][:2, :2]}

    class Crop(grain.RandomMapTransform):
        def random_map(self, element, rng):
            corner = rng.integers(0, 2)
            return {**element, "image": element["image"][corner:, corner:]}

    sampler = IndexSampler(
        num_records=20,
        shard_options=grain.ShardByJaxProcess(drop_remainder=True),
        shuffle=True,
        num_epochs=1,
        seed=0,
    )
    made = DataLoader(
        data_source=Images(), sampler=sampler, operations=[Resize(), Batch(4, drop_remainder=True)], worker_count=2
    )
    with iter(made) as iterator:
        first = next(iterator)
        assert first["image"].shape == (4, 2, 2, 3)
        state, following = iterator.get_state(), next(iterator)
        iterator.set_state(state)
        np.testing.assert_array_equal(next(iterator)["label"], following["label"])
    cropped = next(iter(DataLoader(data_source=Images(), sampler=sampler, operations=[Resize(), Crop()])))
    assert cropped["image"].shape[0] in (1, 2)


def on_iterators(records: Iterator[Record]) -> Iterator[Record]:
    return (record for record in records)


def in_words(records: "Iterator[Record]"):
    return (record for record in records)


def on_elements(element: "list[Iterator[int]]") -> "Missing[Iterator[int]]":  # noqa: F821 - a name that is not there
    return element


def test_callables_are_told_apart_by_what_their_annotations_mean():
    from grain.ops.records import method_of

    assert method_of(on_iterators) == method_of(in_words) == "operation"
    assert method_of(on_elements) == method_of(abs) == "map"
    assert list(loader(on_iterators, records=4)) == [0, 1, 2, 3]
