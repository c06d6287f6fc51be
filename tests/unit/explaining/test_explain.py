"""`explain()`: what is printed, for pipelines of all kinds, and that nothing is read or started for it."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path

import pytest

import grain
from grain import DataLoader, IterDataset, MapDataset, MultiprocessingOptions, ReadOptions, experimental, samplers
from grain.explaining.saving import Words, first_state, shown
from grain.ops.custom import iter_node_of
from support.pipelines import NAMES, iter_pipeline

EXPECTED = Path(__file__).with_name("explanations.txt")
INLINE = ReadOptions(num_threads=0)


class Unreadable:
    """A source of which no record is to be read."""

    def __init__(self, length=60):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        raise AssertionError("a record was read")


class UnreadableTogether(Unreadable):
    """One that could read many records at once."""

    __getitems__ = Unreadable.__getitem__


class Halved(MapDataset):
    """A user's operator."""

    def __len__(self):
        return len(self._parent) // 2

    def __getitem__(self, index):
        raise AssertionError("an element was read")


class Ticks(IterDataset):
    """A user's stream."""

    def __iter__(self):
        raise AssertionError("a stream was opened")


def records(length=60):
    return MapDataset.source(Unreadable(length))


def mixture(count):
    return MapDataset.mix([records(10 + number).shuffle(seed=number) for number in range(count)])


def long_chain():
    dataset = records()
    for _ in range(300):
        dataset = dataset.map(abs)
    return dataset


def in_processes(dataset, count=2):
    return dataset.mp_prefetch(MultiprocessingOptions(num_workers=count, per_worker_buffer_size=4))


def loader(worker_count=0):
    sampler = samplers.IndexSampler(60, shuffle=True, num_epochs=2, seed=7)
    operations = [abs, grain.transforms.Batch(8)]
    return DataLoader(data_source=Unreadable(), sampler=sampler, operations=operations, worker_count=worker_count)


PIPELINES = {
    "random access": lambda: records().seed(42).shuffle().map(abs).filter(bool)[10:50:2],
    "batches read together": lambda: (
        MapDataset.source(UnreadableTogether()).shuffle(seed=1).to_iter_dataset().map(abs).batch(8)
    ),
    "batches by index": lambda: records().window_shuffle(6, seed=2).repeat(2).batch(8, drop_remainder=True),
    "inline": lambda: records().slice([5, 3, 1]).to_iter_dataset(INLINE, allow_nones=True).limit(2),
    "held back": lambda: records().to_iter_dataset(INLINE).window_shuffle(10, seed=3).cache().rebatch(4),
    "mixture of two": lambda: MapDataset.mix([records(), MapDataset.range(3, 9)], weights=[1, 1.5]).map(abs),
    "mixture of a thousand": lambda: mixture(1000),
    "mixture of streams": lambda: IterDataset.mix(
        [records().to_iter_dataset(), Ticks(), *[records().to_iter_dataset(INLINE)] * 998]
    ),
    "zip and concatenate": lambda: MapDataset.zip([MapDataset.concatenate([records(), records()]), records(120)]),
    "interleave": lambda: IterDataset.interleave([records(), records().to_iter_dataset()], cycle_length=2).batch(2),
    "read ahead by a thread": lambda: records().to_iter_dataset(INLINE).batch(2).thread_prefetch(1),
    "worker processes": lambda: in_processes(records().seed(1).random_map(max).to_iter_dataset().batch(2)).map(abs),
    "worker threads": lambda: experimental.multithread_prefetch(records().to_iter_dataset(INLINE), 3, 5),
    "users' classes": lambda: Halved(records().map(abs)).shuffle(seed=3),
    "a user's stream in processes": lambda: in_processes(Ticks().batch(2)),
    "long chain": long_chain,
    "loader": loader,
    "loader with workers": lambda: loader(2),
}


def expected():
    parts = EXPECTED.read_text().split("=== ")[1:]
    return {name: text.rstrip("\n") for name, _, text in (part.partition("\n") for part in parts)}


def printed(name):
    return str(PIPELINES[name]().explain())


@pytest.mark.parametrize("name", PIPELINES)
def test_what_is_printed(name):
    before = threading.active_count()
    assert printed(name) == expected()[name]
    assert threading.active_count() == before


def test_all_pipelines_are_written_down():
    assert list(expected()) == list(PIPELINES)


def test_functions_are_shown_with_their_places():
    def decode(element):
        return element

    line = decode.__code__.co_firstlineno
    text = str(records().map(decode).explain())
    assert f"  map(decode @ .../unit/explaining/test_explain.py:{line})" in text
    assert f"  element  Apply(decode @ .../unit/explaining/test_explain.py:{line})" in text


@pytest.mark.parametrize("name", NAMES)
def test_everything_can_be_explained(name):
    dataset = iter_pipeline(name, "inline")
    assert str(in_processes(dataset).explain()).startswith(repr(in_processes(dataset)))
    assert repr(dataset).count("\n") == 0
    state = first_state(iter_node_of(dataset))
    if not has_words(state):
        iterator = iter(dataset)
        assert shown(state) == shown(iterator.get_state())
        iterator.close()


def has_words(state):
    if isinstance(state, dict):
        return any(map(has_words, state.values()))
    return any(map(has_words, state)) if isinstance(state, list) else isinstance(state, Words)


def test_an_explanation_is_a_value():
    explanation = mixture(2).explain()
    assert explanation == mixture(2).explain() == pickle.loads(pickle.dumps(explanation))
    assert explanation != mixture(3).explain()
    assert [section.title.partition(" ")[0] for section in explanation.sections] == [
        "Asked",
        "Plan",
        "Runs",
        "Holds",
        "State",
    ]


def test_notebooks_get_escaped_html():
    html = records().map(lambda x: x).explain()._repr_html_()
    assert "map(&lt;lambda&gt; @ " in html
    assert "<lambda>" not in html
    assert "<script" not in html


def test_what_is_wrong_with_a_pipeline_is_told_later():
    dataset = IterDataset.interleave([None, 3, records()], cycle_length=2)
    assert repr(dataset) == "IterDataset.interleave([MapDataset.source(Unreadable)], cycle_length=2)"
    assert "MapDataset.source(Unreadable)" in str(dataset.explain())


REPRS = [
    (lambda: MapDataset.range(2, 9).seed(42).shuffle().map(abs).batch(32), ".seed(42).shuffle().map(abs).batch(32)"),
    (lambda: MapDataset.range(9)[1:5].shuffle(seed=1), "MapDataset.range(9)[1:5:1].shuffle(seed=1)"),
    (lambda: Ticks().map(abs), "Ticks().map(abs)"),
    (
        lambda: MapDataset.zip([MapDataset.range(2).map(abs), MapDataset.range(3)[:2]]),
        "MapDataset.zip([MapDataset.range(2).map(abs), MapDataset.range(3)[0:2:1]])",
    ),
    (lambda: MapDataset.concatenate([MapDataset.range(2)] * 1000), "MapDataset.range(2), … 997 more])"),
    (lambda: long_chain(), ".map(abs).… 278 more.map(abs)"),
]


@pytest.mark.parametrize(("make", "part"), REPRS, ids=range(len(REPRS)))
def test_repr_is_the_chain(make, part):
    assert part in repr(make())
    assert len(repr(make())) < 400


def write_down():
    """Write what is printed now; look at the difference before it is committed."""
    EXPECTED.write_text("\n".join(f"=== {name}\n{printed(name)}\n" for name in PIPELINES))


if __name__ == "__main__":
    write_down()
