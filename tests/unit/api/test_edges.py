"""What unusual but reasonable code gets."""

import gc
import json
import weakref

import numpy as np
import pytest

import grain
from grain import IterDataset, MapDataset
from grain.experimental import get_next_index, set_next_index


def stream(count):
    return MapDataset.range(count).to_iter_dataset()


def test_zip_tells_an_error_of_one_parent_though_another_has_ended():
    zipped = IterDataset.zip([MapDataset.range(3).map(lambda x: 1 // (2 - x)), MapDataset.range(2)])
    with pytest.raises(ZeroDivisionError):
        list(zipped)


def test_rebatch_refuses_what_is_no_batch_and_goes_on():
    batches = MapDataset.range(6).batch(2).to_iter_dataset().map(lambda batch: None if batch[0] == 2 else batch)
    iterator = iter(batches.rebatch(2))
    assert next(iterator).tolist() == [0, 1]
    with pytest.raises(ValueError, match="batch size of 0"):
        next(iterator)
    assert next(iterator).tolist() == [4, 5]


def test_endless_recursion_in_a_function_is_told_as_such():
    def recurse(x):
        return recurse(x + 1)

    with pytest.raises(RecursionError) as caught:
        list(MapDataset.range(2).map(recurse))
    assert "recurse" in caught.value.__notes__[0]
    assert caught.traceback[-1].name == "recurse"


@pytest.mark.parametrize("dataset", [MapDataset.range(3), stream(3)])
def test_windows_have_a_size(dataset):
    with pytest.raises(ValueError, match=r"window_size must not be negative, got -2"):
        dataset.window_shuffle(-2, seed=1)
    with pytest.raises(TypeError, match=r"window_size must be an integer, got 2.5"):
        dataset.window_shuffle(2.5, seed=1)


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.uint32, np.int64])
def test_numbers_of_any_kind_of_integer(kind):
    numbers = MapDataset.range(300)
    assert len(numbers.repeat(kind(100))) == 30_000
    assert [len(batch) for batch in numbers.batch(kind(100))] == [100, 100, 100]
    assert list(numbers.window_shuffle(kind(3), seed=kind(1))) == list(numbers.window_shuffle(3, seed=1))
    assert list(stream(9).window_shuffle(kind(3), seed=kind(1))) == list(stream(9).window_shuffle(3, seed=1))
    iterator = iter(numbers)
    set_next_index(iterator, kind(3))
    assert json.dumps(iterator.get_state()) == '{"next_index": 3}'
    assert get_next_index(iterator) == 3


def test_numbers_that_are_not_integers():
    with pytest.raises(TypeError, match=r"batch_size must be an integer, got 1.5"):
        MapDataset.range(3).batch(1.5)
    with pytest.raises(TypeError, match=r"num_epochs must be an integer, got '2'"):
        stream(3).repeat("2")
    with pytest.raises(TypeError, match=r"next_index must be an integer, got '3'"):
        iter(stream(4)).set_state({"next_index": "3"})


@pytest.mark.parametrize("index", ["a", [1, 2], (0,), None, {}])
def test_an_index_is_a_number_or_a_slice(index):
    with pytest.raises(TypeError, match="integer or a slice"):
        MapDataset.source([1, 2, 3])[index]


@pytest.mark.usefixtures("inline")
def test_indices_from_a_dataset_are_not_read_ahead():
    asked = []
    chosen = MapDataset.range(1000).map(lambda x: asked.append(x) or 999 - x)
    iterator = iter(MapDataset.range(1000).slice(chosen).to_iter_dataset())
    assert [next(iterator) for _ in range(50)] == list(range(999, 949, -1))
    assert asked == list(range(50))


def test_a_dataset_that_is_used_again_and_again_is_lowered_once():
    dataset = MapDataset.range(2)
    for _ in range(40):  # 2**40 paths lead to the range
        dataset = MapDataset.zip([dataset, dataset])
    assert len(dataset) == 2
    pair = MapDataset.range(3).map(str)
    for _ in range(12):
        pair = MapDataset.concatenate([pair, pair])
    assert pair[3 * 4096 - 1] == "2"


class Closing(grain.DatasetIterator):
    closed = 0

    def __init__(self):
        super().__init__()
        self.position = 0

    def __next__(self):
        if self.position == 2:
            raise StopIteration
        self.position += 1
        return self.position

    def get_state(self):
        return {"position": self.position}

    def set_state(self, state):
        self.position = state["position"]

    def close(self):
        Closing.closed += 1


class ClosingDataset(IterDataset):
    def __iter__(self):
        return Closing()


def test_interleave_closes_what_it_opens():
    Closing.closed = 0
    dataset = IterDataset.interleave([ClosingDataset() for _ in range(3)], cycle_length=2)
    with iter(dataset) as iterator:
        assert list(iterator) == [1, 1, 2, 2, 1, 2]
        assert Closing.closed == 3
        iterator.set_state(iter(dataset).get_state())
        next(iterator)
    assert Closing.closed == 5


def test_an_abandoned_iterator_is_gone_at_once():
    gc.disable()
    try:
        for dataset in (IterDataset.interleave([stream(3)], cycle_length=1).map(str), stream(3).cache().repeat(2)):
            iterator = iter(dataset)
            next(iterator)
            left = weakref.ref(iterator._stream)
            del iterator
            assert left() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "change",
    [
        {"next_index_in_cycle": 7},
        {"iterators_in_use_indices": [0, 9]},
        {"exhausted": [0]},
        {"iterators_in_use_states": []},
    ],
)
def test_interleave_refuses_states_that_do_not_fit(change):
    iterator = iter(IterDataset.interleave([stream(3), stream(3)], cycle_length=2))
    state = iterator.get_state()
    next(iterator)
    with pytest.raises(ValueError, match="does not fit"):
        iterator.set_state(state | change)
    assert list(iterator) == [0, 1, 1, 2, 2]


def test_interleave_wants_a_sequence():
    with pytest.raises(TypeError, match="make a list"):
        IterDataset.interleave((stream(2) for _ in range(2)), cycle_length=2)
    with pytest.raises(ValueError, match="cycle_length must be positive, got -1"):
        IterDataset.interleave([stream(2)], cycle_length=-1)
    assert list(IterDataset.interleave([], cycle_length=2)) == []


def test_an_iter_method_that_is_a_generator_is_refused():
    class Numbers(IterDataset):
        def __iter__(self):
            yield 1

    with pytest.raises(TypeError, match=r"Numbers.__iter__ must return a DatasetIterator"):
        iter(Numbers().map(str))


def test_dtypes_that_do_not_go_together_are_told_as_such():
    values = [{"x": np.array([1])}, {"x": np.array(["2000"], "datetime64[Y]")}]
    with pytest.raises(TypeError, match="DType"):
        MapDataset.source(values).batch(2)[0]


def test_many_shuffled_components_of_different_lengths():
    lengths = range(300, 700, 7)
    mixed = MapDataset.mix([MapDataset.range(n).shuffle(seed=n) for n in lengths])
    assert list(mixed) == [mixed[i] for i in range(len(mixed))]
