"""index_shuffle: recorded values, its argument rules, and that it is a permutation of every range."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grain.experimental import index_shuffle
from grain.indices.permutation import _key_words, permuted_array

LAST = 2**63 - 1
MAX_SEED = 2**32 - 1

# (index, max_index, seed, rounds) -> value
RECORDED = {
    (0, 0, 0, 4): 0,
    (0, 1, 0, 4): 0,
    (1, 1, 42, 4): 1,
    (2, 2, 42, 4): 2,
    (0, 5, 42, 4): 4,
    (1, 5, 42, 4): 1,
    (2, 5, 42, 4): 2,
    (3, 5, 42, 4): 3,
    (4, 5, 42, 4): 0,
    (5, 5, 42, 4): 5,
    (0, 10, 1, 4): 5,
    (5, 10, 1, 4): 8,
    (10, 10, 1, 4): 1,
    (0, 10, 42, 4): 8,
    (5, 10, 42, 4): 5,
    (10, 10, 42, 4): 3,
    (0, 255, 42, 4): 216,
    (128, 255, 42, 4): 70,
    (255, 255, 42, 4): 221,
    (0, 256, 42, 4): 216,
    (256, 256, 42, 4): 152,
    (0, 9999, 42, 4): 1069,
    (1, 9999, 42, 4): 8916,
    (9999, 9999, 42, 4): 5891,
    (0, 65535, 42, 4): 43043,
    (1, 65535, 42, 4): 61882,
    (65535, 65535, 42, 4): 52842,
    (0, 65536, 42, 4): 43043,
    (0, 65537, 42, 4): 48929,
    (65537, 65537, 42, 4): 60591,
    (0, 262144, 7, 4): 144901,
    (0, 999999, 0, 4): 645888,
    (1, 999999, 0, 4): 526917,
    (999999, 999999, 0, 4): 289545,
    (0, 999999, 42, 4): 42268,
    (999999, 999999, 42, 4): 763453,
    (123456, 1000000, 42, 4): 104355,
    (123456, 1000000, 42, 6): 651523,
    (123456, 1000000, 42, 8): 420634,
    (123456, 1000000, 42, 16): 686134,
    (123456, 1000000, 42, 40): 936319,
    (123456, 1000000, 42, 68): 509384,
    (123456, 1000000, 42, 624): 943300,
    (123456, 1000000, 42, 1024): 666980,
    (0, 2147483648, 42, 4): 1696202226,
    (2147483648, 2147483648, 42, 4): 1527751891,
    (0, 4294967294, 42, 4): 1696202226,
    (1, 4294967294, 42, 4): 1952184567,
    (4294967294, 4294967294, 42, 4): 2931862211,
    (0, 4294967294, 4294967295, 4): 503722993,
    (4294967294, 4294967294, 4294967295, 4): 3491915721,
    (0, 1099511627781, 42, 4): 338708028980,
    (1099511627781, 1099511627781, 42, 4): 47561182688,
    (0, LAST, 42, 4): 8485456381694082302,
    (1, LAST, 42, 4): 8485473149246405607,
    (LAST, LAST, 42, 4): 5268421759631340576,
}

# Ranges of 2**(2k) + 1 values: the block holds all but the last, which stays where it is.
ONE_TOO_MANY = [2**16, 2**18, 2**20, 2**32, 2**40]

KEY_WORDS = {
    (0, 4): "b0a842fd 04290315 75a0adfa 1fb83b0f",
    (42, 4): "2bd7299e dcfa5f8a c427314d 3a718a6d",
    (MAX_SEED, 4): "c2351c8e b16373ff 0d9336e4 2008463e",
    (42, 6): "edfaa4c8 88cc003c 085aab9e 6bf56c02 13ff7a39 831b45ab",
    (42, 8): "776a82a6 195b45f5 afcd5c16 ff95e6df 4496e757 a0b83dd9 e10e3288 23147bf8",
}


def reference_keys(seed: int, n: int) -> list[int]:
    """`std::seed_seq{seed}.generate` of `n` words, as the C++ standard writes it."""
    mask = 0xFFFFFFFF
    words = [0x8B8B8B8B] * n
    t = 11 if n >= 623 else 7 if n >= 68 else 5 if n >= 39 else 3 if n >= 7 else (n - 1) // 2
    p = (n - t) // 2
    q = p + t

    def mixed(x):
        return x ^ (x >> 27)

    for k in range(n):
        r1 = 1664525 * mixed(words[k] ^ words[(k + p) % n] ^ words[k - 1]) & mask
        r2 = (r1 + (1 if k == 0 else k + seed if k == 1 else k)) & mask
        words[(k + p) % n] = (words[(k + p) % n] + r1) & mask
        words[(k + q) % n] = (words[(k + q) % n] + r2) & mask
        words[k] = r2
    for k in range(n):
        r3 = 1566083941 * mixed((words[k] + words[(k + p) % n] + words[k - 1]) & mask) & mask
        r4 = (r3 - k) & mask
        words[(k + p) % n] ^= r3
        words[(k + q) % n] ^= r4
        words[k] = r4
    return words


def reference(index: int, max_index: int, seed: int, rounds: int = 4) -> int:
    """The specification's algorithm, one value at a time and without shortcuts."""
    if max_index == 0:
        return 0
    width = math.ceil(math.log2(max_index))
    bits = max(width + width % 2, 16) // 2
    if index >= 1 << 2 * bits:
        return index
    mask = (1 << bits) - 1
    keys = [key & mask for key in reference_keys(seed, rounds)]

    def rotated(value, by):
        by %= bits
        return (value << by | value >> (bits - by)) & mask

    def f(value):
        return rotated(value, 1) & rotated(value, 8) ^ rotated(value, 2)

    while True:
        left, right = index >> bits, index & mask
        for first, second in zip(keys[::2], keys[1::2], strict=True):
            left ^= f(right) ^ first
            right ^= f(left) ^ second
        index = left << bits | right
        if index <= max_index:
            return index


