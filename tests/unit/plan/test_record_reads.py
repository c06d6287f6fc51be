"""What sources are asked for: batches of records in one call, arrays by gathering, and nothing ahead of need."""

import itertools

import numpy as np
import pytest

from grain import IterDataset, MapDataset


class Source:
    """Squares, and a record of what was asked for."""

    def __init__(self, length=12, factor=1):
        self.length, self.factor = length, factor
        self.single, self.together = [], []

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        self.single.append(index)
        return self.factor * index**2

    def __repr__(self):
        return "Source"


class SourceOfMany(Source):
    def __getitems__(self, indices):
        assert type(indices) is list
        assert {type(index) for index in indices} == {int}
        self.together.append(indices)
        return [self.factor * index**2 for index in indices]


def lists(batches):
    return [batch.tolist() for batch in batches]


def groups(indices, size):
    indices = list(indices)
    return [indices[start : start + size] for start in range(0, len(indices), size)]


ORDER = list(MapDataset.range(12).shuffle(3))
SECOND = [MapDataset.range(12).shuffle(3)[index] for index in range(12, 24)]

# name -> (pipeline of a dataset, the batches' indices in the source)
MAP_BATCHES = {
    "batch": (lambda ds: ds.batch(5), groups(range(12), 5)),
    "one": (lambda ds: ds.batch(1), groups(range(12), 1)),
    "whole": (lambda ds: ds.batch(20), [list(range(12))]),
    "rest dropped": (lambda ds: ds.batch(5, drop_remainder=True), groups(range(10), 5)),
    "batch_fn": (lambda ds: ds.batch(4, batch_fn=np.array), groups(range(12), 4)),
    "map": (lambda ds: ds.map(lambda x: x).batch(4), groups(range(12), 4)),
    "map_with_index": (lambda ds: ds.map_with_index(lambda i, x: x).batch(4), groups(range(12), 4)),
    "random_map": (lambda ds: ds.random_map(lambda x, rng: x, seed=1).batch(4), groups(range(12), 4)),
    "shuffle": (lambda ds: ds.shuffle(3).batch(4), groups(ORDER, 4)),
    "map, shuffle": (lambda ds: ds.map(lambda x: x).shuffle(3).batch(4), groups(ORDER, 4)),
    "epochs": (lambda ds: ds.shuffle(3).batch(5).repeat(2), groups(ORDER, 5) + groups(SECOND, 5)),
    "slice": (lambda ds: ds[2:11:2].batch(3), [[2, 4, 6], [8, 10]]),
    "indices": (lambda ds: ds.slice([3, 3, 1]).batch(2), [[3, 3], [1]]),
    "shuffled batches": (lambda ds: ds.batch(5).shuffle(7), [[10, 11], [0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]),
}


@pytest.mark.parametrize(("apply", "indices"), MAP_BATCHES.values(), ids=MAP_BATCHES)
def test_map_batch_asks_for_its_records_at_once(apply, indices):
    source = SourceOfMany()
    batches = lists(apply(MapDataset.source(source)))
    assert source.together == indices
    assert source.single == []
    assert batches == [[index**2 for index in batch] for batch in indices]


@pytest.mark.parametrize(("apply", "indices"), MAP_BATCHES.values(), ids=MAP_BATCHES)
def test_random_access_to_a_batch_asks_for_its_records_at_once(apply, indices):
    source = SourceOfMany()
    dataset = apply(MapDataset.source(source))
    assert [dataset[position].tolist() for position in range(len(indices))] == lists(apply(MapDataset.source(Source())))
    assert source.together == indices
    assert source.single == []


ITER_BATCHES = {
    "batch": lambda ds: ds.to_iter_dataset().batch(5),
    "rest dropped": lambda ds: ds.to_iter_dataset().batch(5, drop_remainder=True),
    "batch_fn": lambda ds: ds.to_iter_dataset().batch(5, batch_fn=np.array),
    "Map map": lambda ds: ds.map(lambda x: x).to_iter_dataset().batch(5),
    "map": lambda ds: ds.to_iter_dataset().map(lambda x: x).batch(5),
    "map_with_index": lambda ds: ds.to_iter_dataset().map_with_index(lambda i, x: x).batch(5),
    "random_map": lambda ds: ds.to_iter_dataset().random_map(lambda x, rng: x, seed=1).batch(5),
    "seed": lambda ds: ds.to_iter_dataset().seed(1).batch(5),
    "several": lambda ds: ds.map(lambda x: x).to_iter_dataset().seed(1).map(lambda x: x).batch(5),
}


@pytest.mark.parametrize("apply", ITER_BATCHES.values(), ids=ITER_BATCHES)
def test_iter_batch_asks_for_its_records_at_once(apply):
    source, plain = SourceOfMany(), Source()
    assert lists(apply(MapDataset.source(source))) == lists(apply(MapDataset.source(plain)))
    assert source.together == groups(range(12), 5)
    assert source.single == []
    assert plain.single == list(range(12))


@pytest.mark.usefixtures("inline")
@pytest.mark.parametrize("apply", [*ITER_BATCHES.values(), *(apply for apply, _ in MAP_BATCHES.values())])
def test_batches_are_not_read_ahead(apply):
    source = SourceOfMany()
    iterator = iter(apply(MapDataset.source(source)))
    assert source.together == source.single == []
    for count in range(1, 3):
        if next(iterator, None) is not None:
            assert len(source.together) == count


def test_iter_batch_resumed_between_and_within_batches():
    for start in range(12):
        source = SourceOfMany()
        iterator = iter(MapDataset.source(source).to_iter_dataset().batch(5))
        iterator.set_state({"next_index": start})
        assert lists(iterator) == [[index**2 for index in batch] for batch in groups(range(start, 12), 5)]
        assert source.together == groups(range(start, 12), 5)


@pytest.mark.usefixtures("inline")
def test_batch_of_a_sparse_stream_reads_no_more_than_a_batch_ahead():
    source = SourceOfMany(100)
    iterator = iter(MapDataset.source(source).filter(lambda x: x % 3 == 0).to_iter_dataset().batch(4))
    for _ in range(3):
        next(iterator)
        read = sum(map(len, source.together)) + len(source.single)
        assert iterator.get_state()["next_index"] <= read < iterator.get_state()["next_index"] + 4
    assert sorted([*itertools.chain(*source.together), *source.single]) == list(range(read))


def shares(components, size):
    """The indices that each batch of `size` has of each component."""
    found = {0: [], 1: []}
    for batch in groups(components, size):
        for component in found:
            share = [index for chosen, index in batch if chosen == component]
            if share:
                found[component].append(share)
    return found


@pytest.mark.parametrize("size", [2, 4, 8, 20])
def test_components_of_a_mix_are_asked_for_their_share_of_a_batch(size):
    first, second = SourceOfMany(20), SourceOfMany(40, factor=-1)
    dataset = MapDataset.mix([MapDataset.source(first), MapDataset.source(second)], [1, 2])
    picks = [(0, index // 3) if index % 3 == 0 else (1, index - index // 3 - 1) for index in range(60)]
    expected = [[index**2 * (1, -1)[chosen] for chosen, index in batch] for batch in groups(picks, size)]
    for batches in (dataset.batch(size), dataset.to_iter_dataset().batch(size)):
        first.together, second.together = [], []
        assert lists(batches) == expected
        assert first.together == shares(picks, size)[0]
        assert second.together == shares(picks, size)[1]
        assert first.single == second.single == []


@pytest.mark.parametrize("size", [2, 4, 8, 20])
def test_components_of_a_concatenation_are_asked_for_their_share_of_a_batch(size):
    first, second = SourceOfMany(11), SourceOfMany(21, factor=-1)
    dataset = MapDataset.concatenate([MapDataset.source(first), MapDataset.source(second)])
    picks = [(0, index) for index in range(11)] + [(1, index) for index in range(21)]
    expected = [[index**2 * (1, -1)[chosen] for chosen, index in batch] for batch in groups(picks, size)]
    for batches in (dataset.batch(size), dataset.to_iter_dataset().batch(size)):
        first.together, second.together = [], []
        assert lists(batches) == expected
        assert first.together == shares(picks, size)[0]
        assert second.together == shares(picks, size)[1]
        assert first.single == second.single == []


def test_parents_of_a_zip_are_asked_for_whole_batches():
    first, second = SourceOfMany(10), SourceOfMany(10, factor=-1)
    dataset = MapDataset.zip([MapDataset.source(first), MapDataset.source(second)]).batch(4)
    assert lists(second for _, second in dataset) == [[0, -1, -4, -9], [-16, -25, -36, -49], [-64, -81]]
    assert first.together == second.together == groups(range(10), 4)


@pytest.mark.parametrize("kind", [tuple, np.array, "list subclass"])
def test_any_sequence_of_records_will_do(kind):
    class Kind(Source):
        def __getitems__(self, indices):
            records = [index**2 for index in indices]
            return type("Records", (list,), {})(records) if kind == "list subclass" else kind(records)

    assert lists(MapDataset.source(Kind(5)).batch(2)) == [[0, 1], [4, 9], [16]]


SINGLE_READS = {
    "to_iter_dataset": lambda ds: ds.to_iter_dataset(),
    "map": lambda ds: ds.map(lambda x: x).to_iter_dataset().map(lambda x: x),
    "random_map": lambda ds: ds.random_map(lambda x, rng: x, seed=1),
    "limit": lambda ds: ds.to_iter_dataset().limit(9),
    "repeat": lambda ds: ds.to_iter_dataset().repeat(),
    "zip": lambda ds: MapDataset.zip([ds]),
    "mix": lambda ds: MapDataset.mix([ds]),
    "stream of a mix": lambda ds: IterDataset.mix([ds]),
    "interleave": lambda ds: IterDataset.interleave([ds], cycle_length=1),
    "flat_map": lambda ds: ds.to_iter_dataset().flat_map(lambda x: [x]),
    "cache": lambda ds: ds.to_iter_dataset().cache(),
}


@pytest.mark.usefixtures("inline")
@pytest.mark.parametrize("kind", [Source, SourceOfMany])
@pytest.mark.parametrize("apply", SINGLE_READS.values(), ids=SINGLE_READS)
def test_records_are_read_one_by_one_when_they_are_needed(apply, kind):
    source = kind()
    dataset = apply(MapDataset.source(source))
    iterator = iter(dataset)
    iterator.get_state()
    assert source.single == []
    for count in range(1, 6):
        next(iterator)
        iterator.get_state()
        assert source.single == list(range(count))
    assert source.together == []


ARRAYS = {
    "int64": np.arange(10),
    "int8": np.arange(10, dtype=np.int8),
    "float32": np.linspace(0, 1, 10, dtype=np.float32),
    "bool": np.arange(10) % 3 == 0,
    "complex": np.arange(10) * 1j,
    "rows": np.arange(30).reshape(10, 3),
    "images": np.arange(120, dtype=np.uint8).reshape(10, 3, 4),
    "Fortran order": np.asfortranarray(np.arange(30).reshape(10, 3)),
    "strided": np.arange(60).reshape(20, 3)[::2],
    "big endian": np.arange(10, dtype=">i4"),
    "no columns": np.zeros((10, 0)),
    "str": np.array(list("abcdefghij")),
    "objects": np.array([{"a": i} for i in range(10)], dtype=object),
    "records": np.array([(i, i / 2) for i in range(10)], dtype=[("a", "i4"), ("b", "f8")]),
    "masked": np.ma.array(np.arange(10), mask=np.arange(10) % 4 == 1),
    "dates": np.arange("2020-01", "2020-11", dtype="M8[M]"),
}
BATCHES = {
    "Map batch": lambda ds: ds.batch(3),
    "shuffled": lambda ds: ds.shuffle(1).batch(3).repeat(2),
    "with gaps between": lambda ds: ds[::3].batch(2),
    "one": lambda ds: ds.batch(1),
    "Iter batch": lambda ds: ds.to_iter_dataset().batch(3),
    "mix": lambda ds: MapDataset.mix([ds, ds]).batch(3),
    "epochs in one batch": lambda ds: ds.repeat(2).batch(7),
}


@pytest.mark.parametrize("apply", BATCHES.values(), ids=BATCHES)
@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS)
def test_arrays_give_what_their_elements_give(array, apply):
    class OneByOne:
        def __len__(self):
            return len(array)

        def __getitem__(self, index):
            return array[index]

    found, expected = list(apply(MapDataset.source(array))), list(apply(MapDataset.source(OneByOne())))
    assert len(found) == len(expected)
    for batch, wanted in zip(found, expected, strict=True):
        assert type(batch) is type(wanted)
        if isinstance(wanted, np.ndarray):
            assert (batch.dtype, batch.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_equal(batch, wanted)


def test_batches_of_arrays_can_be_written_to():
    array = np.arange(10)
    for batch in MapDataset.source(array).batch(3):
        batch[:] = -1
    for batch in MapDataset.range(10).batch(3):
        batch[:] = -1
    assert array.tolist() == list(range(10))
    assert lists(MapDataset.range(10).batch(3))[0] == [0, 1, 2]


class Unsized:
    def __getitem__(self, index):
        return ("record", index)


def test_source_without_length():
    dataset = MapDataset.source(Unsized())
    assert dataset[5] == ("record", 5)
    assert dataset[-3] == ("record", -3)
    assert dataset.map(lambda record: record[1] + 1)[10**30] == 10**30 + 1
    for use in (len, list, lambda ds: ds[1:], lambda ds: ds.batch(2), lambda ds: ds.repeat(2)):
        with pytest.raises(TypeError, match=r"len\(\)"):
            use(dataset)


def test_indices_are_taken_modulo_the_length():
    source = Source(5)
    dataset = MapDataset.source(source)
    for index in (7, -1, 10**30):
        dataset[index]
    assert source.single == [2, 4, 0]


def test_length_is_that_of_the_source_now():
    records = ["a"]
    dataset = MapDataset.source(records)
    assert (len(dataset), dataset[1]) == (1, "a")
    records.append("b")
    assert (len(dataset), dataset[1], list(dataset)) == (2, "b", ["a", "b"])


def test_a_dataset_as_a_source_is_no_parent():
    inner = MapDataset.range(3)
    dataset = MapDataset.source(inner)
    assert dataset.parents == ()
    assert list(dataset.repeat(2)) == [0, 1, 2, 0, 1, 2]


def test_paths_of_a_source():
    class Files(list):
        paths = ("a", "b")

    assert list(MapDataset.source(Files([1])).paths) == ["a", "b"]
    assert list(MapDataset.source([1]).paths) == []
