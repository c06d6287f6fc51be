"""`grain.sources`: where records come from."""

from typing import TYPE_CHECKING

from grain.public_names import found_in
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

# A source of files brings modules that `import grain` alone need not wait for.
FOUND_LATER = found_in(
    {
        "grain.sources.array_record": ["ArrayRecordDataSource"],
        "grain.sources.arrow": ["ArrowDataSource"],
        "grain.sources.csv": ["CsvDataSource"],
        "grain.sources.detection": ["open_source"],
        "grain.sources.image_folder": ["ImageFolderDataSource"],
        "grain.sources.json_lines": ["JsonLinesDataSource"],
        "grain.sources.numpy_arrays": ["NumpyDataSource"],
        "grain.sources.parquet": ["ParquetDataSource"],
        "grain.sources.tfrecord": ["TFRecordDataSource"],
        "grain.sources.webdataset": ["WebDatasetDataSource"],
    }
)
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
