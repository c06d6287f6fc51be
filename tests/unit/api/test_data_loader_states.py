"""The states of a DataLoader: bytes, as Grain writes them."""

import json

import pytest

import grain
from grain import Batch, DataLoader, DataLoaderIterator, IndexSampler, SequentialSampler, ShardOptions


class Even(grain.FilterTransform):
    def filter(self, element):
        return element % 2 == 0


class Halves(grain.Operation):
    def __call__(self, input_iterator):
        for record in input_iterator:
            yield grain.Record(record.metadata, record.data / 2)


class Source:
    def __init__(self, name="Source()"):
        self.name = name

    def __len__(self):
        return 16

    def __getitem__(self, index):
        return index

    def __repr__(self):
        return self.name


def loader(*operations, source=None, sampler=None, **kwargs):
    return DataLoader(
        data_source=source or Source(), sampler=sampler or SequentialSampler(16), operations=operations, **kwargs
    )


def test_the_bytes():
    iterator = iter(loader(Batch(2), sampler=SequentialSampler(16, ShardOptions(1, 3))))
    next(iterator)
    assert iterator.get_state() == (
        b'{\n    "version": 2,\n    "last_seen_indices": {\n        "0": 4\n    },\n    "last_worker_index": -1,\n'
        b'    "worker_count": 0,\n    "sampler": "SequentialSampler(num_records=16, shard_options='
        b'ShardOptions(shard_index=1, shard_count=3, drop_remainder=False))",\n    "data_source": "Source()"\n}'
    )
    assert str(iterator) == f"PyGrainDatasetIterator(state={iterator.get_state().decode()})"


def seen(iterator):
    state = json.loads(iterator.get_state())
    return list(state["last_seen_indices"].values()), state["last_worker_index"]


def test_what_workers_have_seen():
    """As Grain 0.2.18 counts."""
    iterator = iter(loader(lambda x: x + 1, Even(), Batch(2), worker_count=3))
    found = [seen(iterator)]
    found += [seen(iterator) for _ in iterator]
    assert found == [
        ([-3, -2, -1], -1),
        ([9, -2, -1], 0),
        ([9, 7, -1], 1),
        ([9, 7, 11], -1),
        ([15, 7, 11], 0),
        ([15, 13, 11], 1),
    ]


def test_the_names_of_pytorch():
    iterator = iter(loader(Batch(2)))
    next(iterator)
    state = json.loads(json.dumps(iterator.state_dict()))
    again = iter(loader(Batch(2)))
    again.load_state_dict(state)
    assert again.get_state() == iterator.get_state()
    assert next(again).tolist() == next(iterator).tolist() == [2, 3]


@pytest.mark.parametrize("worker_count", [0, 1, 2, 3])
def test_resuming_anywhere(worker_count):
    sampler = IndexSampler(16, ShardOptions(1, 2), shuffle=True, num_epochs=2, seed=3)
    made = loader(Even(), lambda x: x * 10, Batch(2), sampler=sampler, worker_count=worker_count)
    iterator, states, elements = iter(made), [], []
    states.append(iterator.get_state())
    for element in iterator:
        elements.append(element.tolist())
        states.append(iterator.get_state())
    with iter(made) as again:
        for position, state in enumerate(states):
            again.set_state(state)
            assert again.get_state() == state
            assert [element.tolist() for element in again] == elements[position:]


@pytest.mark.parametrize("worker_count", [0, 2])
def test_the_end_is_not_final(worker_count):
    iterator = iter(loader(Halves(), worker_count=worker_count))
    start = iterator.get_state()
    everything = list(iterator)
    assert next(iterator, None) is None
    iterator.set_state(start)
    assert list(iterator) == everything


@pytest.mark.parametrize(
    ("sampler", "kwargs", "message"),
    [
        (SequentialSampler(16), {"worker_count": 2}, "worker count in checkpoint: 0\nworker count in dataloader: 2"),
        (SequentialSampler(15), {}, r"sampler in checkpoint: SequentialSampler\(num_records=16"),
        (SequentialSampler(16), {"source": Source("Another()")}, "data source in dataloader: Another"),
    ],
)
def test_states_of_other_loaders(sampler, kwargs, message):
    state = iter(loader()).get_state()
    iterator = iter(loader(sampler=sampler, **kwargs))
    before = iterator.get_state()
    with pytest.raises(ValueError, match=message):
        iterator.set_state(state)
    assert iterator.get_state() == before


def edited(**changes):
    state = json.loads(iter(loader()).get_state()) | changes
    return json.dumps({key: value for key, value in state.items() if value is not None}).encode()


@pytest.mark.parametrize(
    ("state", "error", "message"),
    [
        (iter(loader()).get_state()[:50], ValueError, "not JSON.*cut short"),
        (b"[1]", ValueError, "JSON object"),
        (b'{"next_index": 1}', KeyError, "not one of a DataLoader"),
        (edited(version=3), ValueError, "version 3"),
        (edited(last_seen_indices={}), KeyError, "not one of a DataLoader"),
        (edited(last_seen_indices={"0": "x"}), ValueError, "not one of a DataLoader"),
        (edited(last_seen_indices=None), KeyError, "last_seen_indices"),
        (edited(last_seen_indices={"0": 99}), IndexError, "`next_index` 100 is out of range for dataset of length 16"),
        ("{}", TypeError, "is bytes.*got str"),
    ],
)
def test_states_that_were_damaged(state, error, message):
    iterator = iter(loader())
    next(iterator)
    with pytest.raises(error, match=message):
        iterator.set_state(state)
    assert next(iterator) == 1


def test_a_state_from_the_start():
    state = json.loads(edited(last_seen_indices={"0": 4}, sampler="another"))
    assert next(DataLoaderIterator(loader(), state, validate_state=False)) == 5
    with pytest.raises(ValueError, match="sampler in checkpoint: another"):
        DataLoaderIterator(loader(), state)


@pytest.mark.parametrize("source", [[1, 2], (1, 2)])
def test_sequences_are_known_by_their_kind(source):
    state = json.loads(iter(DataLoader(data_source=source, sampler=SequentialSampler(2))).get_state())
    assert state["data_source"] == str(type(source))
