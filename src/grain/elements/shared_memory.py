"""Arrays in shared memory, which other processes open by name.

A block is removed by whoever has marked it with `unlink_on_del`; if nobody has, by the program that made it, at its
end; and if that was killed, by Python's resource tracker. It is registered there when it is made, and only then: up
to Python 3.12 opening it registers it too, and a program that has merely read it would remove it.
"""

from __future__ import annotations

import atexit
import dataclasses
import math
import os
import sys
import types
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:  # what is behind them is slow to import: only when an array is made
    from multiprocessing.shared_memory import SharedMemory
    from queue import SimpleQueue

    import numpy.typing as npt

_made: dict[str, tuple[SharedMemory, int]] = {}
"""By name, the blocks that were made and not removed here, with the process that made them: a fork has them too."""


@dataclasses.dataclass(frozen=True, slots=True)
class SharedMemoryArrayMetadata:
    """What another process needs to know to open a `SharedMemoryArray`."""

    name: str
    shape: tuple[int, ...]
    dtype: npt.DTypeLike

    def close_and_unlink_shm(self) -> None:
        """Remove the block that nobody will open."""
        shm = _opened(self.name)
        shm.close()
        _remove(shm)


class SharedMemoryArray(np.ndarray):
    """An array in a named block of shared memory. It is pickled by that name, without its contents.

    Views share the block; copies, and what is calculated, are ordinary arrays.

    >>> array = SharedMemoryArray((2, 2), dtype=np.int64)
    >>> array.unlink_on_del()
    >>> array[:] = 7
    >>> SharedMemoryArray.from_metadata(array.metadata).sum()
    np.int64(28)
    """

    shm: SharedMemory | None = None
    _block: _Block | None = None

    def __new__(cls, shape: Iterable[int], dtype: npt.DTypeLike = float) -> SharedMemoryArray:
        shape, dtype = tuple(shape), np.dtype(dtype)
        size = math.prod(shape) * dtype.itemsize
        if size <= 0 or dtype.hasobject:
            reason = "it would be empty" if size <= 0 else "Python objects cannot be shared"
            raise ValueError(f"No SharedMemoryArray of shape {shape} and dtype {dtype}: {reason}. Use np.empty.")
        from multiprocessing.shared_memory import SharedMemory

        shm = SharedMemory(create=True, size=size)
        _made[shm.name] = shm, os.getpid()
        return cls.from_shared_memory(shm, shape, dtype)

    @classmethod
    def from_shared_memory(cls, shm: SharedMemory, shape: Any, dtype: npt.DTypeLike) -> SharedMemoryArray:
        """The array at the start of a block; it closes the block when it and its views are gone."""
        if np.dtype(dtype).hasobject:
            raise ValueError(f"No SharedMemoryArray of dtype {np.dtype(dtype)}: Python objects cannot be shared.")
        array = super().__new__(cls, shape, dtype, buffer=shm.buf)
        array.shm, array._block = shm, _Block(shm, array)
        # All views have this array as their base, so they are gone when it is.
        weakref.finalize(array, _release, array._block).atexit = False
        return array

    @classmethod
    def from_metadata(cls, metadata: SharedMemoryArrayMetadata) -> SharedMemoryArray:
        """The array that another process, or this one, described with `metadata`."""
        return cls.from_shared_memory(_opened(metadata.name), metadata.shape, metadata.dtype)

    def __array_finalize__(self, origin: Any) -> None:
        if isinstance(self.base, SharedMemoryArray):
            self.shm, self._block = self.base.shm, self.base._block

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        if array is self:  # given as `out`
            return array
        return array[()] if return_scalar else array.view(np.ndarray)

    @property
    def metadata(self) -> SharedMemoryArrayMetadata:
        """By which `from_metadata` opens it."""
        if self.shm is None or self._block is None or not self._block.starts_with(self):
            raise ValueError(
                f"This array of shape {self.shape} has no metadata, because it is a copy or a view of a part: copy it "
                "into a SharedMemoryArray of its own."
            )
        return SharedMemoryArrayMetadata(self.shm.name, self.shape, self.dtype)

    def unlink_on_del(self) -> None:
        """Remove the block, not only close it, when this array and its views are gone."""
        if self._block is not None:
            self._block.is_owned = True

    def __reduce__(self) -> Any:
        if self._block is None or not self._block.starts_with(self):
            return self.view(np.ndarray).copy().__reduce__()
        return SharedMemoryArray.from_metadata, (self.metadata,)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()

    @classmethod
    def enable_async_del(cls, num_threads: int = 1, max_outstanding_requests: int = 50) -> None:
        """Let threads close blocks from now on, in this process; they are closed at once where too many wait."""
        global _closing
        if _closing is None:
            _closing = _Closing(num_threads, max_outstanding_requests)


