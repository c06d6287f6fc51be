"""Random generators for single elements: one stream for each seed and index, made in a fraction of a microsecond."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

_FULL_BUFFER = 4  # `buffer_pos` of a generator that has no drawn words left
_START = bytes(32)
_FRESH = struct.pack("=i4x4QiI", _FULL_BUFFER, 0, 0, 0, 0, 0, 0)
_WORD = 2**64 - 1
_Reset: TypeAlias = Callable[[int, int], None]


def derived_seed(entropy: Sequence[int]) -> int:
    """One 32-bit seed that stands for a sequence of them."""
    return int(np.random.SeedSequence(entropy).generate_state(1, dtype=np.uint32)[0])


class RngPool:
    """Generators by index: the same seed and index always give the same numbers.

    >>> RngPool(5).acquire_rng(3).integers(1000)
    np.int64(642)
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._free: list[tuple[np.random.Generator, _Reset]] = []

    def __reduce__(self) -> tuple[type[RngPool], tuple[int]]:
        return RngPool, (self._seed,)

    def acquire_rng(self, index: int, *, op_seed: int = 0) -> np.random.Generator:
        """A generator at the start of the stream of `index`, to be handed back with `release_rng`."""
        try:
            rng, reset = self._free.pop()
        except IndexError:
            rng, reset = self._make()
        reset(op_seed, index)
        return rng

    def release_rng(self, rng: np.random.Generator) -> None:
        """Hand back a generator for reuse."""
        philox = rng.bit_generator
        if not isinstance(philox, np.random.Philox):
            raise TypeError(f"release_rng takes a generator made by acquire_rng, got one of {type(philox).__name__}.")
        self._free.append((rng, _reset_of(philox)))

    def caller(self, function: Callable[[Any, np.random.Generator], Any]) -> Callable[[Any, int], Any]:
        """(element, index) -> `function(element, generator of index)`."""
        take, take_back, make = self._free.pop, self._free.append, self._make

        def call(element: Any, index: int) -> Any:
            try:
                lent = take()
            except IndexError:  # none left, or another thread was faster
                lent = make()
            rng, reset = lent
            reset(0, index)
            result = function(element, rng)
            take_back(lent)  # not after an error: the traceback may still show the generator
            return result

        return call

    def _make(self) -> tuple[np.random.Generator, _Reset]:
        philox = np.random.Philox(self._seed)
        return np.random.Generator(philox), _reset_of(philox)


def keyed_rng(key: int) -> np.random.Generator:
    """The generator of a DataLoader's record.

    >>> keyed_rng(5).integers(1000, size=3)
    array([206, 733,  52])
    """
    return np.random.Generator(np.random.Philox(key=key))


Lent: TypeAlias = "tuple[np.random.Generator, Callable[[int], None]]"
"""A generator, and what gives it another key."""


class KeyedRngPool:
    """Generators by key, as `keyed_rng` makes them; those handed back are used again, which is much faster."""

    def __init__(self) -> None:
        self._free: list[Lent] = []

    def __reduce__(self) -> tuple[type[KeyedRngPool], tuple[()]]:
        return KeyedRngPool, ()

    def acquire(self, key: int) -> Lent:
        """A generator at the start of the stream of `key`, to be handed back with `release`."""
        try:
            lent = self._free.pop()
        except IndexError:  # none left, or another thread was faster
            rng = keyed_rng(key)
            philox: Any = rng.bit_generator
            return rng, _memory_rekey(philox) if _memory_layout_is_known() else _state_rekey(philox)
        lent[1](key)
        return lent

    def release(self, lent: Lent) -> None:
        """Hand back a generator for reuse."""
        self._free.append(lent)


def _reset_of(philox: np.random.Philox) -> _Reset:
    """A function (op_seed, index) that puts `philox` at the start of a stream."""
    return _memory_reset(philox) if _memory_layout_is_known() else _state_reset(philox)


