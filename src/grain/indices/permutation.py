"""A keyed permutation of 0..max_index: what every shuffle is made of.

A balanced Feistel cipher with SIMON's round function permutes a power-of-two block that covers the range; values that
fall outside are encrypted again until they land inside (cycle walking). Any value can be computed by itself, so a
shuffle of 10**12 indices needs no memory. Keys come from C++'s `std::seed_seq` recurrence.
"""

from __future__ import annotations

import math
from array import array
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from grain.errors import EmptyDatasetError
from grain.indices.arithmetic import IndexArray, divided, exact, integer

if TYPE_CHECKING:
    import numpy.typing as npt


_WORD = 0xFFFFFFFF
SEEDS = 2**32
"""Seeds are below this."""
# Up to here one pass over the smallest block (2**16 values) gives the whole permutation: cheaper than walking, in
# which a range of ten indices takes 6,500 encryptions an index.
_WHOLE_BLOCK = 1 << 16
# Below this size a single index is answered from the whole permutation, above it by walking.
_SCALAR_TABLE = 1 << 12
# So many encryptions cost as much as the whole permutation.
_WORTH_A_TABLE = 3000
# From this size on, indices with different seeds are walked together; below it walks are too long.
_WALKED_TOGETHER = 256
# So few values are walked faster one by one than as an array.
_FEW = 24
# From this size on, an array is encrypted by arithmetic alone.
_WORTH_VECTORS = 4096
# The round function of words up to this width is kept as a table.
_TABLE_BITS = 16


def index_shuffle(index: SupportsIndex, max_index: SupportsIndex, seed: SupportsIndex, rounds: SupportsIndex) -> int:
    """Where `index` goes in the permutation of 0..`max_index` that belongs to `seed`.

    >>> [index_shuffle(i, max_index=5, seed=42, rounds=4) for i in range(6)]
    [4, 1, 2, 3, 0, 5]
    """
    index, max_index = _integer("index", index, -(2**63), 2**63), _integer("max_index", max_index, -(2**63), 2**63)
    seed, rounds = _integer("seed", seed, 0, 2**32), _integer("rounds", rounds, 0, 2**32)
    if rounds < 4 or rounds % 2 or rounds > 1024:
        raise ValueError(f"rounds must be an even integer between 4 and 1024, but got rounds = {rounds}")
    if index < 0 or index > max_index:
        raise ValueError(f"index must be in [0, max_index], but got index = {index} and max_index = {max_index}")
    return permuted(index, max_index + 1, seed, rounds)


def permuted(index: int, count: int, seed: int, rounds: int = 4) -> int:
    """`index_shuffle` without its checks, for an index in 0..count-1."""
    if count < _SCALAR_TABLE:
        small = _small_permutation(count, seed, rounds)
        if small.table is None:
            small.work += _WHOLE_BLOCK // count
            if small.work > _WORTH_A_TABLE:
                small.table = array("H", _permutation(count, seed, rounds))
        if small.table is not None:
            return small.table[index]
    bits, mask, keys, mixed = _cipher(count, seed, rounds)
    if index >> 2 * bits:
        return index
    if rounds == 4:  # as in every shuffle: without the inner loop
        (first, second), (third, fourth) = keys
        while True:
            right = index & mask
            left = index >> bits ^ mixed[right] ^ first
            right ^= mixed[left] ^ second
            left ^= mixed[right] ^ third
            index = left << bits | right ^ mixed[left] ^ fourth
            if index < count:
                return index
    while True:
        left, right = index >> bits, index & mask
        for key_left, key_right in keys:
            left ^= mixed[right] ^ key_left
            right ^= mixed[left] ^ key_right
        index = left << bits | right
        if index < count:
            return index


def permuted_array(indices: IndexArray, count: int, seed: int, rounds: int = 4) -> npt.NDArray[np.int64]:
    """`permuted` of a whole array of indices, each in 0..count-1."""
    if count <= _WHOLE_BLOCK:
        return _permutation(count, seed, rounds)[indices.astype(np.int64, copy=False)].astype(np.int64)
    values = indices.astype(np.int64)
    bits = _word_bits(count)
    if count - 1 >> 2 * bits:  # see `_word_bits`: what the block cannot hold stays where it is
        inside = np.flatnonzero(values >> 2 * bits == 0)
        walked = values[inside]
    else:
        inside, walked = None, values
    walked = _encrypted(walked, bits, seed, rounds)
    unsigned = walked.view(np.uint64)  # a block of 64 bits uses the sign
    outside = np.flatnonzero(unsigned >= count)
    while outside.size > _FEW:
        walked[outside] = _encrypted(walked[outside], bits, seed, rounds)
        outside = outside[unsigned[outside] >= count]
    for position in outside.tolist():
        walked[position] = permuted(int(unsigned[position]), count, seed, rounds)
    if inside is None:
        return walked
    values[inside] = walked
    return values


