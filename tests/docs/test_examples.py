"""The programs in examples/ do what they say."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from support.programs import Program

EXAMPLES = Path(__file__).parents[2] / "examples"

# What each one needs, and what it says in the end.
PROGRAMS = {
    "cifar_pickles": ([], r"300 pictures .* \(12, 32, 32, 3\) uint8"),
    "flax_dataloader": (["flax", "sklearn"], r"accuracy 9\d\.\d%"),
    "hugging_face": (["datasets"], "15 batches"),
    "image_folder": (["PIL"], r"\(8, 64, 64, 3\) uint8 \[.*'cats'.*\]"),
    "jax_two_processes": (["jax"], r"loss 0\.0000, weights \[ 2\. -3\.\], batches of \(16, 2\)"),
    "torch_training": (["torch"], "resumed exactly: True"),
}


def run(name, *arguments, folder, needs):
    for module in needs:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    program = Program([str(EXAMPLES / f"{name}.py"), *arguments], cwd=folder, JAX_PLATFORMS="cpu")
    code, output, errors = program.finish(timeout=400)
    assert code == 0, output + errors
    return output


@pytest.mark.parametrize("name", PROGRAMS)
def test_example(name, tmp_path):
    needs, said = PROGRAMS[name]
    output = run(name, folder=tmp_path, needs=needs)
    assert re.search(said, output.strip().splitlines()[-1]), output


def test_demo(tmp_path):
    output = run("demo", "--steps=60", "--workers=1", folder=tmp_path, needs=["flax", "sklearn", "matplotlib"])
    assert re.search(r"killed after step [345]\d\n", output)
    assert re.search(r"resumed after step \d+\n", output)
    assert "OK: the losses of every step are the same, to the last bit." in output
    assert {path.name for path in tmp_path.glob("demo-output/*.png")} == {"batches.png", "curves.png"}


def test_every_example_is_run():
    here = {path.stem for path in EXAMPLES.glob("*.py")}
    assert here == {*PROGRAMS, "demo", "digits", "train_digits"}


@pytest.fixture
def train_digits(monkeypatch):
    pytest.importorskip("flax")
    pytest.importorskip("sklearn")
    monkeypatch.syspath_prepend(EXAMPLES)
    yield importlib.import_module("train_digits")
    for name in ("train_digits", "digits"):
        del sys.modules[name]


@pytest.mark.parametrize(
    ("loader", "workers"), [("dataset", 0), ("dataset", 1), ("dataset", 2), ("dataset", 4), ("dataloader", 2)]
)
def test_resumed_training_equals_an_undisturbed_one(train_digits, loader, workers, tmp_path):
    def losses(training, steps):
        return [loss for loss, _ in (training.advance() for _ in range(steps))]

    undisturbed = train_digits.Training(loader, tmp_path / "data", workers, tmp_path)
    first = losses(undisturbed, 3)
    undisturbed.save()
    rest = losses(undisturbed, 4)
    undisturbed.close()
    resumed = train_digits.Training(loader, tmp_path / "data", workers, tmp_path)
    assert resumed.step == 3
    assert losses(resumed, 4) == rest
    assert len({*first, *rest}) == 7
    resumed.close()
