"""Shared memory without names: nothing is left behind, whoever is killed.

A worker puts the arrays of one message in one *slab*. The consumer gets arrays that are views of it; when the last of
them is gone, the slab's number goes back and the worker uses it again.
"""

from __future__ import annotations

import itertools
import math
import mmap
import os
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import Collection, Sequence
from typing import Any, TypeAlias

import numpy as np

from grain.elements.stacking import Allocate
from grain.runtime.workers.channel import File

_ALIGNMENT = 64
_MOST_LEASES = 128

Bytes: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]
Part: TypeAlias = tuple[int, int, int]
"""Where a buffer is: the number of a slab, the offset there, and its size."""


def anonymous_file(size: int) -> File:
    """A file of `size` bytes that has no name; in memory only, where the system has such files."""
    try:
        if hasattr(os, "memfd_create"):
            file = File(os.memfd_create, "grain")
        else:
            with tempfile.TemporaryFile() as nameless:
                file = File(os.dup, nameless.fileno())
        os.truncate(file.fileno(), size)
    except OSError as error:
        error.add_note(
            f"Raised when {size:,} bytes of memory to share between processes were asked for, as a file without a name "
            "(memfd_create). See the limits on open files (ulimit -n), on their size (ulimit -f) and on memory, and "
            "whether a sandbox forbids the call; or use `num_workers=0`."
        )
        raise
    return file


