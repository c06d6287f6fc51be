"""Datasets of other libraries as sources: as they are, in batches, with threads and workers, and in a DataLoader."""

from itertools import chain

import numpy as np
import pytest

import grain
from grain import DataLoader, IndexSampler, MapDataset, MultiprocessingOptions, ReadOptions

COUNT = 24
ORDER = list(MapDataset.range(COUNT).shuffle(seed=3))


@pytest.fixture(scope="module")
def hugging_face():
    datasets = pytest.importorskip("datasets")
    return datasets.Dataset.from_dict({"number": list(range(COUNT)), "name": [f"n{number}" for number in range(COUNT)]})


@pytest.fixture(scope="module")
def torch_dataset():
    pytest.importorskip("torch")
    from torch.utils.data import Dataset, Subset

    class Numbers(Dataset):
        def __len__(self):
            return COUNT

        def __getitem__(self, index):
            return {"number": index, "name": f"n{index}"}

        def __getitems__(self, indices):
            return [self[index] for index in indices]

    return Subset(Numbers(), range(COUNT))


@pytest.fixture(scope="module")
def tfds_source(tmp_path_factory):
    pytest.importorskip("tensorflow_datasets")
    import tensorflow_datasets as tfds

    class Numbers(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")

        def _info(self):
            features = tfds.features.FeaturesDict({"number": np.int64, "name": tfds.features.Text()})
            return tfds.core.DatasetInfo(builder=self, features=features, disable_shuffling=True)

        def _split_generators(self, dl_manager):
            return {"train": self._generate_examples()}

        def _generate_examples(self):
            for number in range(COUNT):
                yield number, {"number": number, "name": f"n{number}"}

    builder = Numbers(data_dir=tmp_path_factory.mktemp("tfds"), file_format="array_record")
    builder.download_and_prepare()
    # Of a class that workers can import: TFDS lets none of its classes be made twice, as one by value would be.
    return tfds.builder_from_directory(builder.data_dir).as_data_source(split="train")


@pytest.fixture(params=["hugging_face", "torch_dataset", "tfds_source"])
def source(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def asked(source, monkeypatch):
    """What a source is asked for, with each call of `__getitems__`."""
    calls, original = [], type(source).__getitems__

    def recorded(self, indices):
        calls.append(list(indices))
        return original(self, indices)

    monkeypatch.setattr(type(source), "__getitems__", recorded)
    return calls


def numbers(batches):
    return [batch["number"].tolist() for batch in batches]


def in_batches(order, size=8):
    return [order[start : start + size] for start in range(0, len(order), size)]


@pytest.mark.parametrize("num_threads", [0, 4])
def test_a_batch_is_read_in_one_call(num_threads, source, asked):
    dataset = MapDataset.source(source).shuffle(seed=3).batch(8)
    stream = dataset.to_iter_dataset(ReadOptions(num_threads=num_threads, prefetch_buffer_size=4))
    assert numbers(stream) == in_batches(ORDER)
    assert sorted(asked) == sorted(in_batches(ORDER))


def test_batches_of_a_stream_are_read_in_one_call(source, asked):
    dataset = MapDataset.source(source).shuffle(seed=3).to_iter_dataset(ReadOptions(num_threads=0)).batch(8)
    assert numbers(dataset) == in_batches(ORDER)
    assert asked == in_batches(ORDER)


def test_records_by_index(source):
    dataset = MapDataset.source(source)
    assert len(dataset) == COUNT
    assert [int(dataset[index]["number"]) for index in (3, COUNT + 1, -1)] == [3, 1, COUNT - 1]
    name = dataset[3]["name"]
    assert (name.decode() if isinstance(name, bytes) else name) == "n3"


def test_workers(source):
    dataset = MapDataset.source(source).shuffle(seed=3).batch(8)
    options = MultiprocessingOptions(num_workers=2)
    assert numbers(dataset.to_iter_dataset().mp_prefetch(options)) == in_batches(ORDER)


@pytest.mark.parametrize("worker_count", [0, 2])
def test_data_loader(worker_count, source):
    sampler = IndexSampler(COUNT, num_epochs=1, shuffle=True, seed=3)
    loader = DataLoader(data_source=source, sampler=sampler, operations=[grain.Batch(4)], worker_count=worker_count)
    iterator = iter(loader)
    first = numbers([next(iterator)])
    state = iterator.get_state()
    rest = numbers(iterator)
    assert sorted(chain.from_iterable(first + rest)) == list(range(COUNT))
    again = iter(loader)
    again.set_state(state)
    assert numbers(again) == rest
