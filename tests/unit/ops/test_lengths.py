"""Elements of different lengths: buckets, batches by cost, rows of batches, and splitting by a table."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grain import MapDataset, ReadOptions
from grain.transforms import Padding
from support import models

INLINE = ReadOptions(num_threads=0, prefetch_buffer_size=0)


def document(length):
    return np.full(length, length)


def stream_of(lengths, function=document):
    return MapDataset.source(lengths).map(function).to_iter_dataset(INLINE)


def lengths_in(batch):
    """The lengths of the documents of a padded batch."""
    return [int(row.max(initial=0)) for row in batch]


class Counting:
    """A source that notes what is read of it, and fails where it is told to."""

    def __init__(self, values):
        self.values, self.read, self.failing = values, [], set()

    def __len__(self):
        return len(self.values)

    def __getitem__(self, index):
        self.read.append(index)
        if index in self.failing:
            raise OSError(f"record {index} is broken")
        return document(self.values[index])


# ---------------------------------------------------------------- buckets


@given(
    st.lists(st.integers(1, 12), max_size=150),
    st.lists(st.integers(1, 4), min_size=3, max_size=3),
    st.integers(1, 60),
    st.booleans(),
)
def test_buckets_are_filled_in_the_order_of_arrival(lengths, sizes, max_wait, drop_remainder):
    dataset = stream_of(lengths).bucket_by_length([2, 7], sizes, max_wait=max_wait, drop_remainder=drop_remainder)
    assert [lengths_in(batch) for batch in dataset] == models.in_buckets(
        lengths, int, [2, 7], sizes, max_wait, drop_remainder
    )


def test_batches_have_one_shape_for_each_bucket_where_padded_to_the_boundary():
    lengths = [1, 5, 2, 6, 3, 1, 8, 2]
    dataset = stream_of(lengths).bucket_by_length([3, 8], [2, 3], padding=Padding("boundary"), drop_remainder=True)
    assert [batch.shape for batch in dataset] == [(2, 3), (2, 3), (3, 8)]


def test_resuming_reads_no_more_than_can_wait():
    lengths = np.random.default_rng(1).choice([1, 2, 9], 2000, p=[0.5, 0.498, 0.002]).tolist()
    source = Counting(lengths)
    dataset = MapDataset.source(source).to_iter_dataset(INLINE).bucket_by_length([1, 2, 9], [7, 8, 9], max_wait=300)
    iterator = iter(dataset)
    replayed = []
    for number, _ in enumerate(iterator):
        if number % 10 == 0:
            state = iterator.get_state()
            assert len(json.dumps(state)) < 200
            furthest = max(source.read)
            resumed = iter(dataset)
            resumed.set_state(state)
            source.read.clear()
            next(resumed, None)
            replayed.append(sum(index <= furthest for index in source.read))
            source.read.append(furthest)
    assert 200 < max(replayed) <= 332  # the rare ones do wait for long


@pytest.mark.parametrize("fails", [False, True])
def test_an_element_waits_no_longer_though_each_other_one_fills_a_bucket(fails):
    source = Counting([9] + [1] * 99)
    source.failing = {2, 3, 4} if fails else set()
    iterator = iter(MapDataset.source(source).to_iter_dataset(INLINE).bucket_by_length([1, 9], [1, 2], max_wait=5))
    elements = []
    while [9] not in elements:
        try:
            elements.append(lengths_in(next(iterator)))
        except OSError:
            assert fails
    assert max(source.read) == 5


def test_records_that_fail_need_not_be_read_again():
    source = Counting([1] * 200)
    source.failing = set(range(1, 200))
    iterator = iter(MapDataset.source(source).to_iter_dataset(INLINE).bucket_by_length([1], [1]))
    next(iterator)
    for _ in range(150):
        with pytest.raises(OSError, match="is broken"):
            next(iterator)
    assert iterator.get_state()["read"] <= 32


def test_an_element_that_fits_no_bucket_is_passed_over():
    iterator = iter(stream_of([1, 9, 2, 3]).bucket_by_length([4], [3]))
    with pytest.raises(ValueError, match="length 9 is longer than the last boundary, 4: crop it") as caught:
        next(iterator)
    assert "BucketIterDataset(boundaries=[4], batch_sizes=[3]) for the element at index 1" in caught.value.__notes__[0]
    resumed = iter(stream_of([1, 9, 2, 3]).bucket_by_length([4], [3]))
    resumed.set_state(iterator.get_state())
    assert [lengths_in(batch) for batch in iterator] == [lengths_in(batch) for batch in resumed] == [[1, 2, 3]]


def test_a_record_that_fails_is_reported_once_and_not_again_by_reading_again():
    source = Counting([1, 5, 2, 6, 3, 7, 1])
    dataset = MapDataset.source(source).to_iter_dataset(INLINE).bucket_by_length([3, 9], [2, 4])
    source.failing = {1}
    iterator = iter(dataset)
    with pytest.raises(OSError, match="record 1 is broken"):
        next(iterator)
    assert lengths_in(next(iterator)) == [1, 2]
    resumed = iter(dataset)
    resumed.set_state(iterator.get_state())
    assert [lengths_in(batch) for batch in resumed] == [lengths_in(batch) for batch in iterator] == [[3, 1], [6, 7]]


def test_a_waiting_record_that_fails_when_it_is_read_again_is_passed_over():
    source = Counting([1, 5, 2, 6, 3, 7, 1])
    dataset = MapDataset.source(source).to_iter_dataset(INLINE).bucket_by_length([3, 9], [2, 4])
    iterator = iter(dataset)
    assert lengths_in(next(iterator)) == [1, 2]
    source.failing = {0, 1}  # the first has been handed out, the second waits
    iterator.set_state(iterator.get_state())
    with pytest.raises(OSError, match="record 1 is broken"):
        next(iterator)
    assert [lengths_in(batch) for batch in iterator] == [[3, 1], [6, 7]]


def test_length_functions():
    records = [{"a": np.ones(3), "b": np.ones((5, 2))}, {"a": np.ones(4), "b": np.ones((1, 2))}]
    stream = MapDataset.source(records).to_iter_dataset()
    by_longest = [len(batch["a"]) for batch in stream.bucket_by_length([4, 8], [2, 2])]
    by_first = [len(batch["a"]) for batch in stream.bucket_by_length([4, 8], [2, 2], length_fn=lambda x: len(x["a"]))]
    assert (by_longest, by_first) == ([1, 1], [2])
    with pytest.raises(ValueError, match=r"no array with a length in int\[\]: pass `length_fn`"):
        next(iter(MapDataset.range(3).to_iter_dataset().bucket_by_length([4], [2])))


@pytest.mark.parametrize(
    ("boundaries", "sizes", "options", "message"),
    [
        ([], [1], {}, r"lengths that increase, got \[\]"),
        ([3, 3], [1, 1], {}, r"lengths that increase, got \[3, 3\]"),
        ([3, 5], [1], {}, "got 1 batch sizes for 2 boundaries"),
        ([3, 5], [1, 2, 3, 4], {}, "got 4 batch sizes for 2 boundaries"),
        ([3, 5], [1, 0], {}, "batch_size must be positive. Got 0"),
        ([3], [1, 2], {"padding": Padding("boundary")}, "the last one has none: add a boundary"),
        ([3], [1], {"max_wait": 0}, "max_wait must be positive, got 0"),
    ],
)
def test_wrong_buckets(boundaries, sizes, options, message):
    with pytest.raises(ValueError, match=message):
        stream_of([1]).bucket_by_length(boundaries, sizes, **options)


@pytest.mark.parametrize("change", [{"waiting": [1]}, {"waiting": "0 x"}, {"read": -1}, {"parent": {}}])
def test_states_that_do_not_fit(change):
    iterator = iter(stream_of([1, 5, 2]).bucket_by_length([3, 9], [2, 2]))
    next(iterator)
    state = iterator.get_state()
    assert state == {"parent": {"next_index": 0}, "read": 3, "waiting": "1"}
    with pytest.raises(ValueError, match="The state does not fit"):
        iterator.set_state(state | change)
    assert [lengths_in(batch) for batch in iterator] == [[5]]


# ---------------------------------------------------------------- costs


@given(st.lists(st.integers(1, 10), max_size=60), st.integers(10, 40))
def test_batches_cost_as_much_as_they_may(lengths, max_cost):
    stream = stream_of(lengths)
    assert list(stream.batch_by_cost(max_cost, len, batch_fn=lambda batch: [*map(len, batch)])) == models.by_cost(
        lengths, int, max_cost
    )
    padded = stream.batch_by_cost(max_cost, len, padding=Padding())
    assert [lengths_in(batch) for batch in padded] == models.by_cost(lengths, int, max_cost, is_padded=True)
    assert all(batch.size <= max_cost for batch in padded)


def test_an_element_that_costs_too_much_is_an_error_after_the_batch_before_it():
    iterator = iter(stream_of([2, 3, 9, 1, 1]).batch_by_cost(6, len, batch_fn=np.concatenate))
    assert len(next(iterator)) == 5
    with pytest.raises(ValueError, match="costs 9, and a batch may cost no more than max_cost=6: raise") as caught:
        next(iterator)
    assert "cost_fn len for the element at index 2" in caught.value.__notes__[0]
    assert len(next(iterator)) == 2


def test_resuming_reads_no_more_than_one_batch_again():
    source = Counting([2, 2, 2, 3, 1, 2, 2, 4])
    dataset = MapDataset.source(source).to_iter_dataset(INLINE).batch_by_cost(6, len, batch_fn=np.concatenate)
    iterator = iter(dataset)
    assert [len(next(iterator)), len(next(iterator))] == [6, 6]
    source.read.clear()
    iterator.set_state(iterator.get_state())
    source.failing = {4}  # handed out
    assert next(iterator).tolist() == [2, 2, 4, 4, 4, 4]
    assert source.read == [4, 5, 6, 7]


def test_a_record_that_fails_takes_no_other_of_its_batch_with_it():
    source = Counting([2, 3, 1, 1, 4, 2, 2, 9, 1])
    source.failing = {1, 3, 5}
    dataset = MapDataset.source(source).to_iter_dataset(INLINE).batch_by_cost(7, len, batch_fn=np.concatenate)
    iterator = iter(dataset)
    for index in (1, 3, 5):
        with pytest.raises(OSError, match=f"record {index} is broken"):
            next(iterator)
    assert next(iterator).tolist() == [2, 2, 1, 4, 4, 4, 4]
    resumed = iter(dataset)
    resumed.set_state(iterator.get_state())
    for each in (iterator, resumed):
        assert next(each).tolist() == [2, 2]
        with pytest.raises(ValueError, match="costs 9"):
            next(each)
        assert next(each).tolist() == [1]


def test_wrong_costs():
    stream = stream_of([1])
    with pytest.raises(ValueError, match="max_cost must be positive, got 0"):
        stream.batch_by_cost(0, len)
    with pytest.raises(ValueError, match="not both"):
        stream.batch_by_cost(5, len, padding=Padding(), batch_fn=list)
    with pytest.raises(TypeError) as caught:
        next(iter(MapDataset.range(3).to_iter_dataset().batch_by_cost(5, len)))
    assert "CostBatchIterDataset(max_cost=5) with cost_fn len for the element at index 0" in caught.value.__notes__[-1]


@pytest.mark.parametrize("operator", ["bucket_by_length", "batch_by_cost"])
def test_an_interrupt_loses_nothing(operator):
    def interrupt_once(tokens):
        if len(tokens) == 5 and interrupts:
            raise interrupts.pop()
        return tokens

    stream = stream_of([1, 2, 3, 1, 5, 2, 4]).map(interrupt_once)
    dataset = (
        stream.bucket_by_length([3, 9], [4, 2])
        if operator == "bucket_by_length"
        else stream.batch_by_cost(9, len, batch_fn=np.concatenate)
    )
    interrupts = []
    expected = [batch.tolist() for batch in dataset]
    interrupts = [KeyboardInterrupt()]
    iterator, found = iter(dataset), []
    while True:
        try:
            found.append(next(iterator).tolist())
        except KeyboardInterrupt:
            continue
        except StopIteration:
            break
    assert found == expected


# ---------------------------------------------------------------- rows


def test_unbatch_is_the_inverse_of_batch():
    elements = [{"x": np.full((2,), i), "y": (np.int64(i), None), "z": {}} for i in range(5)]
    rows = list(MapDataset.source(elements).batch(2).to_iter_dataset().unbatch())
    assert [(row["x"].tolist(), row["y"], row["z"]) for row in rows] == [([i, i], (i, None), {}) for i in range(5)]


@pytest.mark.parametrize("element", [3, {"x": np.ones(2), "y": np.ones(3)}, {"x": np.ones(2), "y": 1}, None])
def test_what_is_no_batch_has_no_rows(element):
    stream = MapDataset.source([element]).to_iter_dataset(allow_nones=True)
    with pytest.raises(ValueError, match="Not a batch, of which all leaves are arrays with the same number of rows"):
        list(stream.unbatch())


# ---------------------------------------------------------------- splitting by a table


def copies(number):
    return [(number, copy) for copy in range(number)]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=20).filter(any))
def test_a_table_gives_the_items_of_a_stream_without_gaps(numbers):
    source = MapDataset.source(numbers)
    dataset = source.flat_map(copies, fan_out=numbers)
    expected = list(source.to_iter_dataset(INLINE).flat_map(copies))
    assert len(dataset) == sum(numbers)
    assert [dataset[index] for index in range(2 * len(dataset))] == expected * 2
    assert sorted(dataset.shuffle(seed=1)) == sorted(expected)


def test_splitting_keeps_later_epochs_apart():
    numbers = MapDataset.range(4).shuffle(seed=3)
    dataset = numbers.flat_map(lambda x: [x, x], fan_out=[2, 2, 2, 2])
    assert [dataset[index] for index in range(8, 16)] == [numbers[index // 2] for index in range(8, 16)]
    epoch = 10**30
    assert dataset[8 * epoch + 3] == numbers[4 * epoch + 1]


def test_indices_beyond_int64_are_exact_where_elements_have_no_items():
    dataset = MapDataset.range(1000).flat_map(lambda x: ["x"] * (x == 999), fan_out=[0] * 999 + [1])
    part = dataset.repeat()[2**62 : 2**62 + 3]
    assert list(part) == ["x"] * 3


def test_another_number_of_items_than_the_table_says():
    dataset = MapDataset.range(4).flat_map(copies, fan_out=[0, 1, 3, 3])
    assert dataset[0] == (1, 0)
    with pytest.raises(
        ValueError, match=r"copies .* returned 2 items for element 2, for which fan_out says 3"
    ) as caught:
        list(dataset)
    assert "FlatMapMapDataset(transform=copies" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    ("fan_out", "message"),
    [
        ([1, 2], r"has 2 entries, but the dataset, .*, has 3 elements"),
        ([1, -2, 3], "0 or more, for each element, got"),
        ([1.5, 2, 3], "0 or more, for each element, got"),
        ([[1, 2, 3]], "0 or more, for each element, got"),
        (3, "0 or more, for each element, got 3"),
    ],
)
def test_wrong_tables(fan_out, message):
    with pytest.raises(ValueError, match=message):
        MapDataset.range(3).flat_map(copies, fan_out=fan_out)
