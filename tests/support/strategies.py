"""Random pipelines for hypothesis, each with its model."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from hypothesis import strategies as st

from grain import IterDataset, MapDataset, ReadOptions
from grain.experimental import DatasetOptions
from support import models
from support.user_code import Doubled, RunningSum, UpToThree, add_noise, add_one, is_even

SEEDS = st.sampled_from([0, 1, 42, 2**32 - 1])
SIZES = st.integers(1, 5)
WEIGHTS = st.sampled_from([None, [1, 2], [0.3, 0.7], [7, 11], [0.9, 0.05]])
READ_OPTIONS = st.sampled_from([None, ReadOptions(0, 0), ReadOptions(1, 2)])
LONGEST = 40
BATCHED = {"numbers": "batches", "tuples": "columns"}


@dataclasses.dataclass(frozen=True)
class Drawn:
    """A pipeline, how it is written, its model, and what it holds: numbers, numbers with gaps, batches and so on."""

    text: str
    dataset: Any
    model: Any
    holds: str = "numbers"

    def __repr__(self) -> str:
        return self.text

    def then(self, text: str, dataset: Any, model: Any, holds: str | None = None) -> Drawn:
        return Drawn(f"{self.text}.{text}", dataset, model, holds or self.holds)


def add_index(index, x):
    return x + index


def last_digit(x):
    return int(x % 10)


def noisy(seed):
    """`add_noise` as the model applies it."""
    return lambda index, x: add_noise(x, models.generator(seed, index))


def seed_for(draw, model):
    """A seed to pass, or None for the pipeline's; and the seed that is meant."""
    given = None if model.seeds and draw(st.booleans()) else draw(SEEDS)
    return given, models.default_seed(models.farther(model)) if given is None else given


# ---------------------------------------------------------------- random access


def seed(draw, it):
    value = draw(st.integers(0, 2**40))
    return it.then(f"seed({value})", it.dataset.seed(value), models.seeded(it.model, value))


def shuffle(draw, it):
    given, meant = seed_for(draw, it.model)
    return it.then(f"shuffle({given})", it.dataset.shuffle(given), models.shuffled(it.model, meant))


def window_shuffle(draw, it):
    size, number = draw(SIZES), draw(SEEDS)
    model = models.window_shuffled(it.model, size, number)
    return it.then(f"window_shuffle({size}, seed={number})", it.dataset.window_shuffle(size, seed=number), model)


def cut(draw, it):
    length = it.model.length
    start, step = draw(st.integers(0, length - 1)), draw(st.sampled_from([1, 2, 3, -1, -2]))
    taken = slice(start, None, step)
    return it.then(f"slice({taken})", it.dataset[taken], models.reindexed(it.model, range(length)[taken]))


def reindex(draw, it):
    indices = draw(st.lists(st.integers(0, 2 * it.model.length), min_size=1, max_size=6))
    model = models.reindexed(it.model, indices)
    if it.holds not in ("numbers", "gaps") or draw(st.booleans()):
        return it.then(f"slice({indices})", it.dataset.slice(indices), model)
    dataset = it.dataset.slice(np.array(indices)).map(int)  # whether NumPy's ints stay NumPy's is left open
    return it.then(f"slice(np.array({indices})).map(int)", dataset, models.mapped(model, lambda _, x: int(x)))


def repeat(draw, it):
    epochs, reseed = draw(st.integers(1, 3)), draw(st.booleans())
    dataset = it.dataset.repeat(epochs, reseed_each_epoch=reseed)
    return it.then(f"repeat({epochs}, reseed_each_epoch={reseed})", dataset, models.repeated(it.model, epochs, reseed))


def map_(draw, it):
    return it.then("map(add_one)", it.dataset.map(add_one), models.mapped(it.model, lambda _, x: x + 1))


def map_with_index(draw, it):
    dataset = it.dataset.map_with_index(add_index)
    return it.then("map_with_index(add_index)", dataset, models.mapped(it.model, add_index))


def random_map(draw, it):
    given, meant = seed_for(draw, it.model)
    dataset = it.dataset.random_map(add_noise, seed=given)
    return it.then(f"random_map(add_noise, seed={given})", dataset, models.mapped(it.model, noisy(meant)))


def filter_(draw, it):
    model = models.mapped(it.model, lambda _, x: x if is_even(x) else None)
    return it.then("filter(is_even)", it.dataset.filter(is_even), model, "gaps")


def flat_map(draw, it):
    model = models.flattened(it.model, UpToThree().flat_map, 3)
    return it.then("flat_map(UpToThree())", it.dataset.flat_map(UpToThree()), model, "gaps")


def batch(draw, it):
    size, drop = draw(SIZES), draw(st.booleans())
    drop = drop and it.model.length >= size
    dataset = it.dataset.batch(size, drop_remainder=drop)
    return it.then(
        f"batch({size}, drop_remainder={drop})", dataset, models.batched(it.model, size, drop), BATCHED[it.holds]
    )


