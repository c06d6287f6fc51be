"""The workloads written against the Grain API: our package and Google's run these same lines."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from material import (
    BOUNDARIES,
    DOCUMENTS_BATCH,
    IMAGES_BATCH,
    JPEGS_BATCH,
    KILOBYTES_BATCH,
    MAPS_BATCH,
    MAPS_LENGTH,
    PACKED_LENGTH,
    PACKING_BINS,
    PHOTOS_BATCH,
    RECORDS_BATCH,
    ROWS_BATCH,
    SEED,
    Blocking,
    Photos,
    Small,
    array_of,
    as_record,
    columns_of_numbers,
    decode_and_crop,
    documents,
    double,
    increment,
    jpegs,
    json_lines,
    kilobytes,
    labelled_images,
    records,
    rows_file,
    to_float,
    tokens_in,
    webdataset_shard,
    with_square,
)

import grain

try:  # Google's Grain reads absl flags, which nobody has parsed here.
    from absl import flags
except ImportError:
    pass
else:
    flags.FLAGS.mark_as_parsed()

RO = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
TWO_WORKERS = grain.MultiprocessingOptions(num_workers=2, per_worker_buffer_size=1)


def shuffle() -> Iterable[int]:
    return grain.MapDataset.range(10_000_000).shuffle(seed=SEED).to_iter_dataset(RO)


def _maps() -> Any:
    return grain.MapDataset.range(MAPS_LENGTH).shuffle(seed=SEED).map(increment).map(double).map(as_record)


def maps_batch() -> Iterable[Any]:
    return _maps().batch(MAPS_BATCH).to_iter_dataset(RO)


def maps_iter_batch() -> Iterable[Any]:
    return _maps().to_iter_dataset(RO).batch(MAPS_BATCH)


def images() -> Iterable[Any]:
    source = grain.MapDataset.source(labelled_images())
    return source.shuffle(seed=SEED).map(to_float).batch(IMAGES_BATCH).to_iter_dataset(RO)


def array(rows: str) -> Iterable[Any]:
    return grain.MapDataset.source(array_of(rows)).shuffle(seed=SEED).batch(64).to_iter_dataset(RO)


def columns() -> Iterable[Any]:
    return _shuffled_rows(grain.NumpyDataSource(columns_of_numbers()))


def parquet() -> Iterable[Any]:
    return _shuffled_rows(grain.ParquetDataSource(rows_file("parquet")))


def arrow() -> Iterable[Any]:
    return _shuffled_rows(grain.ArrowDataSource(rows_file("arrow")))


def _shuffled_rows(source: Any) -> Iterable[Any]:
    return grain.MapDataset.source(source).shuffle(seed=SEED).batch(ROWS_BATCH).to_iter_dataset(RO)


def _add_integer(x: int, rng: np.random.Generator) -> int:
    return x + int(rng.integers(0, 100))


def _add_fraction(x: int, rng: np.random.Generator) -> float:
    return x + rng.random()


def random_map(draw: str) -> Iterable[Any]:
    transform = _add_integer if draw == "integers" else _add_fraction
    return grain.MapDataset.range(10_000_000).random_map(transform, seed=SEED).to_iter_dataset(RO)


def _mixture(count: int) -> Any:
    parts = [grain.MapDataset.range(100_000).shuffle(seed=i) for i in range(count)]
    return grain.MapDataset.mix(parts)


def mixture(count: int) -> Iterable[int]:
    return _mixture(count).to_iter_dataset(RO)


def keep_one_in_ten() -> Iterable[int]:
    return grain.MapDataset.range(100_000_000).filter(lambda x: x % 10 == 0).to_iter_dataset(RO)


def _concatenation(kind: str, count: int) -> Any:
    size = 2_000
    if kind == "range":
        parts = [grain.MapDataset.range(i * size, (i + 1) * size) for i in range(count)]
    else:
        parts = [grain.MapDataset.source(list(range(i * size, (i + 1) * size))) for i in range(count)]
    return grain.MapDataset.concatenate(parts)


def concatenate(kind: str, count: int) -> Iterable[int]:
    return _concatenation(kind, count).shuffle(seed=SEED).to_iter_dataset(RO)


def window_shuffle() -> Iterable[int]:
    stream = grain.MapDataset.range(10_000_000).to_iter_dataset(RO)
    return grain.experimental.WindowShuffleIterDataset(stream, window_size=1_000, seed=SEED)


def save_and_restore() -> Iterator[int]:
    """Each step saves the state, goes back to the one saved a step ago, and takes an element from there."""
    iterator = iter(grain.MapDataset.range(10_000_000).shuffle(seed=SEED).map(increment).to_iter_dataset(RO))
    earlier = iterator.get_state()
    while True:
        state = iterator.get_state()
        iterator.set_state(earlier)
        yield next(iterator)
        earlier = state


CHAINS: dict[str, Callable[[], Any]] = {
    "shuffle_map": lambda: grain.MapDataset.range(1_000_000).shuffle(seed=SEED).map(increment),
    "mixture": lambda: _mixture(20).shuffle(seed=SEED).map(increment).random_map(_add_integer, seed=SEED),
    "small_windows": lambda: grain.experimental.WindowShuffleMapDataset(
        grain.MapDataset.range(1_000_000), window_size=10, seed=SEED
    ),
    "small_shuffles": lambda: grain.MapDataset.range(10).shuffle(seed=SEED).repeat(100_000),
    "slice_repeat": lambda: _concatenation("range", 100).repeat(3).slice(slice(5, None, 7)),
    "batch": lambda: _maps().batch(32),
}


def getitem(chain: str) -> Iterator[Any]:
    """`ds[i]` at random places."""
    dataset = CHAINS[chain]()
    places = random.Random(SEED).choices(range(len(dataset)), k=100_000)
    return (dataset[i] for i in itertools.cycle(places))


def build_many(kind: str) -> float:
    """Seconds from nothing to the first element of 10,000 datasets."""
    start = time.perf_counter()
    dataset = _mixture(10_000) if kind == "mixture" else _concatenation("range", 10_000)
    next(iter(dataset.to_iter_dataset(RO)))
    return time.perf_counter() - start


def start_python(module: str) -> Iterator[None]:
    """Each step is a Python that only imports the module."""
    while True:
        subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
        yield


def _peak_mb() -> float:
    import resource  # Not on Windows.

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def memory_growth() -> float:
    """Growth of the peak resident memory, in MB, over 200,000 elements of a shuffle of 10**12 indices."""
    before = _peak_mb()
    for _ in itertools.islice(grain.MapDataset.range(10**12).shuffle(seed=SEED).to_iter_dataset(RO), 200_000):
        pass
    return _peak_mb() - before


def defaults_batch() -> Iterable[Any]:
    return grain.MapDataset.source(records(100_000)).shuffle(seed=SEED).to_iter_dataset().batch(RECORDS_BATCH)


def handover() -> Iterable[Any]:
    return grain.MapDataset.source(Photos()).to_iter_dataset(RO).batch(PHOTOS_BATCH).mp_prefetch(TWO_WORKERS)


def small_elements_mp() -> Iterable[Any]:
    return grain.MapDataset.source(Small()).to_iter_dataset(RO).mp_prefetch(TWO_WORKERS)


def first_batch() -> Iterable[Any]:
    source = grain.MapDataset.source(records(1_000))
    return source.shuffle(seed=SEED).to_iter_dataset(RO).batch(RECORDS_BATCH).mp_prefetch(TWO_WORKERS)


def array_record(num_threads: int) -> Iterable[Any]:
    options = RO if num_threads == 0 else grain.ReadOptions(num_threads=num_threads)
    source = grain.sources.ArrayRecordDataSource(kilobytes())
    return grain.MapDataset.source(source).shuffle(seed=SEED).batch(KILOBYTES_BATCH).to_iter_dataset(options)


def jpeg(num_threads: int) -> Iterable[Any]:
    pictures = grain.MapDataset.source(jpegs()).repeat().map(decode_and_crop)
    return pictures.to_iter_dataset(grain.ReadOptions(num_threads=num_threads)).batch(JPEGS_BATCH)


class _WithSquare(grain.transforms.Map):
    def map(self, element: dict[str, int]) -> dict[str, int]:
        return with_square(element)


class _WithNoise(grain.transforms.RandomMap):
    def random_map(self, element: dict[str, int], rng: np.random.Generator) -> dict[str, Any]:
        return {**element, "noise": rng.random()}


def _loader(operation: Any, worker_count: int) -> Iterable[Any]:
    source = records(100_000)
    return grain.DataLoader(
        data_source=source,
        sampler=grain.samplers.IndexSampler(len(source), shuffle=True, seed=SEED),
        operations=[operation, grain.transforms.Batch(RECORDS_BATCH)],
        worker_count=worker_count,
        read_options=RO,
    )


def loader(worker_count: int) -> Iterable[Any]:
    return _loader(_WithSquare(), worker_count)


def loader_random() -> Iterable[Any]:
    return _loader(_WithNoise(), 0)


def padded_batch() -> Iterable[Any]:
    return grain.MapDataset.source(documents()).to_iter_dataset(RO).padded_batch(DOCUMENTS_BATCH, drop_remainder=True)


def bucket_by_length() -> Iterable[Any]:
    sizes = [DOCUMENTS_BATCH] * len(BOUNDARIES)
    stream = grain.MapDataset.source(documents()).to_iter_dataset(RO)
    return stream.bucket_by_length(BOUNDARIES, sizes, length_fn=tokens_in, drop_remainder=True)


def blocking() -> Iterable[Any]:
    return grain.MapDataset.source(Blocking()).to_iter_dataset()


def shard(file_bytes: int) -> Iterable[Any]:
    return grain.experimental.WebDatasetIterDataset(webdataset_shard(file_bytes))


def open_lines(count: int) -> float:
    """Milliseconds to open a file whose lines were found before, and to read its last one; the best of 20."""
    path = json_lines(count)

    def once() -> float:
        start = time.perf_counter()
        grain.sources.JsonLinesDataSource(path)[-1]
        return time.perf_counter() - start

    once()
    return min(once() for _ in range(20)) * 1e3


def packing(kind: str) -> Iterable[Any]:
    """Packed rows of documents in memory."""
    stream = grain.MapDataset.source(documents()).to_iter_dataset(RO)
    lengths = {"tokens": PACKED_LENGTH}
    if kind == "split":
        return grain.experimental.ConcatThenSplitIterDataset(stream, length_struct=lengths)
    pack = {
        "first": grain.experimental.FirstFitPackIterDataset,
        "best": grain.experimental.BestFitPackIterDataset,
    }[kind]
    return pack(stream, length_struct=lengths, num_packing_bins=PACKING_BINS)