def shuffled(seed: int, length: int, index: Any) -> Any:
    """Each index, or each of an array, permuted within its epoch of `length`, with another seed for every epoch."""
    if type(index) is int:
        if 0 <= index < length:
            return permuted(index, length, seed % SEEDS)
        try:
            epoch, place = divmod(index, length)
        except ZeroDivisionError:
            raise EmptyDatasetError from None
        return permuted(place, length, (seed + epoch) % SEEDS) + epoch * length
    epoch, place = divided(exact(index, 1, length), length)
    if not isinstance(index, np.ndarray):
        return permuted(int(place), length, int(seed + epoch) % SEEDS) + epoch * length
    first = int(epoch[0])
    if first == epoch[-1] and (epoch == first).all():
        places = permuted_array(place, length, (seed + first) % SEEDS)
        return epoch * length + places if first else places
    return epoch * length + permuted_by_part(epoch, place, length, seed)


def permuted_by_part(part: IndexArray, place: IndexArray, length: int, seed: int) -> IndexArray:
    """Each place permuted among `length`, with the seed of the part it is in."""
    result = np.empty(place.size, np.int64)
    order = np.argsort(part, kind="stable")
    for chosen in np.split(order, np.flatnonzero(np.diff(part[order])) + 1):
        result[chosen] = permuted_array(place[chosen], length, (seed + int(part[chosen[0]])) % SEEDS)
    return result


def _integer(name: str, value: Any, low: int, high: int) -> int:
    number = integer(name, value)
    if not low <= number < high:
        raise TypeError(f"index_shuffle: {name} must be in [{low}, {high}), got {number}")
    return number


def _word_bits(count: int) -> int:
    """Half the width of the block for `count` values, in bits.

    The width is that of log2(count - 1), rounded as a double: for 2**16 + 1, 2**18 + 1, … values the block is one value
    short. Results depend on it, so it stays; the values beyond the block keep their places, which leaves a permutation.
    """
    width = math.ceil(math.log2(count - 1)) if count > 1 else 0
    return max(width + width % 2, 16) // 2


def _key_words(seed: Any, count: int) -> list[Any]:
    """`count` words of `std::seed_seq{seed}`; arrays of them for an array of seeds."""
    words: list[Any] = [0x8B8B8B8B] * count
    t = 11 if count >= 623 else 7 if count >= 68 else 5 if count >= 39 else 3 if count >= 7 else (count - 1) // 2
    p = (count - t) // 2
    q = p + t
    for k in range(count):
        mixed = words[k] ^ words[(k + p) % count] ^ words[k - 1]
        first = 1664525 * (mixed ^ mixed >> 27) & _WORD
        second = first + (1 if k == 0 else k + seed if k == 1 else k) & _WORD
        words[(k + p) % count] = words[(k + p) % count] + first & _WORD
        words[(k + q) % count] = words[(k + q) % count] + second & _WORD
        words[k] = second
    for k in range(count):
        mixed = words[k] + words[(k + p) % count] + words[k - 1] & _WORD
        third = 1566083941 * (mixed ^ mixed >> 27) & _WORD
        fourth = third - k & _WORD
        words[(k + p) % count] = words[(k + p) % count] ^ third
        words[(k + q) % count] = words[(k + q) % count] ^ fourth
        words[k] = fourth
    return words


@lru_cache(maxsize=1024)
def _keys(seed: int, rounds: int, bits: int) -> tuple[tuple[int, int], ...]:
    mask = (1 << bits) - 1
    words = [word & mask for word in _key_words(seed, rounds)]
    return tuple(zip(words[::2], words[1::2], strict=True))


@lru_cache(maxsize=1 << 14)
def _cipher(count: int, seed: int, rounds: int) -> tuple[int, int, tuple[tuple[int, int], ...], Any]:
    """What encrypting single values takes: half the block's width, a mask of it, the keys, and the round function."""
    bits = _word_bits(count)
    mixed = _MixedWords(bits) if bits > _TABLE_BITS else _mixed_words(bits)
    return bits, (1 << bits) - 1, _keys(seed, rounds, bits), mixed


class _SmallPermutation:
    """The permutation of a small range: a table, once as much work as making one has gone into single indices."""

    def __init__(self, count: int, seed: int, rounds: int) -> None:
        self.table: array[int] | None = None
        self.work = 0


_small_permutation = lru_cache(maxsize=1 << 13)(_SmallPermutation)


def permuted_each(indices: IndexArray, counts: IndexArray, seeds: IndexArray) -> npt.NDArray[np.int64]:
    """`permuted` of many indices, each with its own count and seed."""
    values = indices.astype(np.int64)
    widths = {count: _word_bits(count) if count >= _WALKED_TOGETHER else 0 for count in np.unique(counts).tolist()}
    bits_of = np.array(list(widths.values()))[np.searchsorted(list(widths), counts)]
    for bits in set(widths.values()):
        here = np.flatnonzero(bits_of == bits)
        if bits:
            _walk_together(values, here, counts, seeds, bits)
            continue
        for count, seed in set(zip(counts[here].tolist(), seeds[here].tolist(), strict=True)):
            chosen = here[(counts[here] == count) & (seeds[here] == seed)]
            values[chosen] = permuted_array(values[chosen], count, seed)
    return values