def mix(draw, it):
    other, weights = draw(map_pipelines(1)), draw(WEIGHTS)
    dataset = MapDataset.mix([it.dataset, other.dataset], weights)
    model = models.mixed([it.model, other.model], weights)
    return Drawn(f"mix([{it}, {other}], {weights})", dataset, model, both(it, other)) if model.length else it


def concatenate(draw, it):
    other = draw(map_pipelines(1))
    dataset = MapDataset.concatenate([it.dataset, other.dataset])
    return Drawn(
        f"concatenate([{it}, {other}])", dataset, models.concatenated([it.model, other.model]), both(it, other)
    )


def zip_(draw, it):
    other = shuffle(draw, it)
    dataset = MapDataset.zip([it.dataset, other.dataset])
    return Drawn(f"zip([{it}, {other}])", dataset, models.zipped([it.model, other.model]), "tuples")


def custom(draw, it):
    return Drawn(f"Doubled({it})", Doubled(it.dataset), models.mapped(it.model, lambda _, x: x * 2))


def both(first, second):
    return "gaps" if "gaps" in (first.holds, second.holds) else "numbers"


ANYTHING = [seed, shuffle, window_shuffle, cut, reindex, repeat]
SINGLE = [map_, map_with_index, random_map, filter_, flat_map, mix, concatenate]
MAP_OPERATORS = {
    "numbers": [*ANYTHING, *SINGLE, batch, zip_, custom],
    "gaps": [*ANYTHING, *SINGLE],
    "batches": ANYTHING,
    "columns": ANYTHING,
    "tuples": [*ANYTHING, batch],
}


