"""Facts recorded from Grain 0.2.18, operator by operator. Seeds, random numbers and states have files of their own."""

import numpy as np
import pytest

from grain import IterDataset, MapDataset, transforms
from grain.experimental import (
    InterleaveIterDataset,
    LimitIterDataset,
    WindowShuffleIterDataset,
    WindowShuffleMapDataset,
)

SHUFFLES = {
    (2, 0): [0, 1],
    (2, 1): [1, 0],
    (3, 0): [0, 2, 1],
    (3, 7): [2, 0, 1],
    (5, 1): [1, 2, 3, 0, 4],
    (8, 0): [0, 4, 6, 7, 5, 3, 1, 2],
    (10, 0): [0, 4, 6, 7, 8, 3, 1, 9, 5, 2],
    (10, 42): [8, 6, 7, 9, 0, 5, 1, 2, 4, 3],
    (10, 43): [2, 0, 9, 1, 5, 7, 6, 8, 4, 3],
    (16, 0): [15, 4, 10, 11, 8, 3, 14, 9, 5, 12, 6, 7, 2, 13, 1, 0],
    (17, 123): [8, 5, 15, 14, 4, 16, 11, 6, 10, 0, 3, 12, 1, 2, 9, 13, 7],
}


@pytest.mark.parametrize(("arguments", "elements"), SHUFFLES.items(), ids=str)
def test_shuffle(arguments, elements):
    length, seed = arguments
    dataset = MapDataset.range(length).shuffle(seed)
    assert list(dataset) == [dataset[index] for index in range(length)] == elements


# (length, seed) -> {index: element}
SHUFFLES_AT = {
    (10**6, 2024): {
        0: 419005,
        1: 228777,
        2: 390757,
        3: 61241,
        999999: 654497,
        10**6: 583182,
        10**6 + 1: 878350,
        5000003: 304503,
    },
    (2**33, 5): {0: 3775282572, 1: 4089609245, 2**33 - 1: 5430883888},
    (100, 7): dict(
        enumerate([23, 32, 26, 78, 25, 9, 85, 81, 42, 91, 8, 53, 96, 73, 77, 38, 68, 17, 5, 80, 3, 21, 75, 61, 63])
    ),
    (6, 5): {-1: 1, -2: 2, -6: 5},
    (10, 42): dict(enumerate(SHUFFLES[10, 43], 10)),  # the second epoch is that of the next seed
    (6, 2**32 - 1): dict(enumerate([2, 1, 5, 3, 0, 4, 0, 4, 1, 2, 5, 3])),  # whose next seed is 0
}


@pytest.mark.parametrize(("arguments", "elements"), SHUFFLES_AT.items(), ids=str)
def test_shuffle_at(arguments, elements):
    length, seed = arguments
    dataset = MapDataset.range(length).shuffle(seed)
    assert {index: dataset[index] for index in elements} == elements


def test_shuffle_of_endless_and_repeated_datasets():
    endless = MapDataset.range(10).repeat().shuffle(seed=5)
    assert [endless[index] for index in range(3)] == [6, 9, 0]
    shuffled = MapDataset.range(4).shuffle(3)
    assert list(shuffled.repeat(2)) == [2, 3, 0, 1, 1, 0, 2, 3]
    assert list(shuffled.repeat(2, reseed_each_epoch=False)) == [2, 3, 0, 1] * 2


def test_random_map_of_gaps():
    def draw(x, rng):
        return int(rng.integers(1000))

    def is_odd(x):
        return x % 2

    dense, sparse = MapDataset.range(5), MapDataset.range(5).filter(is_odd)
    assert list(dense.random_map(draw, seed=1)) == [420, 330, 432, 243, 389]
    with_gaps = [None, 330, None, 243, None]
    assert [sparse.random_map(draw, seed=1)[index] for index in range(5)] == with_gaps
    assert list(sparse.to_iter_dataset(allow_nones=True).random_map(draw, seed=1)) == with_gaps
    assert list(sparse.to_iter_dataset().random_map(draw, seed=1)) == [420, 330]


WINDOW_SHUFFLES = [
    (12, 4, 1, [1, 2, 3, 0, 4, 7, 5, 6, 10, 11, 8, 9, 1, 0, 2, 3, 5, 4, 6, 7, 10, 9, 8, 11]),
    (10, 4, 1, [1, 2, 3, 0, 4, 7, 5, 6, 0, 1]),
    (10, 5, 42, [4, 1, 2, 3, 0, 7, 5, 8, 6, 9]),
]


