"""`grain.multiprocessing`: what worker processes are told, and arrays that processes share."""

from grain.elements.shared_memory import SharedMemoryArray, SharedMemoryArrayMetadata
from grain.options import MultiprocessingOptions

__all__ = ["MultiprocessingOptions", "SharedMemoryArray", "SharedMemoryArrayMetadata"]
