"""A folder of images, a class in each subfolder: decoded by threads, cropped at random, and batched."""

import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

import grain

CROP = 64


class ImageFolder:
    """The path of each image, and the number of the folder that it is in."""

    def __init__(self, folder):
        self.classes = sorted(path.name for path in Path(folder).iterdir() if path.is_dir())
        self.paths = sorted(path for path in Path(folder).glob("*/*") if path.suffix in {".jpg", ".jpeg", ".png"})

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        return {"path": path, "label": self.classes.index(path.parent.name)}

    def __repr__(self):
        return f"ImageFolder(classes={self.classes}, images={len(self)})"


def decode(record):
    """Pillow lets other threads run while it decodes."""
    with Image.open(record["path"]) as image:
        return {"image": np.asarray(image.convert("RGB")), "label": record["label"]}


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
    source = ImageFolder(folder)
    print(source)
    dataset = (
        grain.MapDataset.source(source)
        .seed(0)
        .shuffle()
        .map(decode)
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
