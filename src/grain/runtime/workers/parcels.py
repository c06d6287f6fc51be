"""Pipelines on their way to workers: pickled once, in memory that all of them share."""

from __future__ import annotations

import itertools
import mmap
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np

from grain.runtime.workers.channel import File
from grain.runtime.workers.pickling import pickled_by_value, unpacked
from grain.runtime.workers.slabs import aligned, anonymous_file

_numbers = itertools.count()


def pickled_pieces(value: Any) -> list[memoryview]:
    """The pieces of a parcel: a pickle, and the bytes of arrays."""
    buffers: list[pickle.PickleBuffer] = []
    body = pickled_by_value(value, buffers.append)
    return [memoryview(body), *(buffer.raw() for buffer in buffers)]


class Parcel:
    """A pickled value. Arrays in it are not copied by those who open it, unless they write to them."""

    def __init__(self, pieces: Sequence[memoryview]) -> None:
        self.number = next(_numbers)
        self.sizes = [piece.nbytes for piece in pieces]
        total = sum(map(aligned, self.sizes))
        self.file = anonymous_file(total)
        memory = np.frombuffer(mmap.mmap(self.file.fileno(), total), np.uint8)
        start = 0
        for piece in pieces:
            memory[start : start + piece.nbytes] = np.frombuffer(piece, np.uint8)
            start += aligned(piece.nbytes)


def opened(file: File, sizes: list[int]) -> Any:
    """The value of a parcel, in another process."""
    memory = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    pieces, start = [], 0
    for size in sizes:
        pieces.append(memoryview(memory)[start : start + size])
        start += aligned(size)
    return unpacked(pieces[0], pieces[1:])
