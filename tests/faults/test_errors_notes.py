"""Errors of users' functions and sources: their types are kept, notes name the operator, its code and the element."""

import pytest

from grain import IterDataset, MapDataset, transforms


class BrokenError(Exception):
    """What users' code raises here."""


def fail(element):
    """Fails for its victims; otherwise gives the element back."""
    if element in fail.victims:
        raise BrokenError(element)
    return element


@pytest.fixture(autouse=True)
def victims():
    fail.victims = set()
    yield
    fail.victims = set()


def with_index(index, element):
    return fail(element)


def with_rng(element, rng):
    return fail(element)


def is_kept(element):
    return fail(element) is not None


def twice(element):
    return [fail(element)] * 2


class FailingMap(transforms.Map):
    def map(self, element):
        return fail(element)


class FailingFilter(transforms.Filter):
    def filter(self, element):
        return fail(element) is not None


class FailingMapWithIndex(transforms.MapWithIndex):
    def map_with_index(self, index, element):
        return fail(element)


class FailingRandomMap(transforms.RandomMap):
    def random_map(self, element, rng):
        return fail(element)


class Twice(transforms.FlatMap):
    max_fan_out = 2

    def flat_map(self, element):
        return [fail(element)] * 2


class Source:
    def __len__(self):
        return 100

    def __getitem__(self, index):
        return fail(index)


class SourceOfMany(Source):
    def __getitems__(self, indices):
        return [fail(index) for index in indices]


class FailsForMany(SourceOfMany):
    def __getitem__(self, index):
        return index


def place(function):
    code = function.__code__
    return f"@ .../{'/'.join(code.co_filename.split('/')[-3:])}:{code.co_firstlineno}"


# operator -> (how it is applied, the operator's name on both sides, the function that fails)
OPERATORS = {
    "map": (lambda ds: ds.map(fail), "Map{}(transform=fail", fail),
    "Map": (lambda ds: ds.map(FailingMap()), "Map{}(transform=FailingMap", FailingMap.map),
    "map_with_index": (
        lambda ds: ds.map_with_index(with_index),
        "MapWithIndex{}(transform=with_index",
        with_index,
    ),
    "MapWithIndex": (
        lambda ds: ds.map_with_index(FailingMapWithIndex()),
        "MapWithIndex{}(transform=FailingMapWithIndex",
        FailingMapWithIndex.map_with_index,
    ),
    "random_map": (lambda ds: ds.random_map(with_rng, seed=1), "RandomMap{}(transform=with_rng", with_rng),
    "RandomMap": (
        lambda ds: ds.random_map(FailingRandomMap(), seed=1),
        "RandomMap{}(transform=FailingRandomMap",
        FailingRandomMap.random_map,
    ),
    "filter": (lambda ds: ds.filter(is_kept), "Filter{}(transform=is_kept", is_kept),
    "Filter": (lambda ds: ds.filter(FailingFilter()), "Filter{}(transform=FailingFilter", FailingFilter.filter),
    "flat_map": (lambda ds: ds.flat_map(Twice()), "FlatMap{}(transform=Twice", Twice.flat_map),
}


def error_of(run):
    with pytest.raises(BrokenError) as raised:
        run()
    assert type(raised.value) is BrokenError
    return raised.value


def notes_of(run):
    return "\n".join(getattr(error_of(run), "__notes__", []))


# Elements are made one by one at first, then in blocks of growing size.
VICTIMS = [0, 1, 5, 20, 90]


@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize(("apply", "operator", "function"), OPERATORS.values(), ids=OPERATORS)
def test_functions_of_map_datasets(apply, operator, function, victim):
    dataset = apply(MapDataset.range(100))
    index = 2 * victim if operator.startswith("FlatMap") else victim
    fail.victims = {victim}
    for run in (lambda: list(dataset), lambda: dataset[index]):
        notes = notes_of(run)
        assert operator.format("MapDataset") in notes
        assert place(function) in notes
        assert f"element at index {index}." in notes


@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize(("apply", "operator", "function"), OPERATORS.values(), ids=OPERATORS)
def test_functions_of_streams(apply, operator, function, victim):
    dataset = apply(MapDataset.range(100).to_iter_dataset())
    fail.victims = {victim}
    notes = notes_of(lambda: list(dataset))
    assert operator.format("IterDataset") in notes
    assert place(function) in notes
    assert f"element at index {victim}." in notes


def join(values):
    return [fail(value) for value in values]


