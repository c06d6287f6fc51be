"""The sources of files, by name: each is imported when it is first used, because `import grain` is to be fast."""

from __future__ import annotations

from grain.public_names import found_in

FILE_SOURCES = found_in(
    {
        "grain.sources.array_record": ["ArrayRecordDataSource"],
        "grain.sources.arrow": ["ArrowDataSource"],
        "grain.sources.csv": ["CsvDataSource"],
        "grain.sources.image_folder": ["ImageFolderDataSource"],
        "grain.sources.json_lines": ["JsonLinesDataSource"],
        "grain.sources.numpy_arrays": ["NumpyDataSource"],
        "grain.sources.parquet": ["ParquetDataSource"],
        "grain.sources.tfrecord": ["TFRecordDataSource"],
        "grain.sources.webdataset": ["WebDatasetDataSource"],
    }
)
