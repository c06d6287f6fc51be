"""Generators by index: recorded draws, equality with NumPy's own Philox, and pools shared by threads."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grain import MapDataset
from grain.experimental import RngPool
from grain.indices import rng as grain_rng

LAST = 2**64 - 1

KEYS = {
    0: [15793235383387715774, 12390638538380655177],
    42: [11465652750463011511, 15382171918060459190],
}

DRAWS = {
    "integers": lambda rng: rng.integers(0, 2**30, 4),
    "one 32-bit integer": lambda rng: rng.integers(0, 2**31, dtype=np.int32),  # takes half a 64-bit word
    "three 32-bit integers": lambda rng: rng.integers(0, 2**31, 3, dtype=np.uint32),
    "5 bytes": lambda rng: rng.integers(0, 256, 5, dtype=np.uint8),
    "floats": lambda rng: rng.random(3),
    "32-bit floats": lambda rng: rng.random(3, dtype=np.float32),
    "normal": lambda rng: rng.normal(size=2),
    "permutation": lambda rng: rng.permutation(7),
    "choice": lambda rng: rng.choice(100, 3, replace=False),
}


def numpy_rng(seed, index, op_seed=0):
    key = np.random.SeedSequence(seed).generate_state(2, np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=np.array([0, 0, op_seed, index], np.uint64)))


def plain(state):
    if isinstance(state, dict):
        return {key: plain(value) for key, value in state.items()}
    return state.tolist() if isinstance(state, np.ndarray) else state


@pytest.fixture(params=["as it is", "state setter"])
def pool_of(request, monkeypatch):
    """Makes pools, also as they are made where NumPy keeps its state differently."""
    if request.param == "state setter":
        monkeypatch.setattr(grain_rng, "_layout_known", False)
    return RngPool


@pytest.mark.parametrize("seed", KEYS)
def test_key_is_that_of_numpys_seed(seed):
    state = RngPool(seed).acquire_rng(0).bit_generator.state
    assert state["state"]["key"].tolist() == KEYS[seed]
    assert plain(np.random.Philox(seed).state)["state"]["key"] == KEYS[seed]


def test_recorded_draws(pool_of):
    assert pool_of(5).acquire_rng(3).integers(1000) == 642
    assert pool_of(5).acquire_rng(3, op_seed=1).integers(1000) == 943
    pool = pool_of(42)
    words = [int(pool.acquire_rng(index).integers(0, 2**32, dtype=np.uint32)) for index in (0, 1, 2**40)]
    assert words == [3973757322, 1084528269, 3726605624]
    rng = pool.acquire_rng(3)
    assert rng.integers(0, 2**30, 4).tolist() == [866914436, 994124295, 239564892, 116607367]
    assert rng.random() == 0.5999069837346405
    assert pool.acquire_rng(3, op_seed=7).integers(0, 2**30, 4).tolist() == [246373548, 82729103, 373455686, 981830086]


RANDOM_MAPS = [
    (5, 0, lambda x, rng: int(x + rng.integers(0, 100)), [13, 96, 22, 70, 72]),
    (3, 42, lambda x, rng: rng.random(), [0.08607763073528474, 0.5360007351852281, 0.4914322219447841]),
    (
        2,
        1,
        lambda x, rng: [int(rng.integers(0, 2**31, dtype=np.int32)), rng.random(), rng.normal()],
        [
            [903898909, 0.07901298235490295, 0.025380113609183755],
            [710462016, 0.7983420160849841, 0.011436861320541915],
        ],
    ),
]


@pytest.mark.parametrize(("length", "seed", "function", "elements"), RANDOM_MAPS)
def test_recorded_random_maps(length, seed, function, elements):
    dataset = MapDataset.range(length)
    assert list(dataset.random_map(function, seed=seed)) == elements
    assert [dataset.random_map(function, seed=seed)[index] for index in range(length)] == elements
    assert list(dataset.to_iter_dataset().random_map(function, seed=seed)) == elements


def test_later_epochs_draw_on():
    dataset = MapDataset.range(5).random_map(lambda x, rng: int(rng.integers(0, 100)), seed=0)
    assert [dataset[index] for index in range(5, 10)] == [41, 14, 26, 13, 68]


@given(
    seed=st.integers(0, 2**80),
    index=st.integers(0, LAST),
    op_seed=st.one_of(st.just(0), st.integers(0, LAST)),
    before=st.lists(st.sampled_from(sorted(DRAWS)), max_size=3),
    names=st.lists(st.sampled_from(sorted(DRAWS)), min_size=1, max_size=3),
)
@settings(deadline=None, derandomize=True, max_examples=150)
def test_reused_generators_equal_numpys(seed, index, op_seed, before, names):
    pool = RngPool(seed)
    used = pool.acquire_rng(7)
    for name in before:  # leaves half-used words behind
        DRAWS[name](used)
    pool.release_rng(used)
    rng = pool.acquire_rng(index, op_seed=op_seed)
    assert rng is used
    expected = numpy_rng(seed, index, op_seed)
    for name in names:
        np.testing.assert_array_equal(DRAWS[name](rng), DRAWS[name](expected))


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("index", [0, 1, 2**32, 2**63, LAST])
def test_both_resets_leave_the_same_state(name, index):
    philoxes = np.random.Philox(9), np.random.Philox(9)
    resets = [grain_rng._memory_reset(philoxes[0]), grain_rng._state_reset(philoxes[1])]
    for philox, reset in zip(philoxes, resets, strict=True):
        DRAWS[name](np.random.Generator(philox))
        reset(11, index)
    fresh = plain(numpy_rng(9, index, 11).bit_generator.state)
    assert plain(philoxes[0].state) == plain(philoxes[1].state) == fresh


def test_fast_reset_is_used_here():
    assert grain_rng._memory_layout_is_known()


@pytest.mark.parametrize("index", [-1, LAST + 1, -(2**70)])
def test_index_that_no_counter_holds(pool_of, index):
    with pytest.raises(OverflowError):
        pool_of(1).acquire_rng(index)
    with pytest.raises(OverflowError):
        pool_of(1).acquire_rng(0, op_seed=index)


def test_negative_seed():
    with pytest.raises(ValueError, match="non-negative"):
        RngPool(-1).acquire_rng(0)


def test_release_of_a_foreign_generator():
    with pytest.raises(TypeError, match="PCG64"):
        RngPool(1).release_rng(np.random.default_rng(0))


def test_unreleased_generators_are_distinct():
    pool = RngPool(3)
    first, second = pool.acquire_rng(0), pool.acquire_rng(1)
    assert first is not second
    assert (first.random(), second.random()) == (numpy_rng(3, 0).random(), numpy_rng(3, 1).random())


def test_pickle_keeps_the_seed_only():
    pool = RngPool(2**70)
    pool.release_rng(pool.acquire_rng(1))
    copy = pickle.loads(pickle.dumps(pool))
    assert copy.acquire_rng(4).random() == numpy_rng(2**70, 4).random()
    assert len(pickle.dumps(pool)) < 200


def test_generator_outlives_its_pool():
    rng = RngPool(3).acquire_rng(5)
    assert rng.random(1000).tolist() == numpy_rng(3, 5).random(1000).tolist()


@pytest.mark.parametrize("workers", [2, 8])
def test_threads_share_a_pool(workers):
    pool = RngPool(12)

    def draw(index):
        rng = pool.acquire_rng(index)
        values = rng.integers(0, 2**31, 3, dtype=np.int32).tolist(), rng.normal()
        pool.release_rng(rng)
        return values

    with ThreadPoolExecutor(workers) as executor:
        found = list(executor.map(draw, range(600)))
    for index, (integers, normal) in enumerate(found):
        rng = numpy_rng(12, index)
        assert (rng.integers(0, 2**31, 3, dtype=np.int32).tolist(), rng.normal()) == (integers, normal)


def test_threads_share_a_random_map():
    def function(x, rng):
        return int(rng.integers(0, 2**31, dtype=np.int32)), rng.random()

    dataset = MapDataset.range(400).random_map(function, seed=8)
    with ThreadPoolExecutor(8) as executor:
        found = list(executor.map(dataset.__getitem__, range(400)))
    assert found == [function(None, numpy_rng(8, index)) for index in range(400)]


def test_generator_of_a_failed_call_is_not_reused():
    """Whoever looks at the error later still finds the generator as it was."""
    kept = []

    def function(x, rng):
        kept.append(rng)
        if x == 1:
            rng.random()
            raise KeyError(x)
        return x

    dataset = MapDataset.range(4).random_map(function, seed=1)
    assert dataset[0] == 0
    with pytest.raises(KeyError):
        dataset[1]
    assert [dataset[2], dataset[3]] == [2, 3]
    assert kept[1] not in kept[2:]
    expected = numpy_rng(1, 1)
    expected.random()
    assert kept[1].random() == expected.random()


@pytest.mark.parametrize("rekey_of", [grain_rng._memory_rekey, grain_rng._state_rekey])
@pytest.mark.parametrize("key", [0, 5, 2**32 + 41, 2**64 - 1, 2**64 + 3])
def test_a_generator_with_another_key_is_as_a_new_one(rekey_of, key):
    rng = grain_rng.keyed_rng(1)
    rng.integers(0, 5, size=3, dtype=np.uint32)
    rekey_of(rng.bit_generator)(key)
    expected = np.random.Generator(np.random.Philox(key=key))
    assert rng.integers(2**60, size=9).tolist() == expected.integers(2**60, size=9).tolist()


def test_generators_that_are_handed_back_are_used_again():
    pool = grain_rng.KeyedRngPool()
    first, second = pool.acquire(5), pool.acquire(5)
    assert first[0] is not second[0]
    pool.release(first)
    again = pool.acquire(6)
    assert again[0] is first[0]
    assert again[0].integers(1000, size=3).tolist() == [208, 685, 760]
    assert second[0].integers(1000, size=3).tolist() == [206, 733, 52]