def _state_reset(philox: np.random.Philox) -> _Reset:
    state: dict[str, Any] = dict(philox.state)
    counter = np.zeros(4, np.uint64)
    state["state"] = {"counter": counter, "key": state["state"]["key"]}
    state.update(buffer=np.zeros(4, np.uint64), buffer_pos=_FULL_BUFFER, has_uint32=0, uinteger=0)

    def reset(op_seed: int, index: int) -> None:
        counter[2], counter[3] = op_seed, index
        philox.state = state  # type: ignore[assignment]

    return reset


def _memory_reset(philox: np.random.Philox) -> _Reset:
    """As `_state_reset`, but written straight into the generator's memory: setting `state` takes 1.3 us an element."""
    counter, _, rest = _memory_of(philox)
    pack_into = struct.Struct("=4Q").pack_into

    def reset(op_seed: int, index: int) -> None:
        try:
            pack_into(counter, 0, 0, 0, op_seed, index)
        except struct.error:
            raise OverflowError(f"random numbers need an index in [0, 2**64), got {index}") from None
        rest[:] = _FRESH

    return reset


def _state_rekey(philox: np.random.Philox) -> Callable[[int], None]:
    def rekey(key: int) -> None:
        philox.state = np.random.Philox(key=key).state

    return rekey


def _memory_rekey(philox: np.random.Philox) -> Callable[[int], None]:
    """As `_state_rekey`, for `philox` alone, in a fiftieth of the time."""
    counter, words, rest = _memory_of(philox)
    pack_into = struct.Struct("=2Q").pack_into

    def rekey(key: int) -> None:
        pack_into(words, 0, key & _WORD, key >> 64)
        counter[:] = _START
        rest[:] = _FRESH

    return rekey


def _memory_of(philox: np.random.Philox) -> tuple[memoryview, memoryview, memoryview]:
    """The counter, the key, and the rest of a generator's memory, which lives as long as `philox`: keep it too.

    NumPy's `philox_state`: pointers to counter and key, int buffer_pos, uint64 buffer[4], int has_uint32,
    uint32 uinteger.
    """
    address = philox.ctypes.state_address
    places = [
        (ctypes.c_uint64.from_address(address).value, 32),
        (ctypes.c_uint64.from_address(address + 8).value, 16),
        (address + 16, len(_FRESH)),
    ]
    counter, key, rest = (memoryview((ctypes.c_char * size).from_address(place)).cast("B") for place, size in places)
    return counter, key, rest


_layout_known: bool | None = None


def _memory_layout_is_known() -> bool:
    """Whether this NumPy keeps Philox as `_memory_reset` expects, found out once by trying."""
    global _layout_known
    if _layout_known is None:  # two threads may both find out, and find the same
        _layout_known = _try_memory_layout()
    return _layout_known


def _try_memory_layout() -> bool:
    philox, other = np.random.Philox(1), np.random.Philox(1)
    address = philox.ctypes.state_address
    pointers = [ctypes.c_uint64.from_address(address + offset).value for offset in (0, 8)]
    if ctypes.sizeof(ctypes.c_void_p) != 8 or any(abs(pointer - address) > 4096 or pointer % 8 for pointer in pointers):
        return False
    for generator in (np.random.Generator(philox), np.random.Generator(other)):
        generator.integers(0, 5, size=3, dtype=np.uint32)
    _memory_reset(philox)(7, 2**40 + 3)
    _state_reset(other)(7, 2**40 + 3)
    if _plain(philox.state) != _plain(other.state):
        return False
    _memory_rekey(philox)(2**70 + 5)
    return bool(_plain(philox.state) == _plain(np.random.Philox(key=2**70 + 5).state))


def _plain(state: Any) -> Any:
    if isinstance(state, dict):
        return {key: _plain(value) for key, value in state.items()}
    return state.tolist() if isinstance(state, np.ndarray) else state
