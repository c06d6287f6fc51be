"""Grain reads and transforms data for training, deterministically, and resumes exactly where it was stopped.

>>> import grain
>>> dataset = grain.MapDataset.range(10).shuffle(seed=42).map(lambda x: x * 2).batch(4)
>>> list(dataset)
[array([16, 12, 14, 18]), array([ 0, 10,  2,  4]), array([8, 6])]
"""

from grain import constants, experimental, multiprocessing, transforms
from grain.config import config
from grain.constants import *  # noqa: F403
from grain.experimental import *  # noqa: F403
from grain.iter_dataset import IterDataset
from grain.iterator import DatasetIterator
from grain.map_dataset import MapDataset
from grain.multiprocessing import *  # noqa: F403
from grain.options import ReadOptions
from grain.transforms import *  # noqa: F403

__version__ = "0.3.0"
__version_info__ = tuple(int(part) for part in __version__.split("."))

__all__ = [
    "DatasetIterator",
    "IterDataset",
    "MapDataset",
    "ReadOptions",
    "__version__",
    "__version_info__",
    "config",
    "constants",
    "experimental",
    "multiprocessing",
    "transforms",
]
__all__ += [*constants.__all__, *experimental.__all__, *multiprocessing.__all__, *transforms.__all__]