@pytest.mark.parametrize(("length", "window", "seed", "elements"), WINDOW_SHUFFLES)
def test_window_shuffle(length, window, seed, elements):
    for dataset in (
        WindowShuffleMapDataset(MapDataset.range(length), window_size=window, seed=seed),
        MapDataset.range(length).window_shuffle(window, seed=seed),
    ):
        assert [dataset[index] for index in range(len(elements))] == elements
        assert list(dataset) == elements[:length]
        assert list(dataset.repeat(-(-len(elements) // length)))[: len(elements)] == elements


WINDOW_SHUFFLED_STREAMS = [
    (10, 4, 1, [0, 3, 2, 1, 6, 5, 7, 4, 9, 8]),
    (
        30,
        10,
        42,
        [3, 4, 2, 1, 5, 0, 9, 7, 6, 8, 13, 14, 18, 16, 17, 15, 11, 19, 10, 12, 26, 25, 21, 20, 22, 29, 23, 28, 27, 24],
    ),
    (5, 10, 42, [0, 3, 2, 1, 4]),
    (5, 0, 1, []),
]


@pytest.mark.parametrize(("length", "window", "seed", "elements"), WINDOW_SHUFFLED_STREAMS)
def test_window_shuffle_of_streams(length, window, seed, elements):
    stream = MapDataset.range(length).to_iter_dataset()
    assert list(WindowShuffleIterDataset(stream, window_size=window, seed=seed)) == elements
    assert list(stream.window_shuffle(window, seed=seed)) == elements


def test_window_seeds_wrap_around():
    """Grain fails where seed + window reaches 2**32; here the seeds go on at 0."""
    last = 2**32 - 1
    dataset = MapDataset.range(20).window_shuffle(10, seed=last)
    assert [dataset[10 + index] - 10 for index in range(10)] == list(MapDataset.range(10).window_shuffle(10, seed=0))
    stream = MapDataset.range(20).to_iter_dataset().window_shuffle(10, seed=last)
    first = MapDataset.range(10).to_iter_dataset().window_shuffle(10, seed=0)
    assert [element - 10 for element in list(stream)[10:]] == list(first)


# weights -> components of the first 40 elements
PICKS = {
    (0.1, 0.2, 0.7): "0122212222" * 4,
    (0.3, 0.7): "0110110110111011011011101101101110110110",
    (5, 2, 3): "0102010202" * 4,
    (0.9, 0.05, 0.05): "0000000001000000000200000000010000000002",
    (0.57, 0.43): "0010101001010100101010010101001010100101",
    (7, 11): "0101101011010110101101101011010110101101",
}


@pytest.mark.parametrize(("weights", "picks"), PICKS.items(), ids=str)
def test_mix_picks(weights, picks):
    components = [MapDataset.range(100).map(lambda x, digit=digit: digit) for digit in "012"[: len(weights)]]
    dataset = MapDataset.mix(components, weights)
    assert "".join(dataset[index] for index in range(40)) == "".join(list(dataset)[:40]) == picks
    streams = [component.to_iter_dataset() for component in components]
    assert "".join(LimitIterDataset(IterDataset.mix(streams, weights), 40)) == picks


THREE = [MapDataset.range(10), MapDataset.range(100, 120), MapDataset.range(1000, 1005)]
MIXES = {
    "equal": (THREE, None, 15, [0, 100, 1000, 1, 101, 1001, 2, 102, 1002, 3, 103, 1003, 4, 104, 1004]),
    "1 2 1": (THREE, [1, 2, 1], 20, [0, 100, 101, 1000, 1, 102, 103, 1001]),
    ".3 .7": (
        THREE[:2],
        [0.3, 0.7],
        28,
        [
            *(0, 100, 101, 1, 102, 103, 2, 104, 105, 3, 106, 107, 108, 4, 109, 110, 5),
            *(111, 112, 6, 113, 114, 115, 7, 116, 117, 8, 118),
        ],
    ),
    ".9 .1": (THREE[:2], [0.9, 0.1], 11, [0, 1, 2, 3, 4, 5, 6, 7, 8, 100, 9]),
    "1 2": (
        [MapDataset.range(3), MapDataset.range(10, 16)],
        [1, 2],
        9,
        [0, 10, 11, 1, 12, 13, 2, 14, 15],
    ),
}


@pytest.mark.parametrize(("parents", "weights", "length", "elements"), MIXES.values(), ids=MIXES)
def test_mix(parents, weights, length, elements):
    dataset = MapDataset.mix(parents, weights)
    assert len(dataset) == length
    assert list(dataset)[: len(elements)] == elements


def test_mix_goes_on_in_its_second_epoch():
    dataset = MapDataset.mix([MapDataset.range(4), MapDataset.range(10, 15)], [1, 2])
    assert len(dataset) == 7
    assert list(dataset.repeat(2)) == [dataset[index] for index in range(14)]
    assert list(dataset.repeat(2))[7:] == [14, 10, 3, 11, 12, 0, 13]


MIX_LENGTHS = [
    ([100, 10**6, 10**6], [1, 1.07, 1.45], 351),  # 352 in exact arithmetic
    ([5, 5], [1, 1.5], 8),
    ([4, 4], None, 8),
]


@pytest.mark.parametrize(("lengths", "weights", "length"), MIX_LENGTHS)
def test_mix_length(lengths, weights, length):
    assert len(MapDataset.mix([MapDataset.range(n) for n in lengths], weights)) == length


def test_mix_of_endless_datasets():
    endless = MapDataset.range(3).repeat()
    assert len(MapDataset.mix([endless, endless])) == 2**63 - 1


def test_mix_of_streams():
    parents = [MapDataset.range(5).to_iter_dataset(), MapDataset.range(7, 10).to_iter_dataset()]
    assert list(IterDataset.mix(parents)) == [0, 7, 1, 8, 2, 9, 3]
    lengths = [MapDataset.range(10), MapDataset.range(20), MapDataset.range(5)]
    assert len(list(IterDataset.mix(lengths))) == 17  # MapDatasets are taken too


def test_mix_of_a_mapping_is_in_the_order_of_its_keys():
    parents = {"b": MapDataset.range(10, 14), "a": MapDataset.range(4)}
    assert list(IterDataset.mix(parents))[:4] == [0, 10, 1, 11]
    by_key = list(IterDataset.mix(parents, {"b": 2, "a": 1}))
    assert by_key[:3] == [0, 10, 11]
    assert by_key == list(IterDataset.mix(parents, [1, 2]))


def test_mix_state_with_other_components():
    iterator = iter(IterDataset.mix({"a": MapDataset.range(5), "b": MapDataset.range(10, 20)}))
    for _ in range(4):
        next(iterator)
    other = {"b": MapDataset.range(10, 20), "c": MapDataset.range(100, 105)}
    resumed = iter(IterDataset.mix(other, {"b": 1, "c": 3}))
    resumed.set_state(iterator.get_state())
    assert list(resumed) == [12, 100, 101, 102, 13, 103, 104]


class EveryOther(transforms.DatasetSelectionMap):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return index % 2, index * 10


def test_select_from_datasets():
    dataset = MapDataset.select_from_datasets([MapDataset.range(1000), MapDataset.range(1000, 2000)], EveryOther())
    assert len(dataset) == 4
    assert list(dataset) == [0, 1010, 20, 1030]
    assert dataset[7] == 1070  # beyond the length too it is the map that decides


def test_concatenate():
    dataset = MapDataset.concatenate([MapDataset.range(2), MapDataset.range(0), MapDataset.range(10, 13)])
    assert len(dataset) == 5
    assert list(dataset) == [0, 1, 10, 11, 12]
    shuffled = MapDataset.concatenate([MapDataset.range(3).shuffle(1), MapDataset.range(10, 12)])
    first = MapDataset.range(3).shuffle(1)
    assert [shuffled[index] for index in range(5, 10)] == [first[3], first[4], first[5], 10, 11]
    assert list(MapDataset.concatenate([])) == []
    assert len(MapDataset.concatenate([])) == 0


def pair(index, element):
    return index, element


PAIRS = MapDataset.range(10).map_with_index(pair)
# dataset, first index, elements
INDICES = {
    "slice": (MapDataset.range(5)[1:4], -4, [3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2]),
    "with a step": (PAIRS[2:8:3], -2, [(-8, 2), (-5, 5), (2, 2), (5, 5), (12, 2), (15, 5), (22, 2), (25, 5)]),
    "backwards": (PAIRS[::-3], 0, [(9, 9), (6, 6), (3, 3), (0, 0), (19, 9), (16, 6)]),
    "of a slice": (MapDataset.range(20)[2:18:2][1:-1:3], 0, [4, 10, 4, 10]),
    "indices": (
        PAIRS.slice([3, 1, 4]),
        -4,
        [(-16, 4), (-7, 3), (-9, 1), (-6, 4), (3, 3), (1, 1), (4, 4), (13, 3), (11, 1), (14, 4), (23, 3)],
    ),
    "outside": (PAIRS.slice([-1, 12]), 0, [(-1, 9), (12, 2), (9, 9), (22, 2)]),
    "array": (PAIRS.slice(np.array([3, 1])), 0, [(3, 3), (1, 1), (13, 3)]),
    "of a dataset": (PAIRS.slice(MapDataset.range(3).shuffle(7)), 0, [(2, 2), (0, 0), (1, 1), (12, 2)]),
    "range": (MapDataset.range(2, 11, 3), -2, [5, 8, 2, 5, 8, 2]),
}


@pytest.mark.parametrize(("dataset", "start", "elements"), INDICES.values(), ids=INDICES)
def test_any_index(dataset, start, elements):
    assert [dataset[index] for index in range(start, start + len(elements))] == elements
    epochs = dataset.repeat(-(-(start + len(elements)) // len(dataset)))
    assert list(epochs)[: start + len(elements)] == elements[-start:]


def test_batch():
    dataset = MapDataset.range(5).batch(2)
    assert [dataset[index].tolist() for index in (2, 3, -1)] == [[4], [0, 1], [4]]
    shuffled = MapDataset.range(5).shuffle(1)
    whole = [[1, 2], [3, 0], [4], [0, 4], [1, 2], [3]]
    assert [batch.tolist() for batch in shuffled.batch(2).repeat(2)] == whole
    assert [shuffled.batch(2)[index].tolist() for index in range(6)] == whole
    dropped = shuffled.batch(2, drop_remainder=True)
    assert [batch.tolist() for batch in dropped.repeat(2)] == [[1, 2], [3, 0], [0, 4], [1, 2]]


def test_batch_lengths_of_endless_datasets():
    endless = MapDataset.range(5).repeat()
    assert len(endless.batch(2)) == 2**62
    assert len(endless.batch(2, drop_remainder=True)) == 2**62 - 1
    assert len(endless.batch(3)) == 3074457345618258432


def test_last_batches_of_an_endless_dataset():
    dataset = MapDataset.range(5).repeat().batch(2)
    iterator = iter(dataset)
    iterator.set_state({"next_index": 2**62 - 3})
    assert [batch.tolist() for batch in iterator] == [[2, 3], [4, 0], [1]]
    assert dataset[2**62 - 1].tolist() == [1]


INTERLEAVES = [
    (["1", "22", "333", "4444", "55555"], 1, "122333444455555"),
    (["1", "22", "333", "4444", "55555"], 2, "122334344545555"),
    (["1", "22", "333", "4444", "55555"], 3, "123234345454555"),
    (["111", "2", "3333", "44"], 3, "1231314343"),
    (["111", "2", "3333", "44"], 10, "1234134133"),
    (["111", "", "3333", "44", ""], 3, "131431433"),
    (["123", "4", "56", "7", "89"], 3, "145263789"),
    ([], 2, ""),
]


@pytest.mark.parametrize(("texts", "cycle_length", "elements"), INTERLEAVES)
def test_interleave(texts, cycle_length, elements):
    datasets = [MapDataset.source(text) for text in texts]
    streams = [dataset.to_iter_dataset() for dataset in datasets]
    made = MapDataset.source(texts).map(MapDataset.source)
    for given in (datasets, streams, made):
        assert "".join(InterleaveIterDataset(given, cycle_length=cycle_length)) == elements
        assert "".join(IterDataset.interleave(given, cycle_length=cycle_length)) == elements


def test_interleave_passes_over_missing_datasets():
    """Where Grain loses elements."""
    datasets = MapDataset.source(["1", "", "333"]).map(lambda text: MapDataset.source(text) if text else None)
    assert "".join(InterleaveIterDataset(datasets, cycle_length=2)) == "1333"
