"""Damage to the bytes of a file, of any format.

A mutation takes a generator of random numbers, the bytes, and those of another sound file of the format.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from random import Random

EXTREMES = (
    0,
    1,
    -1,
    127,
    128,
    255,
    256,
    2**15,
    2**16 - 1,
    2**24,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**62,
    2**63 - 1,
    -(2**63),
)
"""Numbers that lengths, offsets and counts are set to."""
_BLOCKS = (1, 4, 8, 16, 64, 512, 4096)
_NUMBERS = ("<h", ">h", "<i", ">i", "<q", ">q", "<i", "<q")


def place(rng: Random, data: bytes) -> int:
    """Where to damage: anywhere, near the ends where formats have their headers, or at a byte that is not padding."""
    if not data:
        return 0
    kind = rng.randrange(4)
    if kind == 0:
        return min(int(rng.expovariate(1 / 32)), len(data) - 1)
    if kind == 1:
        return max(len(data) - 1 - int(rng.expovariate(1 / 64)), 0)
    found = rng.randrange(len(data))
    if kind == 2 and not data[found]:
        found += len(data[found:]) - len(data[found:].lstrip(b"\0"))
    return min(found, len(data) - 1)


def replaced(data: bytes, start: int, piece: bytes) -> bytes:
    """`data` with the bytes from `start` on overwritten by `piece`; no longer than before."""
    return (data[:start] + piece + data[start + len(piece) :])[: len(data)]


def _flipped(rng: Random, data: bytes, other: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        changed[place(rng, data)] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _byte(rng: Random, data: bytes, other: bytes) -> bytes:
    return replaced(data, place(rng, data), bytes([rng.choice((0, 255, 10, 13, 32, 34, 44, rng.randrange(256)))]))


def _number(rng: Random, data: bytes, other: bytes) -> bytes:
    kind = rng.choice(_NUMBERS)
    size = struct.calcsize(kind)
    value = rng.choice(EXTREMES) % (1 << 8 * size)
    start = place(rng, data)
    start -= start % size if rng.random() < 0.7 else 0
    return replaced(data, start, value.to_bytes(size, "big" if kind[0] == ">" else "little"))


def _nudged(rng: Random, data: bytes, other: bytes) -> bytes:
    """A number a little different: an offset that leads to the neighbour, a count of one more."""
    size, start = rng.choice((1, 2, 4, 8)), place(rng, data)
    start = min(start - start % size, max(len(data) - size, 0))
    value = int.from_bytes(data[start : start + size], "little") + rng.choice((-8, -4, -1, 1, 2, 4, 8, 64))
    return replaced(data, start, (value % (1 << 8 * size)).to_bytes(size, "little"))


def _zeroed(rng: Random, data: bytes, other: bytes) -> bytes:
    size, start = rng.choice(_BLOCKS), place(rng, data)
    return replaced(data, start - start % size, bytes(size))


def _noise(rng: Random, data: bytes, other: bytes) -> bytes:
    return replaced(data, place(rng, data), rng.randbytes(rng.choice(_BLOCKS)))


def _truncated(rng: Random, data: bytes, other: bytes) -> bytes:
    return data[: place(rng, data)]


def _removed(rng: Random, data: bytes, other: bytes) -> bytes:
    start = place(rng, data)
    return data[:start] + data[start + rng.choice(_BLOCKS) :]


def _inserted(rng: Random, data: bytes, other: bytes) -> bytes:
    start, size = place(rng, data), rng.choice(_BLOCKS)
    piece = rng.choice((bytes(size), rng.randbytes(size), data[start : start + size]))
    return data[:start] + piece + data[start:]


def _swapped(rng: Random, data: bytes, other: bytes) -> bytes:
    size = rng.choice(_BLOCKS)
    one, two = sorted((place(rng, data) // size * size, place(rng, data) // size * size))
    if two < one + size:
        return data
    return data[:one] + data[two : two + size] + data[one + size : two] + data[one : one + size] + data[two + size :]


def _copied(rng: Random, data: bytes, other: bytes) -> bytes:
    size = rng.choice(_BLOCKS)
    start = place(rng, data) // size * size
    return replaced(data, place(rng, data) // size * size, data[start : start + size])


def _joined(rng: Random, data: bytes, other: bytes) -> bytes:
    """Two files in one: both, the beginning of one with the end of the other, or one within the other."""
    kind = rng.randrange(3)
    if kind == 0:
        return data + other
    if kind == 1:
        return data[: place(rng, data)] + other[place(rng, other) :]
    start = place(rng, data)
    return data[:start] + other + data[start:]


def _intact(rng: Random, data: bytes, other: bytes) -> bytes:
    return data


Mutation = Callable[[Random, bytes, bytes], bytes]

IN_PLACE: dict[str, Mutation] = {
    "intact": _intact,
    "flipped": _flipped,
    "byte": _byte,
    "number": _number,
    "nudged": _nudged,
    "zeroed": _zeroed,
    "noise": _noise,
}
"""Those that leave all other bytes where they are."""

MOVING: dict[str, Mutation] = {
    "truncated": _truncated,
    "removed": _removed,
    "inserted": _inserted,
    "swapped": _swapped,
    "copied": _copied,
    "joined": _joined,
}
"""Those after which sound parts may be elsewhere, missing, or there twice."""

MUTATIONS = {**IN_PLACE, **MOVING}
