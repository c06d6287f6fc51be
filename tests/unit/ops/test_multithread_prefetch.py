"""`multithread_prefetch`: a pipeline divided between threads, in the order and with the states of worker processes."""

from __future__ import annotations

import json

import pytest

from grain import IterDataset, MapDataset
from grain.experimental import (
    DatasetOptions,
    WithOptionsIterDataset,
    get_next_index,
    multithread_prefetch,
    set_next_index,
)
from support.pipelines import numbers
from support.subclasses import Counting
from support.user_code import add_noise, add_one, is_even, pair_with_index


def stream():
    return numbers(10).to_iter_dataset()


def test_no_threads_is_the_dataset_itself():
    dataset = stream()
    assert multithread_prefetch(dataset, 0, 2) is dataset


@pytest.mark.parametrize("threads", [1, 2, 3, 11])
@pytest.mark.parametrize("buffer_size", [0, 1, 5])
def test_order_is_that_of_one_thread_where_elements_are_independent(threads, buffer_size):
    dataset = numbers(10).seed(4).shuffle().to_iter_dataset().map(add_one).random_map(add_noise)
    assert list(multithread_prefetch(dataset, num_threads=threads, buffer_size=buffer_size)) == list(dataset)


def test_each_thread_has_counters_of_its_own():
    dataset = numbers(6).to_iter_dataset().map_with_index(pair_with_index)
    assert list(multithread_prefetch(dataset, 2, 1)) == [(0, 0), (0, 1), (1, 2), (1, 3), (2, 4), (2, 5)]


def test_contiguous_blocks():
    dataset = numbers(10).shuffle(0).to_iter_dataset()
    assert list(multithread_prefetch(dataset, 3, 2, sequential_slice=True)) == [0, 4, 7, 3, 6, 9, 1, 5, 8, 2]


def test_state_is_that_of_worker_processes():
    iterator = iter(multithread_prefetch(stream(), 3, 2))
    for _ in range(4):
        next(iterator)
    assert iterator.get_state() == {
        "next_index_in_cycle": 1,
        "next_index_in_datasets": 3,
        "iterators_in_use_indices": [0, 1, 2],
        "iterators_in_use_states": [{"next_index": 2}, {"next_index": 1}, {"next_index": 1}],
        "exhausted": [0, 0, 0],
        "future_states": {},
    }


@pytest.mark.parametrize("sequential", [False, True])
def test_resuming_before_every_worker_has_given_an_element(sequential):
    """Where Grain saves positions in the whole, which do not fit the parts."""
    dataset = multithread_prefetch(numbers(7).to_iter_dataset().filter(is_even).batch(2), 3, 1, sequential)
    iterator = iter(dataset)
    states, elements = [iterator.get_state()], []
    for element in iterator:
        elements.append(element.tolist())
        states.append(json.loads(json.dumps(iterator.get_state())))
    for position, state in enumerate(states):
        resumed = iter(dataset)
        resumed.set_state(state)
        assert [element.tolist() for element in resumed] == elements[position:]


def test_a_state_in_the_second_epoch():
    dataset = multithread_prefetch(numbers(6).to_iter_dataset(), 2, 1).repeat(2)
    iterator = iter(dataset)
    for _ in range(8):
        next(iterator)
    resumed = iter(dataset)
    resumed.set_state(iterator.get_state())
    assert list(resumed) == [2, 3, 4, 5]


def test_next_index_of_a_single_thread():
    iterator = iter(multithread_prefetch(stream(), 1, 2))
    set_next_index(iterator, 7)
    assert next(iterator) == 7
    assert get_next_index(iterator) == 8


def test_options_hold_within_threads_and_come_out_of_them():
    strict = DatasetOptions(filter_raise_threshold_ratio=0.5)
    dropping = numbers(6000).to_iter_dataset().filter(lambda x: x % 6 == 0)
    before = multithread_prefetch(WithOptionsIterDataset(dropping, strict), 2, 1)
    after = WithOptionsIterDataset(multithread_prefetch(dropping, 2, 1), strict)
    outside = multithread_prefetch(stream().with_options(strict), 2, 1).repeat(500).filter(lambda x: False)
    for dataset in (before, after, outside):
        with pytest.raises(ValueError, match="skipped"):
            list(dataset)


def test_the_seed_holds_for_what_follows():
    def build(seed):
        threads = multithread_prefetch(numbers(6).seed(seed).shuffle().to_iter_dataset(), 2, 1)
        return list(threads.map(lambda x: 0).random_map(add_noise))

    assert build(1) == build(1) != build(2)


def test_a_seed_is_still_asked_for_where_there_is_none():
    with pytest.raises(ValueError, match="requires a seed"):
        multithread_prefetch(stream(), 2, 1).random_map(add_noise)


def test_one_thread_takes_what_cannot_be_divided():
    assert list(multithread_prefetch(Counting(4), 1, 2)) == [0, 1, 2, 3]


def test_what_cannot_be_divided_is_refused_at_once():
    with pytest.raises(ValueError, match=r"Cannot slice `IterDataset` source\. Counting"):
        multithread_prefetch(Counting(4), 2, 2)


def test_a_map_dataset_is_taken_as_a_stream():
    assert list(multithread_prefetch(numbers(5), 2, 1)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("threads", "buffer_size", "message"), [(-1, 1, "num_threads .* got -1"), (2, -1, "prefetch_buffer_size.* got -1")]
)
def test_wrong_numbers(threads, buffer_size, message):
    with pytest.raises(ValueError, match=message):
        multithread_prefetch(stream(), threads, buffer_size)


def test_threads_within_threads():
    inner = multithread_prefetch(numbers(12).to_iter_dataset().random_map(add_noise, seed=1), 4, 1)
    expected = list(numbers(12).to_iter_dataset().random_map(add_noise, seed=1))
    assert sorted(multithread_prefetch(inner, 2, 1)) == sorted(expected)


def test_sources_are_not_copied():
    class Uncopyable(list):
        def __deepcopy__(self, memo):
            raise AssertionError("a source was copied")

        __copy__ = __reduce_ex__ = __deepcopy__

    source = Uncopyable(range(6))
    assert list(multithread_prefetch(MapDataset.source(source).to_iter_dataset(), 3, 1)) == source


def test_an_error_leaves_the_other_threads_elements():
    def fail_at_five(x):
        if x == 5:
            raise ValueError("five")
        return x

    iterator = iter(multithread_prefetch(stream().map(fail_at_five), 2, 1))
    assert [next(iterator) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="five"):
        next(iterator)
    assert sorted(iterator) == [6, 7, 8, 9]


def test_mixed_with_others():
    threads = multithread_prefetch(numbers(4).to_iter_dataset(), 2, 1)
    assert list(IterDataset.mix([threads, numbers(10, 14).to_iter_dataset()])) == [0, 10, 1, 11, 2, 12, 3, 13]
