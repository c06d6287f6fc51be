"""What is told about pipelines without running them: element specs, and the names of datasets and transformations."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from grain import IterDataset, MapDataset, ReadOptions, transforms
from grain.experimental import (
    CacheIterDataset,
    DatasetOptions,
    FlatMapIterDataset,
    FlatMapMapDataset,
    InterleaveIterDataset,
    LimitIterDataset,
    RebatchIterDataset,
    RepeatIterDataset,
    ShapeDtypeStruct,
    ShapeDtypeStructProtocol,
    ThreadPrefetchIterDataset,
    WindowShuffleIterDataset,
    WindowShuffleMapDataset,
    WithOptionsIterDataset,
    ZipIterDataset,
    ZipMapDataset,
    batch_and_pad,
    get_element_spec,
)

RANGE = MapDataset.range(4)
STREAM = RANGE.to_iter_dataset()


def same(x):
    return x


class Plain(transforms.Map):
    def map(self, element):
        return element


class Pairing(transforms.Map):
    """Says what it makes."""

    def map(self, element):
        return {"x": element, "y": np.zeros((2, 3), np.float32)}

    def output_spec(self, input_spec):
        return {"x": input_spec, "y": ShapeDtypeStruct(shape=(2, 3), dtype=np.float32)}


class Indexing(transforms.MapWithIndex):
    def map_with_index(self, index, element):
        return element

    def output_spec(self, input_spec):
        return (input_spec,)


class Random(transforms.RandomMap):
    def random_map(self, element, rng):
        return element

    def output_spec(self, input_spec):
        return [input_spec]


class Twice(transforms.FlatMap):
    max_fan_out = 2

    def flat_map(self, element):
        return [element] * 2


class Joining:
    def __call__(self, values):
        return np.array(values)

    def output_spec(self, input_spec, batch_size, drop_remainder):
        return ShapeDtypeStruct((batch_size, drop_remainder), input_spec.dtype)


def struct(*shape, dtype=np.int64):
    return ShapeDtypeStruct(shape=shape, dtype=dtype)


NUMBER = struct()
PAIR = {"x": NUMBER, "y": struct(2, 3, dtype=np.float32)}
SPECS = {
    "range": (RANGE, NUMBER),
    "map": (RANGE.map(Pairing()), PAIR),
    "map of a stream": (STREAM.map(Pairing()), PAIR),
    "map_with_index": (RANGE.map_with_index(Indexing()), (NUMBER,)),
    "map_with_index of a stream": (STREAM.map_with_index(Indexing()), (NUMBER,)),
    "random_map": (RANGE.random_map(Random(), seed=1), [NUMBER]),
    "random_map of a stream": (STREAM.random_map(Random(), seed=1), [NUMBER]),
    "batch": (RANGE.batch(2), struct(None)),
    "batch, rest dropped": (RANGE.batch(2, drop_remainder=True), struct(2)),
    "batch of a stream": (STREAM.batch(2, drop_remainder=True), struct(2)),
    "batch of a tree": (
        RANGE.map(Pairing()).batch(5),
        {"x": struct(None), "y": struct(None, 2, 3, dtype=np.float32)},
    ),
    "batch of batches": (RANGE.batch(2, drop_remainder=True).batch(3), struct(None, 2)),
    "batch_fn": (RANGE.batch(2, batch_fn=Joining()), struct(2, False)),
    "partial batch_fn": (STREAM.batch(3, drop_remainder=True, batch_fn=functools.partial(Joining())), struct(3, True)),
    "rebatch": (RebatchIterDataset(STREAM.batch(2), 3), struct(3)),
    "zip": (ZipMapDataset([RANGE, RANGE.map(Pairing())]), (NUMBER, PAIR)),
    "zip of streams": (ZipIterDataset([STREAM, STREAM.batch(2)]), (NUMBER, struct(None))),
    "mix": (MapDataset.mix([RANGE.batch(2), RANGE]), struct(None)),
    "mix of streams": (IterDataset.mix([STREAM.batch(2), STREAM]), struct(None)),
    "concatenate": (MapDataset.concatenate([RANGE.batch(2), RANGE]), struct(None)),
    "interleave": (InterleaveIterDataset([STREAM.batch(2), STREAM], cycle_length=2), struct(None)),
    "interleave of a MapDataset": (InterleaveIterDataset(RANGE.map(lambda x: STREAM), cycle_length=2), NUMBER),
    "filter": (RANGE.filter(same), NUMBER),
    "filter of a stream": (STREAM.filter(same), NUMBER),
    "shuffle": (RANGE.shuffle(1), NUMBER),
    "slice": (RANGE[1:], NUMBER),
    "indices": (RANGE.slice([1]), NUMBER),
    "repeat": (RANGE.repeat(2), NUMBER),
    "repeat of a stream": (STREAM.repeat(2), NUMBER),
    "seed": (RANGE.seed(1), NUMBER),
    "seed of a stream": (STREAM.seed(1), NUMBER),
    "options": (STREAM.with_options(DatasetOptions()), NUMBER),
    "limit": (LimitIterDataset(STREAM, 2), NUMBER),
    "cache": (CacheIterDataset(STREAM), NUMBER),
    "to_iter_dataset": (STREAM, NUMBER),
    "thread_prefetch": (STREAM.thread_prefetch(2), NUMBER),
    "window_shuffle": (RANGE.window_shuffle(2, seed=1), NUMBER),
    "window_shuffle of a stream": (STREAM.window_shuffle(2, seed=1), NUMBER),
}


@pytest.mark.parametrize(("dataset", "spec"), SPECS.values(), ids=SPECS)
def test_element_spec(dataset, spec):
    assert get_element_spec(dataset) == spec


def not_implemented(name):
    return NotImplementedError, f"`element_spec` inference is not implemented for {name}"


UNKNOWN = {
    "source": (MapDataset.source([1]), *not_implemented("SourceMapDataset")),
    "after a source": (MapDataset.source([1]).shuffle(1).batch(2), *not_implemented("SourceMapDataset")),
    "flat_map": (FlatMapMapDataset(RANGE, Twice()), *not_implemented("FlatMapMapDataset")),
    "flat_map of a stream": (FlatMapIterDataset(STREAM, Twice()), *not_implemented("FlatMapIterDataset")),
    "function": (
        RANGE.map(same),
        ValueError,
        r"Cannot infer element spec for transform same @ .* does not implement `output_spec` method\.",
    ),
    "transformation": (
        STREAM.map(Plain()),
        ValueError,
        "Cannot infer element spec for transform Plain because it does not implement `output_spec`",
    ),
    "batch_fn": (
        RANGE.batch(2, batch_fn=same),
        NotImplementedError,
        "Element spec inference is not supported with custom batching functions",
    ),
    "partial batch_fn": (
        STREAM.batch(2, batch_fn=functools.partial(batch_and_pad, batch_size=2)),
        NotImplementedError,
        "not supported with custom batching functions",
    ),
}


@pytest.mark.parametrize(("dataset", "error", "message"), UNKNOWN.values(), ids=UNKNOWN)
def test_unknown_element_spec(dataset, error, message):
    with pytest.raises(error, match=message):
        get_element_spec(dataset)


def test_users_datasets_have_no_spec():
    class Own(MapDataset):
        def __len__(self):
            return 1

        def __getitem__(self, index):
            return index

    with pytest.raises(NotImplementedError, match="not implemented for Own"):
        get_element_spec(Own())


def test_specs_are_structs():
    assert isinstance(struct(2), ShapeDtypeStructProtocol)
    assert isinstance(jax.ShapeDtypeStruct((2,), np.float32), ShapeDtypeStructProtocol)
    assert not isinstance((2,), ShapeDtypeStructProtocol)
    assert struct(2) == struct(2) != struct(3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        struct(2).shape = (3,)


READ = "ReadOptions(num_threads=16, prefetch_buffer_size=500)"
PREFETCH = "PrefetchIterDataset(read_options=ReadOptions(num_threads=16, prefetch_buffer_size=0), allow_nones=False)"
STRINGS = {
    "RangeMapDataset(start=0, stop=4, step=1)": RANGE,
    "RangeMapDataset(start=2, stop=9, step=3)": MapDataset.range(2, 9, 3),
    "SourceMapDataset(source=list)": MapDataset.source([1]),
    "WithOptionsMapDataset": RANGE.seed(1),
    "WithOptionsIterDataset": STREAM.seed(1),
    "ShuffleMapDataset": RANGE.shuffle(1),
    "SliceMapDataset[1:3:1]": RANGE[1:3],
    "SliceMapDataset[3:-1:-1]": RANGE[::-1],
    "ReindexMapDataset(indices=[1, 2, 3], len=3)": RANGE.slice([1, 2, 3]),
    "ReindexMapDataset(indices=[5, 4, ..., 1, 0], len=6)": RANGE.slice([5, 4, 3, 2, 1, 0]),
    "RepeatMapDataset(num_epochs=2)": RANGE.repeat(2),
    "RepeatMapDataset(num_epochs=None)": RANGE.repeat(),
    "MapMapDataset(transform=Plain)": RANGE.map(Plain()),
    "RandomMapMapDataset(transform=Random)": RANGE.random_map(Random(), seed=1),
    "MapWithIndexMapDataset(transform=Indexing)": RANGE.map_with_index(Indexing()),
    "FilterMapDataset(transform=bool)": RANGE.filter(bool),
    "BatchMapDataset(batch_size=2, drop_remainder=False)": RANGE.batch(2),
    "MixedMapDataset[2 parents]": MapDataset.mix([RANGE, RANGE]),
    "MixedMapDataset[3 parents]": MapDataset.concatenate([RANGE] * 3),
    "WindowShuffleMapDataset": WindowShuffleMapDataset(RANGE, window_size=2, seed=1),
    "FlatMapMapDataset(transform=Twice)": FlatMapMapDataset(RANGE, Twice()),
    "ZipMapDataset(parents=(ShuffleMapDataset, ShuffleMapDataset))": MapDataset.zip([RANGE.shuffle(1)] * 2),
    PREFETCH: STREAM,
    f"PrefetchIterDataset(read_options={READ}, allow_nones=False)": RANGE.map(abs).to_iter_dataset(),
    "PrefetchIterDataset(read_options=ReadOptions(num_threads=1, prefetch_buffer_size=2), allow_nones=True)": (
        RANGE.to_iter_dataset(ReadOptions(1, 2), allow_nones=True)
    ),
    "MapIterDataset(transform=Plain)": STREAM.map(Plain()),
    "RandomMapIterDataset(transform=Random)": STREAM.random_map(Random(), seed=1),
    "MapWithIndexIterDataset(transform=Indexing)": STREAM.map_with_index(Indexing()),
    "FilterIterDataset(transform=bool)": STREAM.filter(bool),
    "BatchIterDataset(batch_size=2, drop_remainder=True)": STREAM.batch(2, drop_remainder=True),
    "RebatchIterDataset(batch_size=3, drop_remainder=False)": STREAM.rebatch(3),
    "RepeatIterDataset(num_epochs=2)": RepeatIterDataset(STREAM, 2),
    "LimitIterDataset(count=3)": STREAM.limit(3),
    f"CacheIterDataset(parent={PREFETCH})": STREAM.cache(),
    "WindowShuffleIterDataset": WindowShuffleIterDataset(STREAM, window_size=2, seed=1),
    "ZipIterDataset(parents=(LimitIterDataset(count=3),), strict=True)": IterDataset.zip([STREAM.limit(3)]),
    "FlatMapIterDataset(transform=Twice)": STREAM.flat_map(Twice()),
    "InterleaveIterDataset([3 datasets], cycle_length=7)": InterleaveIterDataset([STREAM] * 3, cycle_length=7),
    "MixedIterDataset([2 parents], proportions=[100, 200])": IterDataset.mix([STREAM, STREAM], [1, 2]),
    "ThreadPrefetchIterDataset(prefetch_buffer_size=2)": ThreadPrefetchIterDataset(STREAM, prefetch_buffer_size=2),
}


@pytest.mark.parametrize(("text", "dataset"), STRINGS.items(), ids=STRINGS)
def test_str(text, dataset):
    assert str(dataset) == text


def test_str_of_options():
    options = DatasetOptions(min_shm_size=1)
    assert str(WithOptionsIterDataset(STREAM, options)) == f"WithOptionsIterDataset(options={options})"


def test_repr_of_a_mix():
    assert repr(MapDataset.mix([MapDataset.range(5), MapDataset.range(5)], [1, 1.5])) == (
        "MixedMapDataset(parent_lengths=[5, 5], "
        "selection_map=SelectionWithProportionsMap(proportions=(100, 150), length=8))"
    )


@pytest.mark.parametrize(
    ("dataset", "text"),
    [
        (STREAM, PREFETCH.replace("IterDataset", "DatasetIterator")),
        (STREAM.map(abs), "MapDatasetIterator(transform=abs)"),
        (STREAM.filter(bool), "FilterDatasetIterator(transform=bool)"),
        (STREAM.batch(2), "BatchDatasetIterator(batch_size=2, drop_remainder=False)"),
        (STREAM.random_map(Random(), seed=1), "RandomMapDatasetIterator(transform=Random)"),
    ],
)
def test_str_of_iterators(dataset, text):
    assert str(iter(dataset)) == text


@dataclasses.dataclass
class Scaling(transforms.Map):
    factor: int = 2

    def map(self, element):
        return self.factor * element


@dataclasses.dataclass
class Above(transforms.Filter):
    limit: int = 2

    def filter(self, element):
        return element > self.limit


class Named(Plain):
    def __str__(self):
        return "named by hand"


class Callable:
    def __call__(self, x):
        return x

    def __repr__(self):
        return "Callable!"


identity = lambda x: x  # noqa: E731


def place(function):
    code = function.__code__
    return f"{function.__name__} @ .../{'/'.join(code.co_filename.split('/')[-3:])}:{code.co_firstlineno}"


NAMES = {
    "function": (RANGE.map(same), place(same)),
    "lambda": (RANGE.map(identity), place(identity)),
    "builtin": (RANGE.map(abs), "abs"),
    "ufunc": (RANGE.map(np.sqrt), "sqrt"),
    "method of a builtin": (RANGE.map(str.upper), "upper"),
    "partial": (RANGE.map(functools.partial(abs)), "functools.partial(<built-in function abs>)"),
    "object": (RANGE.map(Callable()), "Callable!"),
    "bound method": (RANGE.map(Plain().map), place(Plain.map)),
    "transformation": (RANGE.map(Plain()), "Plain"),
    "dataclass": (RANGE.map(Scaling(3)), "Scaling(factor=3)"),
    "with __str__": (STREAM.map(Named()), "named by hand"),
    "filter": (STREAM.filter(Above(3)), "Above"),
    "filter of a MapDataset": (RANGE.filter(Above(3)), "Above"),
}


@pytest.mark.parametrize(("dataset", "name"), NAMES.values(), ids=NAMES)
def test_names_of_transformations(dataset, name):
    assert str(dataset).partition("(")[2] == f"transform={name})"
