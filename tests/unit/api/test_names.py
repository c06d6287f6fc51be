"""The public names of every module, and the private ones that programs in use reach for."""

import importlib
import pkgutil
import subprocess
import sys

import pytest

import grain
import grain.python
from grain.api.tfrecord_iterator import _TFRecordDatasetIterator, _TFRecordReader

CHECKPOINT = {
    f"{prefix}Checkpoint{name}" for prefix in ("", "Grain", "PyGrain") for name in ("Handler", "Save", "Restore")
}
CONSTANTS = {"DATASET_INDEX", "EPOCH", "INDEX", "META_FEATURES", "RECORD", "RECORD_KEY", "SEED"}
EXPERIMENTAL = {
    "BOSHandling",
    "BestFitPackIterDataset",
    "CacheIterDataset",
    "ConcatThenSplitIterDataset",
    "DatasetOptions",
    "ElasticIterator",
    "ExecutionTrackingMode",
    "FirstFitPackIterDataset",
    "FlatMapIterDataset",
    "FlatMapMapDataset",
    "FlatMapTransform",
    "GeneratorIterDataset",
    "InterleaveIterDataset",
    "JsonLinesIterDataset",
    "LimitIterDataset",
    "MapWithIndexTransform",
    "PackAndBatchOperation",
    "PackingStatistics",
    "ParquetIterDataset",
    "PerformanceConfig",
    "RebatchIterDataset",
    "RepeatIterDataset",
    "RngPool",
    "ShapeDtypeStruct",
    "ShapeDtypeStructProtocol",
    "TFRecordIterDataset",
    "ThreadPrefetchDatasetIterator",
    "ThreadPrefetchIterDataset",
    "WebDatasetIterDataset",
    "WindowShuffleIterDataset",
    "WindowShuffleMapDataset",
    "WithOptionsIterDataset",
    "ZipIterDataset",
    "ZipMapDataset",
    "apply_transformations",
    "assert_equal_output_after_checkpoint",
    "batch_and_pad",
    "device_put",
    "get_element_spec",
    "get_mixture_counts",
    "get_next_index",
    "index_shuffle",
    "multithread_prefetch",
    "pick_performance_config",
    "set_next_index",
}
MULTIPROCESSING = {"MultiprocessingOptions", "SharedMemoryArray", "SharedMemoryArrayMetadata"}
TRANSFORMS = {
    "Batch",
    "BatchTransform",
    "DatasetSelectionMap",
    "Filter",
    "FilterTransform",
    "FlatMap",
    "FlatMapTransform",
    "Map",
    "MapTransform",
    "MapWithIndex",
    "MapWithIndexTransform",
    "Padding",
    "RandomMap",
    "RandomMapTransform",
    "TfRandomMap",
    "Transformation",
    "Transformations",
}
OPERATIONS = {"BatchOperation", "FilterOperation", "MapOperation", "Operation", "RandomMapOperation"}
SAMPLERS = {"IndexSampler", "Sampler", "SequentialSampler"}
SHARDING = {"NoSharding", "ShardByJaxProcess", "ShardOptions"}
SOURCES = {
    "ArrayRecordDataSource",
    "ArrowDataSource",
    "ColumnarDataSource",
    "CsvDataSource",
    "ImageFolderDataSource",
    "InMemoryDataSource",
    "JsonLinesDataSource",
    "NumpyDataSource",
    "ParquetDataSource",
    "RandomAccessDataSource",
    "RangeDataSource",
    "SharedMemoryDataSource",
    "TFRecordDataSource",
    "WebDatasetDataSource",
    "open_source",
    "write",
}
SUBMODULES = {
    "checkpoint",
    "constants",
    "experimental",
    "multiprocessing",
    "samplers",
    "sharding",
    "sources",
    "transforms",
}
OWN = {
    "DataLoader",
    "DataLoaderIterator",
    "DatasetIterator",
    "IterDataset",
    "MapDataset",
    "PyGrainDatasetIterator",
    "ReadOptions",
    "Record",
    "RecordMetadata",
    "__version__",
    "__version_info__",
    "config",
    "load",
}
DATASETS = CHECKPOINT | CONSTANTS | EXPERIMENTAL | MULTIPROCESSING | TRANSFORMS
TOP = OWN | SUBMODULES | DATASETS | OPERATIONS | SAMPLERS | SHARDING | SOURCES