@pytest.mark.parametrize(("arguments", "value"), RECORDED.items(), ids=str)
def test_recorded_values(arguments, value):
    index, max_index, seed, rounds = arguments
    assert index_shuffle(index, max_index, seed, rounds) == value
    assert index_shuffle(index=index, max_index=max_index, seed=seed, rounds=rounds) == value
    assert permuted_array(np.array([index]), max_index + 1, seed, rounds).tolist() == [value]


@pytest.mark.parametrize(("arguments", "words"), KEY_WORDS.items(), ids=str)
def test_key_words(arguments, words):
    assert [f"{word:08x}" for word in _key_words(*arguments)] == words.split()
    assert list(_key_words(*arguments)) == reference_keys(*arguments)


@pytest.mark.parametrize("max_index", ONE_TOO_MANY)
@pytest.mark.parametrize("seed", [0, 7, 42])
def test_last_index_stays_where_the_block_is_one_value_short(max_index, seed):
    assert index_shuffle(max_index, max_index, seed, 4) == max_index
    assert index_shuffle(0, max_index, seed, 4) != max_index
    assert permuted_array(np.array([max_index, 0]), max_index + 1, seed).tolist() == [
        max_index,
        index_shuffle(0, max_index, seed, 4),
    ]


def test_so_do_all_that_rounding_of_the_width_leaves_out():
    max_index = 2**54 + 3  # log2 of it is 54 as a double
    outside = range(2**54, max_index + 1)
    assert [index_shuffle(index, max_index, 42, 4) for index in outside] == list(outside)
    mixed = [*outside, 0, 1]
    assert permuted_array(np.array(mixed), max_index + 1, 42).tolist() == [reference(i, max_index, 42) for i in mixed]


@pytest.mark.parametrize(
    "count",
    [1, 2, 3, 10, 17, 255, 256, 1000, 4095, 4096, 4097, 2**16 - 1, 2**16, 2**16 + 1, 2**16 + 2, 2**18, 2**18 + 1],
)
def test_every_range_is_permuted(count):
    values = permuted_array(np.arange(count), count, 7)
    assert values.dtype == np.int64
    assert np.array_equal(np.sort(values), np.arange(count))


