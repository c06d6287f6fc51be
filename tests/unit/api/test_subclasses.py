"""Users' own subclasses of MapDataset and IterDataset: below, between and above built-in operators."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

import grain
import grain.python
from grain import experimental as ex
from support.subclasses import (
    Added,
    Alternating,
    Counting,
    EveryOther,
    EveryOtherIterator,
    Letters,
    Noisy,
    Rotated,
    Secretive,
    Table,
    Tripled,
    counting,
    identity,
    pair_with_index,
)


def derived(*entropy):
    """The default seed for a list of seeds and distances."""
    return np.random.SeedSequence(entropy).generate_state(1, np.uint32)[0]


# ---------------------------------------------------------------- random access


def test_a_source_is_asked_for_every_index_as_it_is():
    assert list(Letters()) == ["a0", "b0", "c0"]
    assert list(Letters().repeat(2)) == ["a0", "b0", "c0", "a1", "b1", "c1"]
    assert list(Letters().repeat(2, reseed_each_epoch=False)) == ["a0", "b0", "c0"] * 2
    assert list(Letters().map(str.upper).slice(slice(1, None))) == ["B0", "C0"]
    assert {Letters().shuffle(seed=0)[index] for index in range(3, 6)} == {"a1", "b1", "c1"}
    assert Letters().parents == ()


def test_operators_stand_anywhere_in_a_chain():
    numbers = grain.MapDataset.range(6)
    shuffled = [3 * x for x in numbers.shuffle(seed=1)]
    assert list(Tripled(numbers.shuffle(seed=1))) == shuffled
    assert list(Tripled(numbers).shuffle(seed=1)) == shuffled
    assert [x for batch in Tripled(numbers.shuffle(seed=1)).batch(4) for x in batch] == shuffled
    assert list(Tripled(Tripled(numbers))) == [9 * x for x in range(6)]
    assert list(grain.MapDataset.mix([Tripled(numbers), Letters()])) == [0, "a0", 3, "b0", 6, "c0"]
    assert list(grain.MapDataset.concatenate([Letters(), Tripled(numbers)]))[2:5] == ["c0", 0, 3]
    assert ex.ZipMapDataset([Letters(), Table([7, 8, 9])])[4] == ("b1", 8)


def test_slices_are_the_business_of_the_class():
    assert list(Tripled(grain.MapDataset.range(5))[1:4]) == [3, 6, 9]
    assert list(Rotated(grain.MapDataset.range(10))[2:6]) == [3, 4, 5, 2]
    assert list(Rotated(grain.MapDataset.range(10)).slice(slice(2, 6))) == [3, 4, 5, 6]
    assert list(Rotated(grain.MapDataset.range(10)).map(identity)[2:6]) == [3, 4, 5, 6]


def test_parents_are_the_objects_that_were_given():
    first, second = grain.MapDataset.range(2), Letters()
    both = Alternating(first, second)
    assert both.parents == both._parents == (first, second)
    assert Tripled(first)._parent is first
    assert both.map(identity).parents == (both,)
    assert [both[index] for index in range(4)] == [0, "a0", 1, "b0"]


def test_an_unhashable_dataclass_is_a_dataset():
    table = Table([10, 20, 30])
    assert list(Tripled(table).map_with_index(pair_with_index)) == [(0, 30), (1, 60), (2, 90)]
    ex.assert_equal_output_after_checkpoint(table.shuffle(seed=1).to_iter_dataset())


def test_a_filter_behind_a_users_class_still_forbids_batch():
    filtered = Rotated(grain.MapDataset.range(6).filter(bool))
    with pytest.raises(ValueError, match="can not follow"):
        filtered.batch(2)
    assert [batch.tolist() for batch in filtered.to_iter_dataset().batch(2)] == [[1, 2], [3, 4], [5]]


def test_an_abstract_class_can_not_be_made():
    class Unfinished(grain.MapDataset):
        def __len__(self):
            return 1

    with pytest.raises(TypeError, match="abstract"):
        Unfinished()


def test_the_factories_of_a_users_class_are_those_of_the_library():
    assert list(Tripled.range(3)) == list(Tripled.source([0, 1, 2])) == [0, 1, 2]
    assert list(EveryOther.mix([Counting(2), Counting(2)])) == [0, 0, 1, 1]


def test_users_may_have_attributes_of_any_name():
    class Wrapper(Tripled):
        def __init__(self, parent):
            super().__init__(parent)
            self._node = "encoder"
            self._plan = "B"

    class StreamWrapper(EveryOther):
        def __init__(self, parent):
            super().__init__(parent)
            self._node = "encoder"

    wrapped = Wrapper(grain.MapDataset.range(4))
    assert list(wrapped.map(identity)) == [0, 3, 6, 9]
    assert list(StreamWrapper(wrapped.to_iter_dataset()).map(identity)) == [0, 6]


# ---------------------------------------------------------------- seeds


def test_default_seed_is_the_pipelines_with_the_distance():
    assert Noisy(grain.MapDataset.range(3).seed(7)).seed_found == derived(7, 1)
    assert Noisy(Tripled(grain.MapDataset.range(3).seed(7)).map(identity)).seed_found == derived(7, 3)
    assert Noisy(grain.MapDataset.range(3)).seed_found is None
    assert Letters()._default_seed is None
    assert EveryOther(counting(3).seed(7).map(identity))._default_seed == derived(7, 2)
    both = Alternating(grain.MapDataset.range(2).map(identity).seed(5).map(identity), grain.MapDataset.range(2).seed(6))
    assert both._default_seed == derived(6, 1, 5, 2)


def test_default_seed_makes_a_users_operator_repeatable():
    noisy = Noisy(grain.MapDataset.range(5).seed(7))
    assert list(noisy) == list(Noisy(grain.MapDataset.range(5).seed(7)))
    assert list(noisy) != list(Noisy(grain.MapDataset.range(5).seed(8)))


def test_seeds_are_found_through_users_classes():
    numbers = grain.MapDataset.range(20)
    expected = list(numbers.shuffle(seed=int(derived(7, 2))))
    assert list(Rotated(numbers.seed(7)).shuffle()) == [(x + 1) % 20 for x in expected]
    assert list(Table(list(range(20))).seed(7).map(identity).shuffle()) == expected
    streamed = EveryOther(EveryOther(counting(20).seed(7))).random_map(lambda x, rng: int(rng.integers(1000)))
    explicit = counting(5).random_map(lambda x, rng: int(rng.integers(1000)), seed=int(derived(7, 3)))
    assert list(streamed) == list(explicit)


def test_no_seed_is_found_where_the_class_tells_no_parents():
    with pytest.raises(ValueError, match="requires a seed"):
        Letters().shuffle()
    with pytest.raises(ValueError, match="requires a seed"):
        Counting(3).random_map(identity)
    with pytest.raises(ValueError, match="requires a seed"):
        Secretive(counting(3).seed(1)).random_map(identity)


# ---------------------------------------------------------------- streams

STREAMS = {
    "alone": lambda: Counting(7),
    "below": lambda: ex.WindowShuffleIterDataset(Counting(7).map(identity), window_size=3, seed=1).batch(2),
    "between": lambda: ex.LimitIterDataset(EveryOther(counting(20).filter(bool)).map_with_index(pair_with_index), 6),
    "above": lambda: EveryOther(
        ex.RepeatIterDataset(counting(5).random_map(lambda x, rng: int(rng.integers(9)), seed=1), 2)
    ),
    "upon each other": lambda: EveryOther(EveryOther(Counting(19))),
    "of several parents": lambda: Added(counting(5), Counting(6), EveryOther(counting(12))).map(identity),
    "of a parent of random access": lambda: EveryOther(Tripled(grain.MapDataset.range(9))),
    "in a mixture": lambda: grain.IterDataset.mix({"b": Counting(4), "a": EveryOther(counting(8))}, {"a": 2, "b": 1}),
    "in a zip": lambda: ex.ZipIterDataset([EveryOther(counting(10)), Counting(5)]),
    "in an interleave": lambda: ex.InterleaveIterDataset([Counting(2), Counting(4), Counting(1)], cycle_length=2),
    "with a parent of its own": lambda: ex.LimitIterDataset(Secretive(counting(9).map(identity)), 4),
    "repeated and cached": lambda: ex.RepeatIterDataset(ex.CacheIterDataset(EveryOther(Counting(6))), 3),
    "prefetched": lambda: ex.ThreadPrefetchIterDataset(EveryOther(Counting(6)), prefetch_buffer_size=2).batch(2),
}


@pytest.fixture(params=STREAMS)
def stream(request):
    return STREAMS[request.param]()


def test_streams_resume_through_users_iterators(stream):
    ex.assert_equal_output_after_checkpoint(stream)


def test_streams_resume_on_used_iterators_and_from_json(stream):
    iterator = iter(stream)
    elements, states = [], [json.dumps(iterator.get_state())]
    for element in iterator:
        elements.append(element)
        states.append(json.dumps(iterator.get_state()))
    for position, state in enumerate(states):
        iterator.set_state(json.loads(state))
        np.testing.assert_equal(list(iterator), elements[position:])


def test_elements_of_streams():
    assert list(STREAMS["between"]()) == [(0, 1), (1, 3), (2, 5), (3, 7), (4, 9), (5, 11)]
    assert list(STREAMS["upon each other"]()) == [0, 4, 8, 12, 16]
    assert list(STREAMS["of several parents"]()) == [0, 4, 8, 12, 16]
    assert list(STREAMS["of a parent of random access"]()) == [0, 6, 12, 18, 24]
    assert list(STREAMS["in a mixture"]()) == [0, 2, 0, 4, 6, 1]
    assert list(STREAMS["repeated and cached"]()) == [0, 2, 4] * 3


def test_users_states_stand_where_the_parents_state_stands():
    iterator = iter(STREAMS["between"]())
    next(iterator)
    own = {"parent": {"next_index": 3}, "dropped": 1}
    assert iterator.get_state() == {"parent": {"parent": own, "counter": 1}, "count_elements_read": 1}


def test_the_iterator_of_a_users_dataset_is_the_users():
    iterator = iter(EveryOther(counting(4)))
    assert type(iterator) is EveryOtherIterator
    assert isinstance(iterator, grain.python.DatasetIterator)
    assert isinstance(iter(EveryOther(counting(4)).map(identity)), grain.python.DatasetIterator)
    assert isinstance(EveryOther(counting(4)), grain.python.IterDataset)
    assert isinstance(Letters(), grain.python.MapDataset)


def test_a_users_dataset_is_pickled():
    chain = Tripled(Table([1, 2, 3])).shuffle(seed=1).to_iter_dataset()
    for dataset in (chain, EveryOther(Counting(9)).map(identity), STREAMS["in an interleave"]()):
        assert list(pickle.loads(pickle.dumps(dataset))) == list(dataset)
