"""Mixtures beyond Grain: what happens when a component ends, and counts."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grain import IterDataset, MapDataset, MultiprocessingOptions, ReadOptions
from grain.experimental import get_mixture_counts

INLINE = ReadOptions(num_threads=0, prefetch_buffer_size=0)


def parts(lengths):
    """Datasets whose elements tell which one they are of, and where they stand."""
    return [MapDataset.source([(number, place) for place in range(length)]) for number, length in enumerate(lengths)]


def streams(lengths):
    return [part.to_iter_dataset(INLINE) for part in parts(lengths)]


def taken(elements, count):
    """How often each component occurs."""
    return np.bincount([component for component, _ in elements], minlength=count).tolist()


MIXTURES = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 5)), min_size=1, max_size=5)


@given(MIXTURES)
def test_renormalized_mixtures_have_every_element_once(mixture):
    lengths, weights = zip(*mixture, strict=True)
    dataset = MapDataset.mix(parts(lengths), weights, stop="renormalize")
    elements = [dataset[index] for index in range(len(dataset))]
    assert sorted(elements) == [(number, place) for number, length in enumerate(lengths) for place in range(length)]
    assert list(IterDataset.mix(streams(lengths), weights, stop="renormalize")) == elements
    assert list(dataset.to_iter_dataset(INLINE)) == elements


@given(MIXTURES)
def test_the_longest_ends_a_mixture_in_which_the_others_begin_again(mixture):
    lengths, weights = zip(*mixture, strict=True)
    dataset = MapDataset.mix(parts(lengths), weights, stop="longest")
    endless = [part.repeat().to_iter_dataset(INLINE) for part in parts(lengths)]
    expected = list(itertools.islice(IterDataset.mix(endless, weights), len(dataset)))
    assert list(dataset) == expected
    counts = taken(expected, len(lengths))
    assert all(count >= length for count, length in zip(counts, lengths, strict=True))
    counts = taken(expected[:-1], len(lengths))
    assert any(count < length for count, length in zip(counts, lengths, strict=True))
    stream = list(IterDataset.mix(streams(lengths), weights, stop="longest"))
    assert stream[: len(dataset)] == expected


def test_weights_hold_among_those_that_are_left():
    dataset = MapDataset.mix(parts([1000, 10, 600]), [1, 2, 3], stop="renormalize")
    after_the_second_has_ended = [dataset[index] for index in range(100, 500)]
    assert taken(after_the_second_has_ended, 3) == [100, 0, 300]


def test_later_epochs_of_a_renormalized_mixture():
    shuffled = [part.shuffle(seed=1) for part in parts([3, 8])]
    dataset = MapDataset.mix(shuffled, [3, 1], stop="renormalize")
    second = [dataset[index] for index in range(11, 22)]
    assert sorted(second) == sorted(dataset)
    assert [element for element in second if element[0] == 1] == [shuffled[1][index] for index in range(8, 16)]


def test_empty_streams():
    assert list(IterDataset.mix(streams([2, 0, 1]), stop="renormalize")) == [(0, 0), (0, 1), (2, 0)]
    for lengths in ([2, 0], [0, 2], [0, 2, 0], [2, 0, 1]):
        whole = list(IterDataset.mix(streams(lengths), stop="longest"))
        without = [length for length in lengths if length]
        assert [i for _, i in whole] == [i for _, i in IterDataset.mix(streams(without), stop="longest")]
    assert list(IterDataset.mix(streams([0, 0]), stop="longest")) == []


def test_states_of_a_mixture_with_an_empty_stream():
    dataset = IterDataset.mix(dict(zip("abc", streams([3, 0, 2]), strict=True)), stop="longest")
    whole, iterator = list(dataset), iter(dataset)
    for position in range(len(whole) + 1):
        resumed = iter(dataset)
        resumed.set_state(iterator.get_state())
        assert list(resumed) == whole[position:]
        next(iterator, None)


def test_what_cannot_be_mixed():
    with pytest.raises(ValueError, match='"first", "longest" or "renormalize", got \'last\''):
        IterDataset.mix(streams([1]), stop="last")
    with pytest.raises(ValueError, match='"first", "longest" or "renormalize", got \'last\''):
        MapDataset.mix(parts([1]), stop="last")
    with pytest.raises(ValueError, match=r"at index 1 \(RepeatMapDataset\(num_epochs=None\)\) have no end"):
        MapDataset.mix([MapDataset.range(3), MapDataset.range(3).repeat()], stop="longest")


def test_an_error_passes_over_one_element():
    def fail_at_two(x):
        if x == 2:
            raise KeyError(x)
        return x

    failing = MapDataset.range(5).map(fail_at_two).to_iter_dataset(INLINE)
    others = MapDataset.range(10, 14).to_iter_dataset(INLINE)
    iterator = iter(IterDataset.mix([failing, others], stop="renormalize"))
    assert [next(iterator) for _ in range(4)] == [0, 10, 1, 11]
    with pytest.raises(KeyError):
        next(iterator)
    assert list(iterator) == [3, 12, 4, 13]


def test_the_default_keeps_the_layout_of_its_state():
    state = iter(IterDataset.mix(streams([3, 3]))).get_state()
    assert state == {"parents": [{"next_index": 0}, {"next_index": 0}], "index": 0, "stop": False}


# ---------------------------------------------------------------- counts


def words():
    texts = {"prose": ["to be", "or not", "to be that", "is"], "verse": ["a", "b c", "d"]}
    return {name: MapDataset.source(lines).to_iter_dataset(INLINE) for name, lines in texts.items()}


def tokens(text):
    return np.int64(len(text.split()))


def test_counts_are_in_the_state_and_go_on_from_there():
    dataset = IterDataset.mix(words(), {"prose": 2, "verse": 1}, cost_fn=tokens)
    iterator = iter(dataset)
    for _ in range(4):
        next(iterator)
    resumed = iter(dataset)
    resumed.set_state(json.loads(json.dumps(iterator.get_state())))
    expected = {
        "prose": {"elements": 3, "cost": 7, "ended": False},
        "verse": {"elements": 1, "cost": 1, "ended": False},
    }
    assert get_mixture_counts(iterator) == get_mixture_counts(resumed) == [expected]
    assert list(resumed) == ["is", "b c"]
    assert get_mixture_counts(resumed)[0]["prose"] == {"elements": 4, "cost": 8, "ended": True}


def test_counts_alone_change_no_element():
    assert list(IterDataset.mix(words(), with_counts=True)) == list(IterDataset.mix(words()))


def test_counts_of_a_sequence_are_a_list():
    iterator = iter(IterDataset.mix(streams([2, 2]), with_counts=True))
    next(iterator)
    assert [count["elements"] for count in get_mixture_counts(iterator)[0]] == [1, 0]


def test_counts_tell_of_elements_that_were_handed_out_not_of_those_read_ahead():
    dataset = IterDataset.mix(words(), with_counts=True).map(str.upper).thread_prefetch(4)
    with iter(dataset) as iterator:
        next(iterator)
        assert [count["elements"] for count in get_mixture_counts(iterator)[0].values()] == [1, 0]


def test_each_worker_has_counts_of_its_own():
    with iter(IterDataset.mix(words(), with_counts=True).mp_prefetch(MultiprocessingOptions(2))) as iterator:
        next(iterator), next(iterator), next(iterator)
        counts = get_mixture_counts(iterator)
    assert [[count["elements"] for count in mixture.values()] for mixture in counts] == [[1, 1], [1, 0]]


def test_a_mixture_without_counts_has_none():
    assert get_mixture_counts(iter(IterDataset.mix(words()))) == []


def test_a_dataset_that_was_added_counts_from_nothing():
    iterator = iter(IterDataset.mix(words(), with_counts=True))
    next(iterator)
    more = iter(IterDataset.mix(words() | {"new": MapDataset.source(["x"]).to_iter_dataset()}, with_counts=True))
    more.set_state(iterator.get_state())
    assert {name: count["elements"] for name, count in get_mixture_counts(more)[0].items()} == {
        "new": 0,
        "prose": 1,
        "verse": 0,
    }


@pytest.mark.parametrize("counts", [[], {}, [{"elements": 0, "cost": 0, "ended": False}]])
def test_counts_of_other_mixtures_are_refused(counts):
    iterator = iter(IterDataset.mix(streams([2, 2]), with_counts=True))
    state = iterator.get_state()
    with pytest.raises(ValueError, match="The state does not fit MixedIterDataset"):
        iterator.set_state({**state, "counts": counts})
    assert iterator.get_state() == state


@pytest.mark.parametrize(
    "mix", [lambda *args: MapDataset.mix(parts([3, 2]), *args), lambda *args: IterDataset.mix(streams([3, 2]), *args)]
)
@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        ([], AssertionError, "one weight for each dataset, got 0 weights for 2 datasets"),
        ([1, 0], ValueError, "non-zero"),
        ([1, -1], ValueError, r"must be positive and finite. Got \[1, -1\]"),
        ([1, float("nan")], ValueError, "must be positive and finite"),
        ([1, float("inf")], ValueError, "must be positive and finite"),
    ],
)
def test_weights_that_make_no_sense(mix, weights, error, message):
    with pytest.raises(error, match=message):
        mix(weights)


@pytest.mark.parametrize("number", [np.int32(2), np.array(2), 2, np.float32(2)])
def test_costs_of_any_kind_of_number_are_kept_in_the_state(number):
    iterator = iter(IterDataset.mix(streams([2, 2]), cost_fn=lambda element: number))
    list(iterator)
    assert [count["cost"] for count in json.loads(json.dumps(iterator.get_state()))["counts"]] == [4, 4]


def test_a_cost_that_is_no_number():
    iterator = iter(IterDataset.mix(streams([2, 2]), cost_fn=str))
    with pytest.raises(
        TypeError, match=r"A cost must be a number, because the state keeps the sum, got '\(0, 0\)'"
    ) as caught:
        next(iterator)
    assert "with cost_fn str" in caught.value.__notes__[0]
