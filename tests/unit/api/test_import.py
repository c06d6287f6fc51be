"""What `import grain` brings, and what it leaves alone."""

import importlib
import subprocess
import sys

import pytest

import grain
import grain.experimental
import grain.python
import grain.python.experimental

HEAVY = ["jax", "jaxlib", "tensorflow", "torch", "orbax", "pyarrow", "absl", "etils", "array_record", "cloudpickle"]


@pytest.mark.parametrize("module", ["grain", "grain.experimental", "grain.python", "grain.python.experimental"])
def test_nothing_heavy_is_imported(module):
    script = f"""
import sys
before = set(sys.modules)
import {module}
found = {{name.partition(".")[0] for name in set(sys.modules) - before}} & set({HEAVY!r})
assert not found, found
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_running_a_pipeline_imports_nothing_heavy_either():
    script = f"""
import sys, grain
dataset = grain.MapDataset.range(9).seed(1).shuffle().random_map(lambda x, rng: {{"x": x, "y": rng.random()}})
assert len(list(dataset.to_iter_dataset().batch(2))) == 5
found = {{name.partition(".")[0] for name in sys.modules}} & set({HEAVY!r})
assert not found, found
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_importing_starts_no_thread_and_says_nothing():
    script = "import threading, grain, grain.python; assert threading.active_count() == 1"
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], check=True, capture_output=True)
    assert (done.stdout, done.stderr) == (b"", b"")


def test_version():
    assert isinstance(grain.__version__, str)
    assert all(type(part) is int for part in grain.__version_info__)
    assert grain.__version__.startswith(".".join(map(str, grain.__version_info__)))


CONSTANTS = {
    "INDEX": "_index",
    "RECORD_KEY": "_record_key",
    "DATASET_INDEX": "_dataset_index",
    "EPOCH": "_epoch",
    "SEED": "_seed",
    "RECORD": "_record",
}
# older name -> name in grain.transforms
ALIASES = {
    "MapTransform": "Map",
    "FilterTransform": "Filter",
    "RandomMapTransform": "RandomMap",
    "MapWithIndexTransform": "MapWithIndex",
    "Batch": "Batch",
    "BatchTransform": "Batch",
    "DatasetSelectionMap": "DatasetSelectionMap",
    "Transformation": "Transformation",
    "Transformations": "Transformations",
}


@pytest.mark.parametrize("module", [grain, grain.python])
@pytest.mark.parametrize(("alias", "name"), ALIASES.items())
def test_older_names_of_transforms(module, alias, name):
    assert getattr(module, alias) is getattr(grain.transforms, name)


def test_aliases_of_grain_experimental():
    assert grain.experimental.FlatMapTransform is grain.transforms.FlatMap
    assert grain.experimental.MapWithIndexTransform is grain.transforms.MapWithIndex


@pytest.mark.parametrize(("name", "value"), CONSTANTS.items())
def test_constants(name, value):
    assert getattr(grain.constants, name) == value
    assert getattr(grain.python, name) == value


def test_meta_features():
    assert frozenset(CONSTANTS.values()) == grain.constants.META_FEATURES
    assert grain.python.META_FEATURES is grain.constants.META_FEATURES


@pytest.mark.parametrize(
    "name", ["constants", "experimental", "multiprocessing", "samplers", "sharding", "sources", "transforms"]
)
def test_submodules_are_there_at_once(name):
    script = f"import grain; grain.{name}"
    subprocess.run([sys.executable, "-c", script], check=True)
    assert importlib.import_module(f"grain.{name}") is getattr(grain, name)


def test_grain_python_experimental_is_there_at_once():
    subprocess.run([sys.executable, "-c", "import grain.python as grain; grain.experimental.RngPool"], check=True)


def test_factories_belong_to_the_class():
    dataset = grain.MapDataset.range(3)
    for name in ("source", "range", "mix", "select_from_datasets", "concatenate"):
        assert hasattr(grain.MapDataset, name)
        assert not hasattr(dataset, name)
        assert name not in dir(grain.MapDataset)
    assert not hasattr(grain.IterDataset, "source")
    assert not hasattr(dataset.to_iter_dataset(), "mix")
    assert list(type(dataset).range(2)) == [0, 1]


@pytest.mark.parametrize("name", [name for name in grain.experimental.__all__ if name.endswith("Dataset")])
def test_classes_of_operators_are_datasets(name):
    base = grain.IterDataset if "Iter" in name else grain.MapDataset
    assert issubclass(getattr(grain.experimental, name), base)
