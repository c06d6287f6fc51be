"""A source of one's own: pictures in pickles, as CIFAR-10 comes."""

import bisect
import pickle
import sys
import tempfile
from functools import cached_property
from pathlib import Path

import numpy as np

import grain


class CifarSource:
    """The pictures of all files `data_batch_*` in a folder, which are read when they are first needed.

    Pictures lie in the files as rows of 3 x 32 x 32 bytes. A pickle can run any code: open only files that you trust.
    """

    def __init__(self, folder):
        self.paths = sorted(Path(folder).glob("data_batch_*"))
        if not self.paths:
            raise FileNotFoundError(f"There is no file data_batch_* in {folder}.")

    @cached_property
    def _files(self):
        return [pickle.loads(path.read_bytes(), encoding="bytes") for path in self.paths]

    @cached_property
    def _ends(self):
        return np.cumsum([len(file[b"labels"]) for file in self._files]).tolist()

    def __len__(self):
        return self._ends[-1]

    def __getitem__(self, index):
        place = bisect.bisect_right(self._ends, index)
        file, row = self._files[place], index - (self._ends[place - 1] if place else 0)
        pixels = file[b"data"][row].reshape(3, 32, 32).transpose(1, 2, 0)
        return {"image": pixels, "label": file[b"labels"][row]}

    def __getstate__(self):
        return {"paths": self.paths}  # each worker reads the files itself

    def __repr__(self):
        return f"CifarSource({[path.name for path in self.paths]})"


def flip(record, rng):
    """Every other picture, mirrored."""
    return record | {"image": record["image"][:, ::-1]} if rng.random() < 0.5 else record


def write_files_like_cifar(folder):
    rng = np.random.default_rng(0)
    for number in range(1, 4):
        contents = {
            b"data": rng.integers(0, 256, (100, 3_072), np.uint8),
            b"labels": rng.integers(0, 10, 100).tolist(),
        }
        Path(folder, f"data_batch_{number}").write_bytes(pickle.dumps(contents))


def main(folder):
    source = CifarSource(folder)
    dataset = (
        grain.MapDataset.source(source)
        .seed(7)
        .shuffle()
        .random_map(flip)
        .batch(32)
        .to_iter_dataset()
        .mp_prefetch(grain.MultiprocessingOptions(num_workers=2))
    )
    count = 0
    for batch in dataset:
        count += len(batch["label"])
    print(f"{count} pictures of {source!r}; the last batch has images {batch['image'].shape} {batch['image'].dtype}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as scratch:
            write_files_like_cifar(scratch)
            main(scratch)
