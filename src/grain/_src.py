"""Private names of Grain that programs in use reach for, each with the name of who does.

`import grain._src.python.dataset.dataset` finds here a module that holds the names of the table and nothing else. A
new one is one line.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from grain.ops.process_prefetch import available_cpus

__path__: list[str] = []  # makes it a package, whose modules are all made here

ALIASES = [
    # who needs it, the module there, its names, the module here
    ("Keras", "python.ipc.shared_memory_array", "SharedMemoryArrayMetadata", "grain.elements.shared_memory"),
    ("Keras before 3.13", "python.shared_memory_array", "SharedMemoryArrayMetadata", "grain.elements.shared_memory"),
    ("AXLearn", "python.dataset.dataset", "MapDataset", "grain.api.map_dataset"),
    ("AXLearn", "python.dataset.dataset", "IterDataset", "grain.api.iter_dataset"),
    ("AXLearn", "python.dataset.dataset", "DatasetIterator", "grain.api.dataset_iterator"),
    ("AXLearn", "python.dataset.transformations.source", "SourceMapDataset", "grain.api.map_dataset"),
    ("AXLearn", "python.data_loader", "_determine_worker_count", __name__),
    ("AXLearn, datarax", "core.sharding", "even_split", "grain.sharding"),
    ("datarax", "core.sharding", "ShardOptions", "grain.sharding"),
    ("Kauldron", "core.constants", "*", "grain.constants"),
    ("MaxText", "python.dataset.sources.tfrecord_dataset", "_TFRecordReader", "grain.api.tfrecord_iterator"),
    ("MaxText", "python.dataset.sources.tfrecord_dataset", "_TFRecordDatasetIterator", "grain.api.tfrecord_iterator"),
    ("Orbax, in its checkpoints", "python.checkpoint.handler", "CheckpointHandler", "grain.checkpoint"),
]


def _determine_worker_count(input_worker_count: int | None) -> int:
    """How many workers a DataLoader that is told so starts."""
    return available_cpus() if input_worker_count is None else int(input_worker_count)


def _module(path: str) -> ModuleType:
    """The module `path` below this one, made with all that lead to it."""
    name = f"{__name__}.{path}"
    if name not in sys.modules:
        above, _, last = path.rpartition(".")
        parent = _module(above) if above else sys.modules[__name__]
        sys.modules[name] = made = ModuleType(name, f"Aliases: see {__name__}.")
        made.__path__ = []
        setattr(parent, last, made)
    return sys.modules[name]


for _, path, names, home in ALIASES:
    source = importlib.import_module(home)
    for alias in source.__all__ if names == "*" else [names]:
        setattr(_module(path), alias, getattr(source, alias))