@pytest.mark.parametrize("victim", VICTIMS)
def test_batch_fn_of_map_datasets(victim):
    dataset = MapDataset.range(100).batch(4, batch_fn=join)
    fail.victims = {victim}
    for run in (lambda: list(dataset), lambda: dataset[victim // 4]):
        notes = notes_of(run)
        assert "BatchMapDataset(batch_size=4" in notes
        assert f"index {victim // 4}." in notes
        assert place(join) in notes


@pytest.mark.parametrize("victim", VICTIMS)
def test_batch_fn_of_streams(victim):
    dataset = MapDataset.range(100).to_iter_dataset().batch(4, batch_fn=join)
    fail.victims = {victim}
    notes = notes_of(lambda: list(dataset))
    assert "BatchIterDataset(batch_size=4" in notes
    assert place(join) in notes


def test_value_error_of_a_map_batch_advises_a_stream():
    def refuse(values):
        raise ValueError("no")

    with pytest.raises(ValueError, match=r"^no") as raised:
        MapDataset.range(4).batch(2, batch_fn=refuse)[1]
    assert "to_iter_dataset()" in "\n".join(raised.value.__notes__)


SOURCE_READS = {
    "iteration": lambda ds, index: list(ds),
    "random access": lambda ds, index: ds[index],
    "stream": lambda ds, index: list(ds.to_iter_dataset()),
    "Map batch": lambda ds, index: list(ds.batch(8)),
    "one Map batch": lambda ds, index: ds.batch(8)[index // 8],
    "Iter batch": lambda ds, index: list(ds.to_iter_dataset().batch(8)),
    "mix": lambda ds, index: list(MapDataset.mix([ds, ds])),
    "zip": lambda ds, index: list(MapDataset.zip([ds, ds])),
    "shuffle": lambda ds, index: list(ds.shuffle(1)),
}


@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("read", SOURCE_READS.values(), ids=SOURCE_READS)
def test_getitem_of_a_source(read, victim):
    fail.victims = {victim}
    notes = notes_of(lambda: read(MapDataset.source(Source()), victim))
    assert "Source.__getitem__" in notes
    assert f"index {victim}." in notes


@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("read", [SOURCE_READS["Map batch"], SOURCE_READS["one Map batch"], SOURCE_READS["Iter batch"]])
def test_getitems_of_a_source_that_fails_for_one_record(read, victim):
    fail.victims = {victim}
    notes = notes_of(lambda: read(MapDataset.source(SourceOfMany()), victim))
    assert "SourceOfMany.__getitem__" in notes
    assert f"index {victim}." in notes


@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("read", [SOURCE_READS["Map batch"], SOURCE_READS["one Map batch"], SOURCE_READS["Iter batch"]])
def test_getitems_of_a_source_that_fails_for_many_records_only(read, victim):
    fail.victims = {victim}
    notes = notes_of(lambda: read(MapDataset.source(FailsForMany()), victim))
    assert "FailsForMany.__getitems__" in notes
    first = victim // 8 * 8
    assert str(list(range(first, min(first + 8, 100)))) in notes


@pytest.mark.parametrize("component", [0, 1])
@pytest.mark.parametrize("victim", [0, 1, 20])
def test_component_of_a_mix(component, victim):
    parents = [MapDataset.range(100), MapDataset.range(100)]
    parents[component] = parents[component].map(fail)
    index = 2 * victim + component
    fail.victims = {victim}
    for dataset in (MapDataset.mix(parents), MapDataset.select_from_datasets(parents, InTurn())):
        for run in (lambda: list(dataset), lambda: dataset[index]):  # noqa: B023
            notes = notes_of(run)
            assert f"Exception caught while processing dataset @ dataset_index={component}," in notes
            assert place(fail) in notes
    streams = [parent.to_iter_dataset() for parent in parents]
    notes = notes_of(lambda: list(IterDataset.mix(streams)))
    assert f"Exception caught while processing dataset @ input_index={component}" in notes


class InTurn(transforms.DatasetSelectionMap):
    def __len__(self):
        return 200

    def __getitem__(self, index):
        return index % 2, index // 2


def test_component_of_a_concatenation():
    fail.victims = {5}
    dataset = MapDataset.concatenate([MapDataset.range(5), MapDataset.range(5, 10).map(fail)])
    notes = notes_of(lambda: list(dataset))
    assert "dataset_index=1," in notes
    assert "element at index 0." in notes  # of the component


def test_index_is_that_of_the_operator():
    order = list(MapDataset.range(30).shuffle(7))
    fail.victims = {12}
    after = notes_of(lambda: list(MapDataset.range(30).shuffle(7).map(fail)))
    assert f"element at index {order.index(12)}." in after
    before = notes_of(lambda: list(MapDataset.range(30).map(fail).shuffle(7)))
    assert "element at index 12." in before
    sliced = notes_of(lambda: list(MapDataset.range(30)[10:].map(fail)))
    assert "element at index 2." in sliced


def test_the_failing_operator_is_named_among_several():
    fail.victims = {3}
    dataset = MapDataset.range(9).map(lambda x: x).map(fail).map(lambda x: x)
    for built in (dataset, dataset.shuffle(1), dataset.to_iter_dataset().map(lambda x: x)):
        notes = error_of(lambda: list(built)).__notes__  # noqa: B023
        assert [place(fail) in note for note in notes] == [True]


def test_exits_are_not_annotated():
    """KeyboardInterrupt and the like are not about an element."""

    def interrupt(element):
        raise KeyboardInterrupt

    for dataset in (MapDataset.range(3).map(interrupt), MapDataset.range(3).to_iter_dataset().map(interrupt)):
        with pytest.raises(KeyboardInterrupt) as raised:
            next(iter(dataset))
        assert not hasattr(raised.value, "__notes__")