def aligned(size: int) -> int:
    """`size`, rounded up to where the next buffer may begin."""
    return -(-size // _ALIGNMENT) * _ALIGNMENT


class Slab:
    """A piece of shared memory in the process that fills it."""

    def __init__(self, number: int, size: int) -> None:
        self.number, self.size = number, size
        self.file = anonymous_file(size)
        self._memory = mmap.mmap(self.file.fileno(), size)
        self._views: weakref.ref[Bytes] | None = None
        self._used = 0
        self.is_away = False

    @property
    def is_free(self) -> bool:
        """Whether neither this process nor the consumer looks at it."""
        return not self.is_away and (self._views is None or self._views() is None)

    def take(self) -> Allocate:
        """Begin to fill it: a function that makes arrays in it, of a shape and a dtype."""
        everything = np.frombuffer(self._memory, np.uint8)
        self._views, self._used = weakref.ref(everything), 0

        def allocate(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
            start, size = self._used, math.prod(shape) * dtype.itemsize
            if start + size > self.size or dtype.hasobject:
                return np.empty(shape, dtype)
            self._used = aligned(start + size)
            return np.ndarray(shape, dtype, everything, start)

        return allocate

    def place_of(self, buffer: Bytes) -> Part | None:
        """Where in this slab `buffer` is; None if it is elsewhere."""
        offset = _address(buffer) - _address(np.frombuffer(self._memory, np.uint8))
        return (self.number, offset, buffer.nbytes) if 0 <= offset <= self.size - buffer.nbytes else None


def _address(buffer: Bytes) -> int:
    return buffer.__array_interface__["data"][0]  # type: ignore[no-any-return]


class Shelf:
    """The slabs of a worker. Threads may ask for a place at the same time; only one puts and takes back."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._slabs: dict[int, Slab] = {}
        self._lock = threading.Lock()
        self._expected = 0

    def place(self) -> Allocate | None:
        """Makes arrays in a free slab, once it is known how large a message is; for the arrays of one message."""
        return self._taken(self._expected)[1] if self._expected else None

    def put(self, buffers: Sequence[Bytes]) -> list[Part]:
        """Put `buffers` in a slab, those that are not there already, and give it away."""
        self._expected = sum(aligned(buffer.nbytes) for buffer in buffers)
        parts = [self._place_of(buffer) for buffer in buffers]
        if None in parts:
            missing = sum(aligned(buffer.nbytes) for buffer, part in zip(buffers, parts, strict=True) if part is None)
            slab, allocate = self._taken(missing)
            for position, part in enumerate(parts):
                if part is None:
                    copy = allocate(buffers[position].shape, buffers[position].dtype)
                    copy[:] = buffers[position]
                    parts[position] = slab.place_of(copy)
        for part in parts:
            self._slabs[part[0]].is_away = True  # type: ignore[index]
        return parts  # type: ignore[return-value]

    def file(self, number: int) -> File:
        """The file of a slab, for the consumer."""
        return self._slabs[number].file

    def numbers(self) -> set[int]:
        """The slabs that there are."""
        return set(self._slabs)

    def take_back(self, numbers: Sequence[int]) -> None:
        """The consumer looks at these slabs no more."""
        for number in numbers:
            if number in self._slabs:
                self._slabs[number].is_away = False

    def _place_of(self, buffer: Bytes) -> Part | None:
        with self._lock:
            taken = [slab for slab in self._slabs.values() if not (slab.is_away or slab.is_free)]
        places = (slab.place_of(buffer) for slab in taken)
        return next((place for place in places if place is not None), None)

    def _taken(self, size: int) -> tuple[Slab, Allocate]:
        with self._lock:
            free = [slab for slab in self._slabs.values() if slab.is_free]
            fitting = [slab for slab in free if slab.size >= size]
            if not fitting:
                for slab in free:  # they have become too small: larger ones take their place
                    del self._slabs[slab.number]
                fitting = [Slab(next(self._numbers), _roomy(size))]
                self._slabs[fitting[0].number] = fitting[0]
            slab = min(fitting, key=lambda slab: slab.size)
            return slab, slab.take()


def _roomy(size: int) -> int:
    """`size` rounded up by at most an eighth, so that messages of about the same size fit the same slabs."""
    step = max(mmap.PAGESIZE, 1 << max(size.bit_length() - 4, 0))
    return -(-max(size, 1) // step) * step


class Views:
    """The slabs of a worker as the consumer sees them."""

    def __init__(self) -> None:
        self._maps: dict[int, mmap.mmap] = {}
        self._numbers: dict[int, int] = {}
        """Of the slabs that are being looked at, by lease."""
        self.returned: deque[int] = deque()
        """Numbers of slabs that nobody looks at any more."""
        _all_views.add(self)

    def add(self, number: int, file: File, kept: Collection[int]) -> None:
        """A new slab; of the others, the worker has only `kept`."""
        for gone in self._maps.keys() - kept:
            del self._maps[gone]
        self._maps[number] = mmap.mmap(file.fileno(), 0)

    def buffers(self, parts: Sequence[Part]) -> list[Any]:
        """The parts of one message: views, or copies where too many slabs are being looked at already."""
        numbers = {number for number, _, _ in parts}
        everything = {number: np.frombuffer(self._maps[number], np.uint8) for number in numbers}
        views = [everything[number].data[offset : offset + size] for number, offset, size in parts]
        if len(_leases) >= most_leases():
            self.returned += numbers
            return [bytearray(view) for view in views]
        for number, array in everything.items():
            self._lease(number, array)
        return views

    def _lease(self, number: int, array: Bytes) -> None:
        """Have the number go back when `array`, and all views of it, are gone."""
        lease, numbers, returned = next(_lease_numbers), self._numbers, self.returned
        numbers[lease] = number

        def give_back(_: Any) -> None:
            del _leases[lease]
            if numbers.pop(lease, None) is not None:
                returned.append(number)

        _leases[lease] = weakref.ref(array, give_back)

    def keep_leases(self) -> None:
        """A copy of this process looks at the same slabs from now on: they do not go back."""
        self._numbers.clear()


_all_views: weakref.WeakSet[Views] = weakref.WeakSet()
_leases: dict[int, weakref.ref[Bytes]] = {}
_lease_numbers = itertools.count()


def most_leases() -> int:
    """How many slabs may be looked at, of all workers together: each is an open file."""
    import resource

    return min(_MOST_LEASES, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4)


def _keep_all_leases() -> None:
    for views in list(_all_views):
        views.keep_leases()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_parent=_keep_all_leases)
