"""Trains `train_digits.py` twice, once undisturbed and once killed in the middle and started again, and compares."""

import argparse
import json
import shutil
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path

import matplotlib
from digits import batches
from matplotlib import pyplot

OUTPUT = Path("demo-output")
DATA = OUTPUT / "data"
TRAINING = Path(__file__).with_name("train_digits.py")


def command(options, folder):
    """How the training program is started."""
    program = [sys.executable, str(TRAINING), "--data", str(DATA), "--output", str(folder)]
    chosen = {"steps": options.steps, "workers": options.workers, "loader": options.loader}
    every = max(1, options.steps // 5)
    return [*program, "--save-every", str(every), *(f"--{name}={value}" for name, value in chosen.items())]


def read_losses(folder):
    """The step and the loss of each line, in the order in which they were trained."""
    path = folder / "losses.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(int(step), float.fromhex(loss)) for step, loss in map(str.split, lines)]


def is_saved(folder):
    """Whether a checkpoint is complete: until then it has another name."""
    return any(path.name.isdigit() for path in folder.glob("checkpoints/*"))


def train_until_killed(options, folder):
    """Start the training, and kill it with SIGKILL a little after the middle."""
    process = subprocess.Popen(command(options, folder))
    while process.poll() is None:
        if len(read_losses(folder)) > options.steps * 0.55 and is_saved(folder):
            process.kill()
            break
        time.sleep(0.02)
    if process.wait() == 0:
        sys.exit("The training ended before it could be killed: take more --steps.")
    if process.returncode > 0:
        sys.exit("The training failed.")
    print(f"killed after step {len(read_losses(folder))}")


def compare(options, undisturbed, interrupted):
    """How often a loss of the interrupted training differs; steps that it trained twice count twice."""
    expected = dict(read_losses(undisturbed))
    losses = read_losses(interrupted)
    missing = set(range(1, options.steps + 1)) - dict(losses).keys()
    return len(missing) + sum(loss != expected[step] for step, loss in losses)


def draw_curves(undisturbed, interrupted, path):
    """Both curves, and where the second begins again."""
    figure, axes = pyplot.subplots(figsize=(8, 4), layout="constrained")
    axes.plot(*zip(*read_losses(undisturbed), strict=True), color="#c6dbef", linewidth=7, label="undisturbed")
    losses = read_losses(interrupted)
    again = next(place for place in range(1, len(losses)) if losses[place][0] <= losses[place - 1][0])
    axes.plot(*zip(*losses[:again], strict=True), color="#fd8d3c", linewidth=3, label="until it was killed")
    axes.plot(*zip(*losses[again:], strict=True), color="#08306b", linewidth=1, label="resumed")
    axes.set(xlabel="step", ylabel="loss")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


def draw_batches(options, path, rows=6, columns=16):
    """The first digits of the first batches, one batch in a row."""
    figure, grid = pyplot.subplots(rows, columns, figsize=(columns / 2, rows * 0.65), layout="constrained")
    with iter(batches(options.loader, DATA, options.workers)) as iterator:
        for axes, batch in zip(grid, islice(iterator, rows), strict=True):
            for place, image, label in zip(axes, batch["image"], batch["label"], strict=False):
                place.imshow(image, cmap="gray_r", vmin=0, vmax=1)
                place.set_title(int(label), fontsize=7)
    for place in grid.flat:
        place.axis("off")
    figure.savefig(path, dpi=150)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--workers", type=int, default=2, help="processes that make batches (default: 2)")
    parser.add_argument("--loader", choices=["dataset", "dataloader"], default="dataset")
    options = parser.parse_args()
    matplotlib.use("agg")
    start = time.perf_counter()

    undisturbed, interrupted = OUTPUT / "undisturbed", OUTPUT / "interrupted"
    shutil.rmtree(OUTPUT, ignore_errors=True)
    print("1. A training without interruption.")
    subprocess.run(command(options, undisturbed), check=True)
    print("\n2. The same again, killed with SIGKILL.")
    train_until_killed(options, interrupted)
    print("\n3. Started once more.")
    subprocess.run(command(options, interrupted), check=True)

    draw_curves(undisturbed, interrupted, OUTPUT / "curves.png")
    draw_batches(options, OUTPUT / "batches.png")
    print(f"\n{'':22}{'undisturbed':>14}{'interrupted':>14}")
    runs = {folder: json.loads((folder / "result.json").read_text()) for folder in (undisturbed, interrupted)}
    print(f"{'last loss':22}" + "".join(f"{read_losses(folder)[-1][1]:14.6f}" for folder in runs))
    print(f"{'accuracy':22}" + "".join(f"{result['accuracy']:14.1%}" for result in runs.values()))
    print(f"{'waiting for data':22}" + "".join(f"{result['waiting']:14.2%}" for result in runs.values()))
    print(f"{'steps trained':22}" + "".join(f"{len(read_losses(folder)):14}" for folder in runs))
    print(f"\n{time.perf_counter() - start:.0f} s; pictures in {OUTPUT}/")

    if different := compare(options, undisturbed, interrupted):
        sys.exit(f"FAILED: {different} losses differ.")
    print("OK: the losses of every step are the same, to the last bit.")


if __name__ == "__main__":
    main()
