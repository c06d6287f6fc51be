"""`grain.multiprocessing`: what worker processes are told, and arrays that processes share."""

from grain.options import MultiprocessingOptions
from grain.shared_memory import SharedMemoryArray, SharedMemoryArrayMetadata

__all__ = ["MultiprocessingOptions", "SharedMemoryArray", "SharedMemoryArrayMetadata"]
