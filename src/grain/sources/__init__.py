"""`grain.sources`: where records come from."""

from typing import TYPE_CHECKING

from grain.public_names import found_in
from grain.sources.file_sources import FILE_SOURCES
from grain.sources.in_memory import SharedMemoryDataSource
from grain.sources.random_access import ColumnarDataSource, RandomAccessDataSource, RangeDataSource

InMemoryDataSource = SharedMemoryDataSource

__all__ = [
    "ColumnarDataSource",
    "InMemoryDataSource",
    "RandomAccessDataSource",
    "RangeDataSource",
    "SharedMemoryDataSource",
]

FOUND_LATER = {**FILE_SOURCES, **found_in({"grain.sources.detection": ["open_source"]})}
if TYPE_CHECKING:
    from grain.sources.array_record import ArrayRecordDataSource
    from grain.sources.arrow import ArrowDataSource
    from grain.sources.csv import CsvDataSource
    from grain.sources.detection import open_source
    from grain.sources.image_folder import ImageFolderDataSource
    from grain.sources.json_lines import JsonLinesDataSource
    from grain.sources.numpy_arrays import NumpyDataSource
    from grain.sources.parquet import ParquetDataSource
    from grain.sources.tfrecord import TFRecordDataSource
    from grain.sources.webdataset import WebDatasetDataSource
    from grain.writing.jobs import write

    __all__ += ["ArrayRecordDataSource", "ArrowDataSource", "CsvDataSource", "ImageFolderDataSource"]
    __all__ += ["JsonLinesDataSource", "NumpyDataSource", "ParquetDataSource", "TFRecordDataSource"]
    __all__ += ["WebDatasetDataSource", "open_source", "write"]
