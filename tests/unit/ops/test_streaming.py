"""Streams that begin by themselves, and how workers share them."""

import json

import pytest

from grain import GeneratorIterDataset, MultiprocessingOptions
from grain.api.iter_dataset import NodeIterDataset
from grain.ops.file_streams import streamed
from grain.ops.worker_parts import sharded
from support.pipelines_files import Numbers, count_from, count_to_ten
from support.record_files import elements_and_errors


def parts(sources, count):
    node = streamed(sources, "Numbers")
    return [elements_and_errors(NodeIterDataset(sharded(node, index, count))) for index in range(count)]


@pytest.mark.parametrize(("function", "takes_start"), [(count_to_ten, False), (count_from, True)])
def test_a_generator_function_resumes_exactly(function, takes_start):
    dataset = GeneratorIterDataset(function, takes_start=takes_start)
    iterator = iter(dataset)
    for position in range(10):
        resumed = iter(dataset)
        resumed.set_state(json.loads(json.dumps(iterator.get_state())))
        assert list(resumed) == list(range(position, 10))
        assert next(iterator) == position


def test_a_generator_in_worker_processes():
    dataset = GeneratorIterDataset(lambda: iter(range(10))).map(lambda x: x * 2)
    assert list(dataset.mp_prefetch(MultiprocessingOptions(num_workers=2))) == list(range(0, 20, 2))


def test_an_iterator_is_refused_because_it_cannot_be_read_again():
    with pytest.raises(TypeError, match="without calling it"):
        GeneratorIterDataset(count_to_ten())


def test_files_take_turns():
    assert elements_and_errors(NodeIterDataset(streamed([Numbers(0, 3), Numbers(10, 12)], "Numbers"))) == [
        0, 10, 1, 11, 2,
    ]  # fmt: skip


def test_workers_share_files_and_where_those_are_few_their_records():
    two = [Numbers(0, 6), Numbers(10, 15)]
    assert parts(two, 2) == [[0, 1, 2, 3, 4, 5], [10, 11, 12, 13, 14]]
    assert parts(two, 3) == [[0, 2, 4], [10, 11, 12, 13, 14], [1, 3, 5]]
    assert parts([Numbers(0, 5)], 2) == [[0, 2, 4], [1, 3]]


def test_a_damaged_record_is_an_error_in_the_worker_whose_it_is_and_nothing_else_is_lost():
    assert parts([Numbers(0, 7, bad=(2, 3))], 2) == [[0, "record 2 is damaged", 4, 6], [1, "record 3 is damaged", 5]]


def test_a_part_resumes_exactly():
    dataset = NodeIterDataset(sharded(streamed([Numbers(0, 10)], "Numbers"), 1, 3))
    iterator, rest = iter(dataset), [1, 4, 7]
    while rest:
        resumed = iter(dataset)
        resumed.set_state(json.loads(json.dumps(iterator.get_state())))
        assert list(resumed) == rest
        assert next(iterator) == rest.pop(0)
