"""How `.seed(s)` reaches the random operators after it, and which seeds are refused."""

import numpy as np
import pytest

from grain import IterDataset, MapDataset
from grain.experimental import InterleaveIterDataset, WindowShuffleIterDataset, WindowShuffleMapDataset


def same(x):
    return x


def integer(limit):
    return lambda x, rng: int(rng.integers(0, limit))


def derived(*entropy):
    return int(np.random.SeedSequence(entropy).generate_state(1, dtype=np.uint32)[0])


def first(dataset):
    return [str(dataset[index]) for index in range(4)]


RANGE = MapDataset.range(10)
ONES = MapDataset.range(10).seed(1)
TWOS = MapDataset.range(10).map(same).seed(2)

# pipeline -> the seed that a random operator after it derives
DERIVED = {
    "directly after": (RANGE.seed(42), 3329053876),
    "after a shuffle": (RANGE.seed(42).shuffle(), 955475868),
    "after a shuffle and a random_map": (RANGE.seed(42).shuffle().random_map(integer(3)), 2541583436),
    "every operator counts": (RANGE.seed(7).map(same).map(same), 3466196061),
    "the nearest counts": (RANGE.seed(7).shuffle().seed(9), 3933992529),
    "breadth first": (MapDataset.mix([ONES, TWOS.map(same)]), 497457852),
    "all parents": (MapDataset.concatenate([ONES, MapDataset.range(10).seed(2)]), 958734630),
    "one parent only": (MapDataset.mix([RANGE, ONES]), derived(1, 2)),
    "zip": (MapDataset.zip([ONES, ONES]), derived(1, 2, 1, 2)),
    "slice, repeat, batch": (RANGE.seed(5)[1:].repeat(2).batch(2), derived(5, 4)),
    "a seed of any size": (RANGE.seed(2**70), derived(2**70, 1)),
    "seed 0": (RANGE.seed(0), derived(0, 1)),
    "None is no seed": (RANGE.seed(3).seed(None), derived(3, 2)),
    "two kinds of parents": (MapDataset.mix([TWOS.map(same).map(same), ONES]), derived(1, 2, 2, 4)),
}


@pytest.mark.parametrize(("dataset", "seed"), DERIVED.values(), ids=DERIVED)
def test_derived_seed(dataset, seed):
    def draw(x, rng):
        return rng.random()

    assert first(dataset.random_map(draw)) == first(dataset.random_map(draw, seed=seed))
    assert first(dataset.shuffle()) == first(dataset.shuffle(seed))


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_derived_seed_of_streams(depth):
    dataset = RANGE.seed(42).to_iter_dataset()
    for _ in range(depth - 1):
        dataset = dataset.map(same)
    seed = derived(42, depth + 1)
    assert list(dataset.random_map(integer(99))) == list(dataset.random_map(integer(99), seed=seed))


def test_seed_on_a_stream_counts_from_there():
    dataset = RANGE.to_iter_dataset().seed(42)
    assert list(dataset.random_map(integer(99))) == list(dataset.random_map(integer(99), seed=derived(42, 1)))
    mixed = IterDataset.mix([dataset, RANGE.seed(8).to_iter_dataset()])
    seed = derived(42, 2, 8, 3)
    assert list(mixed.random_map(integer(99))) == list(mixed.random_map(integer(99), seed=seed))


RECORDED = {
    "shuffle": (RANGE.seed(42).shuffle(), [1, 7, 6, 9, 0, 8, 4, 5, 3, 2]),
    "map, shuffle": (MapDataset.range(8).seed(42).map(same).shuffle(), [1, 5, 0, 3, 6, 4, 7, 2]),
    "seed 0": (MapDataset.range(8).seed(0).shuffle(), [1, 2, 4, 5, 3, 7, 0, 6]),
    "no seed()": (MapDataset.range(8).shuffle(0), [0, 4, 6, 7, 5, 3, 1, 2]),
    "shuffle, random_map": (
        RANGE.seed(42).shuffle().random_map(lambda x, rng: int(x + rng.integers(0, 10))).repeat(2),
        [4, 16, 6, 18, 5, 12, 7, 5, 5, 9, 13, 3, 6, 7, 14, 15, 15, 5, 7, 9],
    ),
    "explicit seeds": (
        RANGE.shuffle(42).random_map(lambda x, rng: int(x + rng.integers(0, 10)), seed=42),
        [17, 8, 11, 17, 0, 7, 4, 4, 4, 3],
    ),
    "seed on the stream": (
        MapDataset.range(5).to_iter_dataset().seed(7).random_map(integer(1000)),
        [888, 263, 606, 241, 112],
    ),
    "seed before the stream": (
        MapDataset.range(5).seed(7).to_iter_dataset().random_map(integer(1000)),
        [236, 798, 455, 658, 845],
    ),
    "epochs": (
        MapDataset.range(4).seed(3).shuffle().random_map(integer(100)).repeat(2),
        [67, 99, 81, 30, 55, 88, 34, 53],
    ),
    "equal epochs": (
        MapDataset.range(4).seed(3).shuffle().random_map(integer(100)).repeat(2, reseed_each_epoch=False),
        [67, 99, 81, 30] * 2,
    ),
}