class _Block:
    """What all arrays in one block share."""

    def __init__(self, shm: SharedMemory, whole: SharedMemoryArray) -> None:
        self.shm, self.is_owned = shm, False
        self._address = _address(whole)

    def starts_with(self, array: SharedMemoryArray) -> bool:
        return array.flags.c_contiguous and _address(array) == self._address

    def close(self) -> None:
        self.shm.close()
        if self.is_owned:
            _remove(self.shm)


def _address(array: SharedMemoryArray) -> int:
    return array.__array_interface__["data"][0]  # type: ignore[no-any-return]


class _Closing:
    """Threads that close blocks."""

    def __init__(self, num_threads: int, most_waiting: int) -> None:
        import threading
        from queue import SimpleQueue

        self._most_waiting = most_waiting
        # Of this kind, because garbage collection may put a block while another is being put.
        self._waiting: SimpleQueue[_Block | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._close_all, name="grain-shared-memory", daemon=True)
            for _ in range(num_threads)
        ]
        for thread in self._threads:
            thread.start()

    def _close_all(self) -> None:
        while (block := self._waiting.get()) is not None:
            block.close()

    def close(self, block: _Block) -> None:
        if self._waiting.qsize() >= self._most_waiting:
            block.close()
        else:
            self._waiting.put(block)

    def finish(self) -> None:
        for _ in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join()


_closing: _Closing | None = None


def _release(block: _Block) -> None:
    if _closing is None:
        block.close()
    else:
        _closing.close(block)


def named_block(name: str, contents: npt.NDArray[Any]) -> SharedMemoryArray:
    """A copy of `contents` in a new block called `name`."""
    from multiprocessing.shared_memory import SharedMemory

    shm = SharedMemory(name, create=True, size=contents.nbytes)
    _made[shm.name] = shm, os.getpid()
    array = SharedMemoryArray.from_shared_memory(shm, contents.shape, contents.dtype)
    array[:] = contents
    return array


def opened_block(name: str) -> SharedMemoryArray:
    """The bytes of the block called `name`."""
    shm = _opened(name)
    return SharedMemoryArray.from_shared_memory(shm, (shm.size,), np.uint8)


def _opened(name: str) -> SharedMemory:
    """The block `name`, for which this process is not responsible."""
    from multiprocessing.shared_memory import SharedMemory

    if sys.version_info >= (3, 13):
        return _checked(SharedMemory(name, track=False))
    init = SharedMemory.__init__
    untracked: Any = types.SimpleNamespace(register=lambda name, kind: None)
    open_untracked = types.FunctionType(
        init.__code__, {**init.__globals__, "resource_tracker": untracked}, argdefs=init.__defaults__
    )
    shm = SharedMemory.__new__(SharedMemory)
    open_untracked(shm, name)
    return _checked(shm)


def _checked(shm: SharedMemory) -> SharedMemory:
    """The block, if it belongs to this user and to nobody else: what another has put there is not to be believed."""
    if sys.platform != "win32":
        found = os.fstat(shm._fd)  # type: ignore[attr-defined]
        if found.st_uid != os.geteuid() or found.st_mode & 0o077:
            name = shm.name
            shm.close()
            raise PermissionError(
                f"The block of shared memory {name!r} belongs to user {found.st_uid} and has the mode "
                f"{found.st_mode & 0o777:o}: only those of this user ({os.geteuid()}) with the mode 600 are opened. "
                "Choose another name."
            )
    return shm


def _remove(shm: SharedMemory) -> None:
    """Remove a block and what the resource tracker knows of it, whoever made it, unless that has been done."""
    if sys.platform == "win32":  # there it goes when nobody has it open
        return
    from multiprocessing import resource_tracker

    _made.pop(shm.name, None)
    tracked = f"/{shm.name}", "shared_memory"
    resource_tracker.register(*tracked)  # it may be or not: to forget what is not there would be an error
    try:
        shm.unlink()
    except FileNotFoundError:
        resource_tracker.unregister(*tracked)
    else:
        if not getattr(shm, "_track", True):  # otherwise `unlink` has done so
            resource_tracker.unregister(*tracked)


@atexit.register
def _finish() -> None:
    global _closing
    if _closing is not None:
        finishing, _closing = _closing, None
        finishing.finish()
    mine = [shm for shm, process in _made.values() if process == os.getpid()]
    if mine:
        from multiprocessing import parent_process

        if parent_process() is None:  # a child may end before its parent has opened what it was sent
            for shm in mine:
                _remove(shm)


def _forget_threads() -> None:
    global _closing
    _closing = None


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_forget_threads)
