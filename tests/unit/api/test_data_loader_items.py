"""DataLoader: generators of what is made of a part of a record."""

import numpy as np
import pytest

import grain
from grain import Batch, DataLoader, IndexSampler, NoSharding, Record, RecordMetadata


class Draw(grain.RandomMapTransform):
    def random_map(self, element, rng):
        return element, int(rng.integers(2**40))


class TfDraw(grain.TfRandomMap):
    def np_random_map(self, element, rng):
        return Draw().random_map(element, rng)


class Halves(grain.Operation):
    def __call__(self, input_iterator):
        for record in input_iterator:
            yield Record(record.metadata, record.data / 2)


def loader(*operations, records=9, sampler=None, **kwargs):
    sampler = sampler or IndexSampler(records, num_epochs=1, seed=5)
    return DataLoader(data_source=range(records), sampler=sampler, operations=operations, **kwargs)


class Thrice(grain.experimental.FlatMapTransform):
    max_fan_out = 3

    def flat_map(self, element):
        return [element] * 3


class Rows(Thrice):
    def flat_map(self, element):
        return list(element)


class DrawMore(grain.RandomMapTransform):
    def random_map(self, element, rng):
        return element[0], (element[1], int(rng.integers(2**40)))


@pytest.mark.parametrize(
    "operations",
    {
        "an item": [Thrice(), Draw()],
        "an item, by the older method": [Thrice(), TfDraw()],
        "an item of an item": [Thrice(), Thrice(), Draw()],
        "an item of a batch": [Batch(2), Rows(), Draw()],
        "a batch of items": [Thrice(), Batch(2, batch_fn=sum), Draw()],
        "an item of a record that has drawn": [Draw(), Thrice(), DrawMore()],
        "an item after an operation on iterators": [Halves(), Thrice(), Draw()],
    }.values(),
)
def test_what_is_made_of_a_part_of_a_record_has_a_generator_of_its_own(operations):
    whole = list(loader(*operations, records=6))
    assert len({drawn for _, drawn in whole}) == len(whole)
    assert list(loader(*operations, records=6)) == whole
    iterator = iter(loader(*operations, records=6))
    for position in range(len(whole)):
        resumed = iter(loader(*operations, records=6))
        resumed.set_state(iterator.get_state())
        assert list(resumed) == whole[position:]
        next(iterator)


@pytest.mark.parametrize("worker_count", [1, 2, 3])
def test_generators_of_items_do_not_depend_on_workers(worker_count):
    sampler = IndexSampler(9, shuffle=True, num_epochs=2, seed=5)
    drawn = sorted(loader(Thrice(), Draw(), sampler=sampler))
    assert sorted(loader(Thrice(), Draw(), sampler=sampler, worker_count=worker_count)) == drawn


class UsersSampler:
    def __len__(self):
        return 3

    def __getitem__(self, index):
        return RecordMetadata(index, index, np.random.default_rng(index))


def test_generators_of_items_with_a_users_sampler():
    def draws():
        return list(loader(Thrice(), Draw(), sampler=UsersSampler(), shard_options=NoSharding()))

    assert draws() == draws()
    assert len(set(draws())) == 9
