"""The data of `train_digits.py`. Workers import this file, so it does not import what only the training needs."""

from pathlib import Path

import numpy as np

import grain

SHARDS = 4
TRAINING_DIGITS = 1_500
BATCH_SIZE = 128
SEED = 42


def digits(folder):
    """The digits that scikit-learn brings, in files of ArrayRecords; each is 65 bytes, 8 x 8 pixels and the label."""
    paths = Path(folder, "digits-*.arrayrecord")
    if len(list(paths.parent.glob(paths.name))) < SHARDS:
        from sklearn.datasets import load_digits

        images, labels = load_digits(return_X_y=True)
        rows = np.column_stack([images, labels]).astype(np.uint8)
        paths.parent.mkdir(parents=True, exist_ok=True)
        grain.sources.write([row.tobytes() for row in rows], paths, shards=SHARDS, progress=False)
    return grain.ArrayRecordDataSource(paths)


class Decode(grain.transforms.Map):
    """Pixels between 0 and 1, and the label."""

    def map(self, record):
        values = np.frombuffer(record, np.uint8)
        return {"image": values[:64].reshape(8, 8).astype(np.float32) / 16, "label": values[64].astype(np.int32)}


class Augment(grain.transforms.RandomMap):
    """The digit moved by up to one pixel each way, darker, with a little noise."""

    def random_map(self, digit, rng):
        down, right = rng.integers(0, 3, size=2)
        frame = np.zeros((10, 10), np.float32)
        frame[1:9, 1:9] = digit["image"]
        moved = frame[down : down + 8, right : right + 8]
        return digit | {"image": moved * rng.uniform(0.7, 1.0) + 0.05 * rng.standard_normal((8, 8), np.float32)}


def dataset(folder, workers):
    """Endless batches, the same for any number of workers."""
    return (
        grain.MapDataset.source(digits(folder))[:TRAINING_DIGITS]
        .seed(SEED)
        .shuffle()
        .repeat()
        .map(Decode())
        .random_map(Augment())
        .batch(BATCH_SIZE)
        .to_iter_dataset()
        .mp_prefetch(grain.MultiprocessingOptions(num_workers=workers, per_worker_buffer_size=8))
    )


def data_loader(folder, workers):
    """The same by a DataLoader, in which each worker makes batches of its own share of the digits."""
    return grain.DataLoader(
        data_source=digits(folder),
        sampler=grain.IndexSampler(TRAINING_DIGITS, shuffle=True, seed=SEED),
        operations=[Decode(), Augment(), grain.Batch(BATCH_SIZE, drop_remainder=True)],
        worker_count=workers,
        worker_buffer_size=8,
    )


def batches(loader, folder, workers):
    """What the option --loader names."""
    return {"dataset": dataset, "dataloader": data_loader}[loader](folder, workers)


def kept_back(folder):
    """The digits that are not trained on, as one batch."""
    return grain.MapDataset.source(digits(folder))[TRAINING_DIGITS:].map(Decode()).batch(1_000)[0]
