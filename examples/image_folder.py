"""A folder of images, a class in each subfolder: decoded by threads, cropped at random, and batched."""

import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

import grain

CROP = 64


def random_crop(record, rng):
    """A square from anywhere in the image, every other one mirrored."""
    height, width, _ = record["image"].shape
    top, left = rng.integers(0, height - CROP + 1), rng.integers(0, width - CROP + 1)
    crop = record["image"][top : top + CROP, left : left + CROP]
    return record | {"image": crop[:, ::-1] if rng.random() < 0.5 else crop}


def write_some_images(folder):
    rng = np.random.default_rng(0)
    for name in ("cats", "dogs"):
        Path(folder, name).mkdir()
        for number in range(20):
            height, width = rng.integers(CROP, 2 * CROP, 2)
            pixels = rng.integers(0, 256, (height, width, 3), np.uint8)
            Image.fromarray(pixels).save(Path(folder, name, f"{number}.jpg"))


def main(folder):
    source = grain.sources.ImageFolderDataSource(folder)
    print(source)
    dataset = (
        grain.MapDataset.source(source)
        .seed(0)
        .shuffle()
        .random_map(random_crop)
        .batch(8, drop_remainder=True)
        .to_iter_dataset(grain.ReadOptions(num_threads=4, prefetch_buffer_size=16))
    )
    for batch in dataset:
        print(batch["image"].shape, batch["image"].dtype, [source.classes[label] for label in batch["label"]])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as scratch:
            write_some_images(scratch)
            main(scratch)
