"""Grain reads and transforms data for training, deterministically, and resumes exactly where it was stopped.

>>> import grain
>>> dataset = grain.MapDataset.range(10).shuffle(seed=42).map(lambda x: x * 2).batch(4)
>>> list(dataset)
[array([16, 12, 14, 18]), array([ 0, 10,  2,  4]), array([8, 6])]
"""

import sys

from grain import (
    checkpoint,
    constants,
    experimental,
    multiprocessing,
    samplers,
    sharding,
    sources,
    transforms,
)
from grain.api.data_loader import DataLoader, DataLoaderIterator, load
from grain.api.dataset_iterator import DatasetIterator
from grain.api.iter_dataset import IterDataset
from grain.api.map_dataset import MapDataset
from grain.checkpoint import *  # noqa: F403
from grain.config import config
from grain.constants import *  # noqa: F403
from grain.elements.record import Record, RecordMetadata
from grain.experimental import *  # noqa: F403
from grain.multiprocessing import *  # noqa: F403
from grain.ops import operations
from grain.ops.operations import *  # noqa: F403
from grain.options import ReadOptions
from grain.public_names import complete, found_in
from grain.samplers import *  # noqa: F403
from grain.sharding import *  # noqa: F403
from grain.sources import *  # noqa: F403
from grain.transforms import *  # noqa: F403

PyGrainDatasetIterator = DataLoaderIterator
# `grain.sources.write` reads pipelines, so its home is above sources.
sources.FOUND_LATER |= found_in({"grain.writing.jobs": ["write"]})

__version__ = "0.3.0"
__version_info__ = tuple(int(part) for part in __version__.split("."))

__all__ = [
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
    "checkpoint",
    "config",
    "constants",
    "experimental",
    "load",
    "multiprocessing",
    "samplers",
    "sharding",
    "sources",
    "transforms",
]
for module in (
    checkpoint,
    constants,
    experimental,
    multiprocessing,
    operations,
    samplers,
    sharding,
    sources,
    transforms,
):
    __all__ += module.__all__
    complete(module, getattr(module, "FOUND_LATER", {}))
FOUND_LATER = {**checkpoint.FOUND_LATER, **experimental.FOUND_LATER, **sources.FOUND_LATER}
complete(sys.modules[__name__], FOUND_LATER)
del module