@pytest.mark.parametrize("count", [1, 2, 3, 16, 100, 300])
@pytest.mark.parametrize("seed", [0, 1, 42, MAX_SEED])
def test_one_by_one_gives_the_same_permutation(count, seed):
    values = [index_shuffle(index, count - 1, seed, 4) for index in range(count)]
    assert sorted(values) == list(range(count))
    assert values == permuted_array(np.arange(count), count, seed).tolist()


@st.composite
def places(draw):
    max_index = draw(st.one_of(st.integers(300, 2**16), st.integers(2**16, 2**40), st.integers(2**40, LAST)))
    indices = draw(st.lists(st.integers(0, max_index), min_size=1, max_size=40))
    return indices, max_index


@given(places(), st.integers(0, MAX_SEED), st.sampled_from([4, 6, 10, 68]))
@settings(deadline=None, derandomize=True, max_examples=150)
def test_scalar_and_array_equal_the_reference(place, seed, rounds):
    indices, max_index = place
    expected = [reference(index, max_index, seed, rounds) for index in indices]
    assert [index_shuffle(index, max_index, seed, rounds) for index in indices] == expected
    assert permuted_array(np.array(indices), max_index + 1, seed, rounds).tolist() == expected
    assert permuted_array(np.array(indices, dtype=object), max_index + 1, seed, rounds).tolist() == expected


def test_array_is_left_alone():
    indices = np.arange(10)
    first = permuted_array(indices, 10, 1)
    first[:] = -1
    assert indices.tolist() == list(range(10))
    assert permuted_array(indices, 10, 1).tolist() == [index_shuffle(index, 9, 1, 4) for index in range(10)]


@pytest.mark.parametrize("number", [np.int64(3), np.uint8(3), True])
def test_anything_with_an_index_is_an_integer(number):
    assert index_shuffle(number, 10, 42, 4) == index_shuffle(int(number), 10, 42, 4)
    assert index_shuffle(0, 10, number, 4) == index_shuffle(0, 10, int(number), 4)
    assert type(index_shuffle(number, np.int64(10), np.uint32(42), np.int8(4))) is int


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((1.0, 10, 42, 4), "index"),
        ((None, 10, 42, 4), "index"),
        (("1", 10, 42, 4), "index"),
        ((0, 10.5, 42, 4), "max_index"),
        ((0, 2**63, 42, 4), "max_index"),
        ((-(2**63) - 1, 10, 42, 4), "index"),
        ((0, 10, -1, 4), "seed"),
        ((0, 10, 2**32, 4), "seed"),
        ((0, 10, 1.5, 4), "seed"),
        ((0, 10, 42, -4), "rounds"),
        ((0, 10, 42, 2**32), "rounds"),
        ((0, 10, 42, None), "rounds"),
    ],
)
def test_arguments_that_are_no_integers_of_their_size(arguments, name):
    with pytest.raises(TypeError, match=rf"\b{name}\b"):
        index_shuffle(*arguments)


@pytest.mark.parametrize("rounds", [0, 2, 3, 5, 1025, 1026])
def test_rounds_out_of_range(rounds):
    message = f"rounds must be an even integer between 4 and 1024, but got rounds = {rounds}$"
    with pytest.raises(ValueError, match=message):
        index_shuffle(0, 10, 42, rounds)
    with pytest.raises(ValueError, match=message):  # told before a bad index
        index_shuffle(11, 10, 42, rounds)


@pytest.mark.parametrize(("index", "max_index"), [(-1, 10), (11, 10), (0, -1), (1, 0)])
def test_index_out_of_range(index, max_index):
    message = rf"index must be in \[0, max_index\], but got index = {index} and max_index = {max_index}$"
    with pytest.raises(ValueError, match=message):
        index_shuffle(index, max_index, 42, 4)


def test_missing_argument():
    with pytest.raises(TypeError, match="rounds"):
        index_shuffle(0, 10, 42)
