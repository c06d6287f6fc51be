"""`grain.sources`: where records come from."""

from grain.sources.in_memory import SharedMemoryDataSource
from grain.sources.random_access import RandomAccessDataSource, RangeDataSource

InMemoryDataSource = SharedMemoryDataSource

__all__ = ["InMemoryDataSource", "RandomAccessDataSource", "RangeDataSource", "SharedMemoryDataSource"]
