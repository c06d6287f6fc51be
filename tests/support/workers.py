"""What tests of worker processes need."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np

from grain import MapDataset, MultiprocessingOptions, ReadOptions

INLINE = ReadOptions(num_threads=0, prefetch_buffer_size=0)


def workers(count, buffer_size=1):
    return MultiprocessingOptions(num_workers=count, per_worker_buffer_size=buffer_size)


def stream(function, length=8):
    return MapDataset.range(length).map(function).to_iter_dataset(INLINE)


def images(length=40):
    return stream(lambda x: {"image": np.full((64, 64, 3), x % 256, np.uint8), "label": x}, length)


def wait_for(condition):
    pause = threading.Event()
    for _ in range(2000):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("It did not happen within twenty seconds.")


def is_shared(array):
    """Whether the bytes of `array` are in nameless shared memory."""
    address = array.__array_interface__["data"][0]
    for line in Path("/proc/self/maps").read_text(errors="replace").splitlines():
        first, last = (int(bound, 16) for bound in line.split()[0].split("-"))
        if first <= address < last:
            return "memfd:grain" in line
    raise AssertionError(f"{address:x} is nowhere")


def shared_maps():
    """How many pieces of shared memory this process sees."""
    return Path("/proc/self/maps").read_text(errors="replace").count("memfd:grain")