PUBLIC = {
    "grain": TOP,
    "grain.checkpoint": CHECKPOINT,
    "grain.constants": CONSTANTS,
    "grain.experimental": EXPERIMENTAL,
    "grain.multiprocessing": MULTIPROCESSING,
    "grain.python": TOP,
    "grain.python.experimental": EXPERIMENTAL,
    "grain.samplers": SAMPLERS,
    "grain.sharding": SHARDING,
    "grain.sources": SOURCES,
    "grain.transforms": TRANSFORMS,
}


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names(name):
    module = importlib.import_module(name)
    assert set(dir(module)) == PUBLIC[name]
    assert all(hasattr(module, public) for public in PUBLIC[name])


@pytest.mark.parametrize("name", sorted(SUBMODULES - {"experimental"}))
def test_modules_can_be_imported_from_grain_python(name):
    assert importlib.import_module(f"grain.python.{name}") is importlib.import_module(f"grain.{name}")


@pytest.mark.parametrize("name", PUBLIC)
def test_names_are_the_same_objects_everywhere(name):
    module = importlib.import_module(name)
    for public in PUBLIC[name] - SUBMODULES:
        assert getattr(module, public) is getattr(grain, public)


def test_checkpoint_names_are_aliases():
    for name in ("CheckpointHandler", "CheckpointSave", "CheckpointRestore"):
        aliases = {getattr(grain, f"{prefix}{name}") for prefix in ("", "Grain", "PyGrain")}
        assert aliases == {getattr(grain.checkpoint, name)}


@pytest.mark.parametrize("name", PUBLIC)
def test_a_wrong_name_suggests_the_right_one(name):
    module = importlib.import_module(name)
    right = sorted(PUBLIC[name], key=len)[-1]
    for wrong in (right[:-1], right[:3] + right[4:], right.swapcase()):
        with pytest.raises(AttributeError) as caught:
            getattr(module, wrong)
        assert str(caught.value) == f"module {name!r} has no attribute {wrong!r}. Did you mean: {right!r}?"


def test_a_name_like_no_other():
    with pytest.raises(AttributeError) as caught:
        _ = grain.xyzzy
    assert str(caught.value) == "module 'grain' has no attribute 'xyzzy'"
    assert not hasattr(grain, "__xyzzy__")
    assert getattr(grain.python, "Xyzzy", None) is None


def test_import_star_imports_no_orbax():
    script = "import sys; from grain.python import *; MapDataset; assert 'orbax' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)


PRIVATE = {
    "grain._src.core.constants.INDEX": grain.constants.INDEX,
    "grain._src.core.sharding.ShardOptions": grain.ShardOptions,
    "grain._src.core.sharding.even_split": grain.sharding.even_split,
    "grain._src.python.checkpoint.handler.CheckpointHandler": grain.checkpoint.CheckpointHandler,
    "grain._src.python.dataset.dataset.DatasetIterator": grain.DatasetIterator,
    "grain._src.python.dataset.dataset.IterDataset": grain.IterDataset,
    "grain._src.python.dataset.dataset.MapDataset": grain.MapDataset,
    "grain._src.python.dataset.sources.tfrecord_dataset._TFRecordDatasetIterator": _TFRecordDatasetIterator,
    "grain._src.python.dataset.sources.tfrecord_dataset._TFRecordReader": _TFRecordReader,
    "grain._src.python.dataset.transformations.source.SourceMapDataset": type(grain.MapDataset.source([1])),
    "grain._src.python.ipc.shared_memory_array.SharedMemoryArrayMetadata": grain.SharedMemoryArrayMetadata,
    "grain._src.python.shared_memory_array.SharedMemoryArrayMetadata": grain.SharedMemoryArrayMetadata,
}


@pytest.mark.parametrize("path", PRIVATE)
def test_private_names_that_programs_use(path):
    assert pkgutil.resolve_name(path) is PRIVATE[path]


@pytest.mark.parametrize(
    "statement",
    [
        "import grain._src.python.dataset.dataset as dataset; dataset.MapDataset",
        "from grain._src.python.dataset import dataset; dataset.IterDataset",
        "from grain._src.core import constants; constants.INDEX",
        "from grain._src.python.data_loader import _determine_worker_count",
    ],
)
def test_ways_to_import_private_names(statement):
    subprocess.run([sys.executable, "-c", statement], check=True)


def test_worker_counts_as_a_data_loader_reads_them():
    determine = importlib.import_module("grain._src.python.data_loader")._determine_worker_count
    assert (determine(0), determine(3), determine(2.7)) == (0, 3, 2)
    assert determine(None) >= 1
    with pytest.raises(ValueError, match="several"):
        determine("several")


def test_a_private_name_that_nobody_asked_for():
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("grain._src.python.nothing")