@st.composite
def map_pipelines(draw, most=4):
    """Pipelines of random access; with most=1 they hold numbers, perhaps with gaps."""
    length = draw(st.integers(1, 12))
    text, records = draw(
        st.sampled_from([("range", range), ("list", lambda n: [3 * i for i in range(n)]), ("array", np.arange)])
    )
    dataset = MapDataset.range(length) if records is range else MapDataset.source(records(length))
    it = Drawn(f"{text}({length})", dataset, models.source(records(length)))
    for _ in range(draw(st.integers(0, most))):
        before, it = it, draw(st.sampled_from(MAP_OPERATORS[it.holds]))(draw, it)
        if most == 1 and it.holds not in ("numbers", "gaps"):
            it = before
        if it.model.length > LONGEST:
            kept = slice(LONGEST // 2)
            it = it.then("slice[:20]", it.dataset[kept], models.reindexed(it.model, range(it.model.length)[kept]))
    return it


# ---------------------------------------------------------------- streams


def unchanged(text, method):
    """An operator that leaves elements alone."""
    return lambda draw, it: it.then(text, method(it.dataset), models.with_elements(it.model, it.model.elements))


def iter_map(draw, it):
    return it.then("map(add_one)", it.dataset.map(add_one), models.iter_mapped(it.model, lambda _, x: x + 1))


def iter_map_with_index(draw, it):
    dataset = it.dataset.map_with_index(add_index)
    return it.then("map_with_index(add_index)", dataset, models.iter_mapped(it.model, add_index))


def iter_random_map(draw, it):
    given, meant = seed_for(draw, it.model)
    dataset = it.dataset.random_map(add_noise, seed=given)
    return it.then(f"random_map(add_noise, seed={given})", dataset, models.iter_mapped(it.model, noisy(meant)))


def iter_filter(draw, it):
    model = models.with_elements(it.model, [x for x in it.model.elements if is_even(x)])
    return it.then("filter(is_even)", it.dataset.filter(is_even), model)


def iter_flat_map(draw, it):
    model = models.with_elements(it.model, [x for element in it.model.elements for x in [element] * (element % 4)])
    return it.then("flat_map(UpToThree())", it.dataset.flat_map(UpToThree()), model)


def iter_batch(draw, it):
    size, drop = draw(SIZES), draw(st.booleans())
    batches = [models.stacked(values) for values in models.chunks(it.model.elements, size, drop)]
    dataset = it.dataset.batch(size, drop_remainder=drop)
    return it.then(f"batch({size}, {drop})", dataset, models.with_elements(it.model, batches), BATCHED[it.holds])


def iter_rebatch(draw, it):
    size, drop = draw(SIZES), draw(st.booleans())
    dataset = it.dataset.rebatch(size, drop_remainder=drop)
    return it.then(f"rebatch({size}, {drop})", dataset, models.iter_rebatched(it.model, size, drop))


def iter_bucket(draw, it):
    sizes, wait, drop = [draw(SIZES), draw(SIZES)], draw(st.integers(1, 12)), draw(st.booleans())
    groups = models.in_buckets(it.model.elements, last_digit, [4], sizes, wait, drop)
    dataset = it.dataset.bucket_by_length([4], sizes, length_fn=last_digit, max_wait=wait, drop_remainder=drop)
    model = models.with_elements(it.model, [models.stacked(values) for values in groups])
    return it.then(f"bucket_by_length([4], {sizes}, {wait}, {drop})", dataset, model, BATCHED[it.holds])


def iter_cost_batch(draw, it):
    limit = draw(st.integers(9, 30))
    groups = models.by_cost(it.model.elements, last_digit, limit)
    model = models.with_elements(it.model, [models.stacked(values) for values in groups])
    return it.then(f"batch_by_cost({limit})", it.dataset.batch_by_cost(limit, last_digit), model, BATCHED[it.holds])


def iter_unbatch(draw, it):
    model = models.with_elements(it.model, [int(row) for batch in it.model.elements for row in batch])
    return it.then("unbatch().map(int)", it.dataset.unbatch().map(int), model, "numbers")


def iter_limit(draw, it):
    count = draw(st.integers(1, 20))
    return it.then(
        f"limit({count})", it.dataset.limit(count), models.with_elements(it.model, it.model.elements[:count])
    )


def iter_repeat(draw, it):
    epochs = draw(st.integers(1, 3))
    return it.then(
        f"repeat({epochs})", it.dataset.repeat(epochs), models.with_elements(it.model, it.model.elements * epochs)
    )


def iter_window_shuffle(draw, it):
    size, number = draw(SIZES), draw(SEEDS)
    model = models.iter_window_shuffled(it.model, size, number)
    return it.then(f"window_shuffle({size}, seed={number})", it.dataset.window_shuffle(size, seed=number), model)


def iter_mix(draw, it):
    other, weights, named = draw(iter_pipelines(1)), draw(WEIGHTS), draw(st.booleans())
    parts, wanted = [it.dataset, other.dataset], weights
    if named:
        parts = {"b": other.dataset, "a": it.dataset}
        wanted = weights and {"b": weights[1], "a": weights[0]}
    model = models.iter_mixed([it.model, other.model], weights)
    return Drawn(f"mix([{it}, {other}], {weights}, {named=})", IterDataset.mix(parts, wanted), model)


def iter_zip(draw, it):
    other = draw(iter_pipelines(1))
    pairs = list(zip(it.model.elements, other.model.elements, strict=False))
    dataset = IterDataset.zip([it.dataset, other.dataset], strict=False)
    return Drawn(
        f"zip([{it}, {other}])", dataset, models.IterModel(pairs, models.farther(it.model, other.model)), "tuples"
    )


def interleave(draw, it):
    others, cycle = draw(st.lists(iter_pipelines(1), max_size=3)), draw(st.integers(1, 4))
    parts = [it, *others]
    dataset = IterDataset.interleave([part.dataset for part in parts], cycle_length=cycle)
    return Drawn(f"interleave({parts}, {cycle})", dataset, models.interleaved([part.model for part in parts], cycle))


def iter_custom(draw, it):
    model = models.with_elements(it.model, np.cumsum(it.model.elements, dtype=int).tolist())
    return Drawn(f"RunningSum({it})", RunningSum(it.dataset.map(int)), dataclasses.replace(model, seeds=()))


STREAM_ANYTHING = [
    seed,
    iter_limit,
    iter_repeat,
    iter_window_shuffle,
    unchanged("cache()", lambda dataset: dataset.cache()),
    unchanged("thread_prefetch(2)", lambda dataset: dataset.thread_prefetch(2)),
    unchanged("with_options(...)", lambda dataset: dataset.with_options(DatasetOptions(min_shm_size=1))),
]
STREAM_SINGLE = [iter_map, iter_map_with_index, iter_random_map]
ITER_OPERATORS = {
    "numbers": [
        *STREAM_ANYTHING,
        *STREAM_SINGLE,
        *(iter_filter, iter_flat_map, iter_batch, iter_mix, iter_zip, interleave, iter_custom),
        *(iter_bucket, iter_cost_batch),
    ],
    "gaps": [*STREAM_ANYTHING, *STREAM_SINGLE],
    "batches": [*STREAM_ANYTHING, iter_rebatch, iter_unbatch],
    "columns": STREAM_ANYTHING,
    "tuples": [*STREAM_ANYTHING, iter_batch],
}


@st.composite
def iter_pipelines(draw, most=5):
    """Pipelines of streams; with most=1 they hold numbers."""
    below, allow_nones = draw(map_pipelines(1 if most == 1 else 3)), most > 1 and draw(st.booleans())
    allow_nones = allow_nones and below.holds == "gaps"
    dataset = below.dataset.to_iter_dataset(draw(READ_OPTIONS), allow_nones=allow_nones)
    holds = "numbers" if below.holds == "gaps" and not allow_nones else below.holds
    it = below.then(f"to_iter({allow_nones=})", dataset, models.streamed(below.model, allow_nones), holds)
    for _ in range(draw(st.integers(0, most))):
        before, it = it, draw(st.sampled_from(ITER_OPERATORS[it.holds]))(draw, it)
        if most == 1 and it.holds != "numbers":
            it = before
        if len(it.model.elements) > LONGEST:
            it = it.then(
                f"limit({LONGEST})",
                it.dataset.limit(LONGEST),
                models.with_elements(it.model, it.model.elements[:LONGEST]),
            )
    return it