def _walk_together(values: IndexArray, here: IndexArray, counts: IndexArray, seeds: IndexArray, bits: int) -> None:
    """Permute `values[here]` in place; all have blocks of the same width."""
    here = here[values[here] >> 2 * bits == 0]
    keys = [word & (1 << bits) - 1 for word in _key_words(seeds[here], 4)]
    while here.size:
        walked = _encrypted_with(values[here], bits, ((keys[0], keys[1]), (keys[2], keys[3])))
        values[here] = walked
        outside = np.flatnonzero(walked.view(np.uint64) >= counts[here].astype(np.uint64))
        here, keys = here[outside], [key[outside] for key in keys]


def _encrypted(values: npt.NDArray[np.int64], bits: int, seed: int, rounds: int) -> npt.NDArray[np.int64]:
    """One encryption of every value."""
    keys = _keys(seed, rounds, bits)
    if values.size < _WORTH_VECTORS or bits > _TABLE_BITS:
        return _encrypted_with(values, bits, keys)
    # Many values: short words and no look-ups, so that the processor works on sixteen at a time.
    right = values.astype(np.uint16)
    left = (values >> bits).astype(np.uint16)
    right &= np.uint16((1 << bits) - 1)
    for key_left, key_right in keys:
        left ^= _round_function(right, bits)
        left ^= np.uint16(key_left)
        right ^= _round_function(left, bits)
        right ^= np.uint16(key_right)
    result = left.astype(np.int64)
    result <<= bits
    result |= right
    return result


def _encrypted_with(values: npt.NDArray[np.int64], bits: int, keys: Any) -> npt.NDArray[np.int64]:
    mask = (1 << bits) - 1
    left, right = values >> bits & mask, values & mask
    for key_left, key_right in keys:
        left ^= _mixed(right, bits)
        left ^= key_left
        right ^= _mixed(left, bits)
        right ^= key_right
    left <<= bits
    left |= right
    return left


def _mixed(words: npt.NDArray[np.int64], bits: int) -> Any:
    return _mixed_table(bits)[words] if bits <= _TABLE_BITS else _round_function(words, bits)


def _round_function(words: Any, bits: int) -> Any:
    """(x <<< 1 & x <<< 8) ^ x <<< 2, of words of `bits` bits."""
    mixed = words << 1 | words >> bits - 1
    mixed &= words << 8 | words >> bits - 8
    mixed ^= words << 2 | words >> bits - 2
    mixed &= (1 << bits) - 1
    return mixed


@cache
def _mixed_table(bits: int) -> npt.NDArray[np.uint16]:
    return _round_function(np.arange(1 << bits), bits).astype(np.uint16)  # type: ignore[no-any-return]


@cache
def _mixed_words(bits: int) -> array[int]:
    """The same for single words: looking one up in a NumPy array is slower."""
    return array("H", _mixed_table(bits))


class _MixedWords:
    """The round function of words that are too wide for a table, looking like one."""

    def __init__(self, bits: int) -> None:
        self._bits = bits

    def __getitem__(self, word: int) -> int:
        return _round_function(word, self._bits)  # type: ignore[no-any-return]


def _permutation(count: int, seed: int, rounds: int) -> npt.NDArray[np.uint16]:
    """The whole permutation of a small range; many are kept, as long as they are short."""
    return (_short_permutation if count < _SCALAR_TABLE else _long_permutation)(count, seed, rounds)


def _made_permutation(count: int, seed: int, rounds: int) -> npt.NDArray[np.uint16]:
    """Where each of `count` values lands when encrypted until it is below `count` again.

    Long walks are shortened twice: first every eighth value is a stop, then walks between stops double at each pass.
    """
    step = _whole_block(seed, rounds)
    stops, is_stop, place = _stops(count)
    ends = step[stops]
    walking = np.flatnonzero(~is_stop[ends])
    while walking.size:
        ends[walking] = moved = step[ends[walking]]
        walking = walking[~is_stop[moved]]
    hop = place[ends]
    values = hop[:count].copy()
    hop[:count] = np.arange(count)
    while (values >= count).any():
        values = hop[values]
        hop = hop[hop]
    return values.astype(np.uint16)


_short_permutation = lru_cache(maxsize=1 << 12)(_made_permutation)
_long_permutation = lru_cache(maxsize=1 << 6)(_made_permutation)


def _whole_block(seed: int, rounds: int) -> npt.NDArray[np.uint16]:
    """The encryption of all of the smallest block."""
    words = np.arange(256, dtype=np.uint8)
    left, right = words.repeat(256), np.tile(words, 256)
    for key_left, key_right in _keys(seed, rounds, 8):
        left ^= _round_function(right, 8)
        left ^= np.uint8(key_left)
        right ^= _round_function(left, 8)
        right ^= np.uint8(key_right)
    return left.astype(np.uint16) << np.uint16(8) | right


@lru_cache(maxsize=16)
def _stops(count: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """The stops for `count` values: as a list, as flags, and their places in the list."""
    values = np.arange(_WHOLE_BLOCK)
    is_stop = (values < count) | (values % 8 == 0)
    return np.flatnonzero(is_stop), is_stop, np.cumsum(is_stop) - 1