@pytest.mark.parametrize(("dataset", "elements"), RECORDED.values(), ids=RECORDED)
def test_recorded_elements(dataset, elements):
    assert list(dataset) == elements


def test_seed_leaves_the_elements_alone():
    assert list(RANGE.seed(1)) == list(RANGE.to_iter_dataset().seed(1)) == list(range(10))


def test_explicit_seed_wins():
    assert list(RANGE.seed(1).shuffle(42)) == list(RANGE.shuffle(42))
    assert list(RANGE.seed(1).random_map(integer(9), seed=4)) == list(RANGE.random_map(integer(9), seed=4))


WITHOUT_SEED = {
    "shuffle": (lambda: RANGE.shuffle(), "shuffle"),
    "random_map": (lambda: RANGE.random_map(integer(3)), "random_map"),
    "stream": (lambda: RANGE.to_iter_dataset().random_map(integer(3)), "random_map"),
    "seed(None)": (lambda: RANGE.seed(None).shuffle(), "shuffle"),
    "seed downstream": (lambda: RANGE.shuffle().seed(1), "shuffle"),
    "a dataset as a source": (lambda: MapDataset.source(RANGE.seed(1)).shuffle(), "shuffle"),
    "interleave": (
        lambda: InterleaveIterDataset([RANGE.seed(1)], cycle_length=1).random_map(integer(3)),
        "random_map",
    ),
}


@pytest.mark.parametrize(("build", "operator"), WITHOUT_SEED.values(), ids=WITHOUT_SEED)
def test_missing_seed(build, operator):
    with pytest.raises(ValueError, match=rf"`{operator}` requires a seed\. Please provide it with `ds\.seed\(seed\)`"):
        build()


def test_window_shuffles_need_a_seed_of_their_own():
    seeded = RANGE.seed(1)
    for build in (
        lambda: WindowShuffleMapDataset(seeded, window_size=2),
        lambda: WindowShuffleIterDataset(seeded.to_iter_dataset(), window_size=2),
        lambda: seeded.window_shuffle(2),
        lambda: seeded.to_iter_dataset().window_shuffle(2),
    ):
        with pytest.raises(TypeError, match="seed"):
            build()


@pytest.mark.parametrize("seed", [-1, 2**32, 2**70])
def test_shuffle_seed_out_of_range(seed):
    with pytest.raises(ValueError, match=rf"between 0 and 2\*\*32-1 \(got seed={seed}\)"):
        RANGE.shuffle(seed)


@pytest.mark.parametrize("seed", [-1, "abc"])
def test_seed_that_numpy_refuses(seed):
    seeded = RANGE.seed(seed)
    with pytest.raises(ValueError, match=r"non-negative|seed"):
        seeded.shuffle()
    with pytest.raises(ValueError, match=r"non-negative|seed"):
        seeded.to_iter_dataset().random_map(integer(3))


def test_negative_seed_of_random_map():
    with pytest.raises(ValueError, match="non-negative"):
        list(RANGE.random_map(integer(3), seed=-1))
    with pytest.raises(ValueError, match="non-negative"):
        list(RANGE.to_iter_dataset().random_map(integer(3), seed=-1))


def test_large_seed_of_random_map():
    assert list(RANGE.random_map(integer(9), seed=2**70)) != list(RANGE.random_map(integer(9), seed=2**71))


def test_shuffle_takes_the_integer_part():
    assert list(RANGE.shuffle(1.5)) == list(RANGE.shuffle(1))


def test_default_seed_of_users_own_datasets():
    class Own(MapDataset):
        def __len__(self):
            return len(self._parent)

        def __getitem__(self, index):
            return self._parent[index]

    assert Own(RANGE.seed(7).map(same))._default_seed == derived(7, 2)
    assert Own(RANGE)._default_seed is None
    own = Own(RANGE.seed(7))
    assert list(own.shuffle()) == list(own.shuffle(derived(7, 2)))
