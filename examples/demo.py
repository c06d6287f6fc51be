"""A small pipeline, stopped after a few batches and resumed exactly where it was."""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

import grain

WAVES = {
    "sine": np.sin,
    "square": lambda phase: np.sign(np.sin(phase)),
    "saw": lambda phase: phase / np.pi % 2 - 1,
}
PHASES = (np.arange(48) + 0.5) * np.pi / 12


def make_wave(index):
    name = list(WAVES)[index % len(WAVES)]
    return {"index": index, "name": name, "signal": WAVES[name](PHASES)}


def augment(wave, rng):
    """Shifts and scales the signal at random."""
    signal = np.roll(wave["signal"], rng.integers(PHASES.size)) * rng.uniform(0.4, 1.0)
    return wave | {"signal": signal}


def make_pipeline(seed):
    return (
        grain.MapDataset.range(18)
        .seed(seed)
        .shuffle()
        .map(make_wave)
        .random_map(augment)
        .batch(3)
        .to_iter_dataset(grain.ReadOptions(num_threads=0, prefetch_buffer_size=0))
    )


def show(number, batch):
    print(f"\n  batch {number}")
    for index, name, signal in zip(batch["index"], batch["name"], batch["signal"], strict=True):
        levels = np.clip((signal + 1) * 4, 0, 7).astype(int)
        print(f"    {index:3}  {name:<7} {''.join('▁▂▃▄▅▆▇█'[level] for level in levels)}")


def same(left, right):
    return left.keys() == right.keys() and all(np.array_equal(left[key], right[key]) for key in left)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=42, help="decides the order and the augmentation (default: 42)")
    pipeline = make_pipeline(parser.parse_args().seed)

    print("18 waves, shuffled, augmented and batched by 3:")
    iterator = iter(pipeline)
    for number in range(3):
        show(number, next(iterator))

    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder, "state.json")
        checkpoint.write_text(json.dumps(iterator.get_state()))
        print(f"\nStopped. The state is all there is to save:\n\n  {checkpoint.read_text()}")
        resumed = iter(pipeline)
        resumed.set_state(json.loads(checkpoint.read_text()))

    print("\nResumed from it on a fresh iterator:")
    expected, rest = list(iterator), list(resumed)
    for number, batch in enumerate(rest, start=3):
        show(number, batch)
    if len(rest) != len(expected) or not all(map(same, rest, expected)):
        sys.exit("\nFAILED: the resumed batches differ from those of the iterator that was never stopped.")
    print(f"\nOK: all {len(rest)} resumed batches are exactly those of the iterator that was never stopped.")


if __name__ == "__main__":
    main()
