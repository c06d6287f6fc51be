"""An interrupt in the middle of a pipeline: nothing is lost, repeated or shifted."""

import contextlib
import itertools

import numpy as np
import pytest

from grain import IterDataset, MapDataset
from support.comparison import plain
from support.pipelines import READ_OPTIONS

INLINE = READ_OPTIONS["inline"]


def interrupted_once_at(place):
    """A function that passes its element on, but is interrupted the first time it meets `place`."""
    waiting = {place}

    def function(x):
        if x in waiting:
            waiting.clear()
            raise KeyboardInterrupt
        return x

    return function


def test_an_interrupt_does_not_shift_a_mixture():
    interrupted = MapDataset.range(6).map(interrupted_once_at(2)).to_iter_dataset(INLINE)
    iterator = iter(IterDataset.mix([interrupted, MapDataset.range(10, 16)]))
    elements = list(itertools.islice(iterator, 4))
    with pytest.raises(KeyboardInterrupt):
        next(iterator)
    assert iterator.get_state()["index"] == 4
    assert elements + list(iterator) == [0, 10, 1, 11, 2, 12, 3, 13, 4, 14, 5, 15]


def test_an_interrupt_does_not_mispair_a_zip():
    interrupted = MapDataset.range(4).map(interrupted_once_at(2)).to_iter_dataset(INLINE)
    iterator = iter(IterDataset.zip([MapDataset.range(4), interrupted, MapDataset.range(4)]))
    pairs = [next(iterator), next(iterator)]
    with pytest.raises(KeyboardInterrupt):
        next(iterator)
    assert pairs + list(iterator) == [(x, x, x) for x in range(4)]


class Interrupted:
    """A source of documents; reading is interrupted once, when it is told to."""

    def __init__(self):
        self.is_due = False

    def __len__(self):
        return 8

    def __getitem__(self, index):
        if self.is_due:
            self.is_due = False
            raise KeyboardInterrupt
        return {"tokens": np.full(1 + index * 3 % 7, index)}


@pytest.mark.parametrize(
    "pipeline",
    [
        lambda documents: documents.concat_and_split(length_struct={"tokens": 3}),
        lambda documents: documents.pack_first_fit(length_struct={"tokens": 9}, num_packing_bins=2),
        lambda documents: documents.bucket_by_length([3, 9], [2, 3]),
        lambda documents: documents.batch_by_cost(9, lambda document: len(document["tokens"]), batch_fn=list),
        lambda documents: documents.flat_map(lambda document: list(document["tokens"])),
    ],
    ids=["concat_and_split", "pack_first_fit", "bucket_by_length", "batch_by_cost", "flat_map"],
)
@pytest.mark.parametrize("is_resumed", [False, True])
def test_an_interrupt_loses_and_repeats_nothing(pipeline, is_resumed):
    source = Interrupted()
    dataset = pipeline(MapDataset.source(source).to_iter_dataset(INLINE))
    iterator = iter(dataset)
    states, elements = [iterator.get_state()], []
    for element in iterator:
        elements.append(plain(element))
        states.append(iterator.get_state())
    for position, state in enumerate(states):
        iterator = iter(dataset)
        found = [plain(next(iterator)) for _ in range(position)]
        if is_resumed:
            iterator.set_state(state)
        source.is_due = True
        with contextlib.suppress(KeyboardInterrupt):
            found.extend(map(plain, iterator))
        again = iter(dataset)
        source.is_due = False
        again.set_state(iterator.get_state())
        assert found + list(map(plain, again)) == elements
        assert found + list(map(plain, iterator)) == elements


class InterruptedDocument(dict):
    """A document of which one look into it is interrupted."""

    def __init__(self, *args, looks):
        super().__init__(*args)
        self.looks = looks

    def _look(self):
        self.looks -= 1
        if not self.looks:
            raise KeyboardInterrupt

    def __getitem__(self, name):
        self._look()
        return super().__getitem__(name)

    def __len__(self):
        self._look()
        return super().__len__()


@pytest.mark.parametrize("looks", [1, 2, 3])
@pytest.mark.parametrize(
    "pipeline",
    [
        lambda documents: documents.concat_and_split(length_struct={"tokens": 3, "name": 4}, meta_features=["name"]),
        lambda documents: documents.pack_first_fit(
            length_struct={"tokens": 4}, num_packing_bins=3, meta_features=["name"], shuffle_bins=False
        ),
    ],
    ids=["concat_and_split", "pack_first_fit"],
)
def test_an_interrupt_in_the_middle_of_packing_loses_and_repeats_nothing(pipeline, looks):
    documents = [{"tokens": np.full(1 + number % 4, number + 1), "name": np.array([number])} for number in range(9)]
    expected = list(map(plain, pipeline(MapDataset.source(documents).to_iter_dataset(INLINE))))
    documents[4] = InterruptedDocument(documents[4], looks=looks)
    iterator, found = iter(pipeline(MapDataset.source(documents).to_iter_dataset(INLINE))), []
    for _ in range(2):
        with contextlib.suppress(KeyboardInterrupt):
            found.extend(map(plain, iterator))
    assert found == expected
