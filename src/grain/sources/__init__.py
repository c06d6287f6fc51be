"""`grain.sources`: where records come from."""

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
        "grain.writing.jobs": ["write"],
    }
)
