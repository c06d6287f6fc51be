"""NumPy's arrays as columns: in memory, or mapped from files."""

from __future__ import annotations

import mmap
import os
import struct
import zipfile
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from grain.elements.stacking import Allocate
from grain.elements.trees import branch_of, flatten_with_path, map_structure
from grain.fields import Frozen
from grain.files.cache_folder import local_copy
from grain.files.paths import File
from grain.files.systems import is_remote
from grain.files.versions import FileChangedError
from grain.sources.columns import gathered, row_of
from grain.sources.random_access import ColumnarDataSource

if TYPE_CHECKING:
    import numpy.typing as npt

_COUNTED_ELSEWHERE = 0xFFFF
"""In the place of the number of members, where these are too many for it."""


class NumpyDataSource(ColumnarDataSource[Any]):
    """Rows of a tree of arrays: of a dict of columns, for example. A batch is one gather of each array.

    A path is a `.npy` file, which is mapped into memory, or a `.npz` file, which is a dict of the arrays in it. Worker
    processes share arrays in memory with this one, and map files by themselves.

    >>> source = NumpyDataSource({"x": np.arange(6).reshape(3, 2), "y": np.array([0.5, 1.5, 2.5])})
    >>> source[1]
    {'x': array([2, 3]), 'y': np.float64(1.5)}
    >>> source.batch(np.array([2, 0]))
    {'x': array([[4, 5],
           [0, 1]]), 'y': array([2.5, 0.5])}
    """

    def __init__(self, arrays: Any) -> None:
        archive = os.fsdecode(arrays) if _is_path(arrays) and os.fsdecode(arrays).endswith(".npz") else None
        self._tree = map_structure(_column, arrays if archive is None else _loaded(archive))
        columns = flatten_with_path(self._tree)
        self._mapped = [column for _, column in columns if isinstance(column, _Mapped)]
        self._length = _common_length([(_name(path, column, archive), column) for path, column in columns])
        opened = map_structure(_array_of, self._tree)
        self._gather = _over(opened, lambda array: partial(gathered, array))
        self._pick = _over(opened, lambda array: partial(row_of, array))

    def __reduce__(self) -> Any:
        return NumpyDataSource, (self._tree,)

    @property
    def paths(self) -> list[str]:
        """The files that are mapped into memory."""
        return [mapped.path for mapped in self._mapped]

    def __len__(self) -> int:
        return self._length

    def _record(self, key: int) -> Any:
        self._check()
        return self._pick(key)

    def batch(self, record_keys: npt.NDArray[np.int64], allocate: Allocate | None = None) -> Any:
        self._check()
        return self._gather(record_keys, allocate)

    def __getitems__(self, record_keys: Sequence[int]) -> list[Any]:
        return _rows(self.batch(self._keys(record_keys)))

    def _check(self) -> None:
        for mapped in self._mapped:
            mapped.check()

    def __repr__(self) -> str:
        return f"NumpyDataSource({map_structure(_description, self._tree)})"


class _Mapped(Frozen):
    """An array in a file."""

    path: str
    offset: int
    dtype: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    size: int
    """The bytes of the file that it takes."""
    file: File | None
    """None for memory that the program has mapped, and may write to."""

    def array(self) -> Any:
        memory = np.memmap(self.path if self.file is None else local_copy(self.file), np.uint8, mode="r")
        array = np.ndarray(self.shape, self.dtype, memory, self.offset, self.strides)
        self.check()
        return array

    def check(self) -> None:
        """Raise an error where the file was changed, or where reading would end the process with a signal."""
        if self.file is not None:
            if not self.file.is_remote:  # a copy stays what it is
                self.file.check()
            return
        found = os.stat(self.path).st_size
        if found < self.size:
            raise ValueError(
                f"{self.path!r} has {found} bytes, and {self.size} are mapped into memory: it must not be changed "
                "while it is read."
            )

    def __len__(self) -> int:
        return self.shape[0]


def _is_path(value: Any) -> bool:
    return isinstance(value, str | bytes | os.PathLike)


def _loaded(path: str) -> dict[str, Any]:
    """The arrays of a `.npz` file."""
    try:
        file = File(path)
        with zipfile.ZipFile(local_copy(file)) as archive:
            _check_count(archive)
            if not archive.namelist():
                raise ValueError("there is no array in it")
            arrays = {member.removesuffix(".npy"): _member(archive, member) for member in archive.namelist()}
        if not file.is_remote:
            file.check()
        return arrays
    except (FileChangedError, FileNotFoundError, PermissionError):
        raise
    except Exception as error:  # a damaged archive raises whatever its decompressor does
        raise ValueError(f"{path!r} is not a .npz file, or is damaged: {error}") from error


def _check_count(archive: zipfile.ZipFile) -> None:
    """See that there are as many members as the end of the archive says: a wrong length in the directory hides some."""
    assert archive.fp is not None
    archive.fp.seek(archive.start_dir)
    end = archive.fp.read()
    (count,) = struct.unpack_from("<H", end, end.rindex(b"PK\5\6") + 10)
    found = len(archive.namelist())
    if count not in (found, _COUNTED_ELSEWHERE):
        raise ValueError(f"it has {count} members, of which {found} are in its directory")


def _member(archive: zipfile.ZipFile, name: str) -> Any:
    with archive.open(name) as file:
        array = np.lib.format.read_array(file, allow_pickle=False)
        # Only at the end of a member its checksum is looked at.
        if file.read(1):
            raise ValueError(f"{name!r} has more bytes than its header says")
    return array


def _column(leaf: Any) -> Any:
    """A leaf as an array, or as one that is mapped."""
    if isinstance(leaf, _Mapped):
        return leaf
    if _is_path(leaf):
        path = os.fsdecode(leaf)
        file = File(path if is_remote(path) else os.path.abspath(path))
        return _mapped(_opened(path, file), file)
    if isinstance(leaf, np.memmap) and leaf.filename is not None and leaf.mode != "c":
        return _mapped(leaf, None)
    if not hasattr(leaf, "__array__"):
        raise TypeError(
            f"Expected arrays, or paths of them, got {leaf!r} ({type(leaf).__name__}). Lists are structure, "
            "like dicts: write np.array([...]) for a list of values."
        )
    array = np.asarray(leaf)
    if array.dtype == object:
        raise TypeError(f"An array of objects cannot be gathered: {array!r}. For strings, use array.astype(str).")
    return array


def _opened(path: str, file: File) -> Any:
    try:
        local = local_copy(file)
        _check_header_length(local)
        array = np.load(local, mmap_mode="r")
    except (FileNotFoundError, PermissionError):
        raise
    except Exception as error:
        raise ValueError(f"{path!r} is not a .npy file, or is damaged: {error}") from error
    if not isinstance(array, np.memmap):
        raise ValueError(f"{path!r} is not a .npy file.")
    excess = os.path.getsize(local) - array.offset - array.nbytes
    if excess:
        raise ValueError(f"{path!r} has {excess} bytes more than its header says: it is damaged, or two files in one.")
    return array


def _check_header_length(path: str) -> None:
    """NumPy would make room for all that a header is said to have before it reads it."""
    with open(path, "rb") as file:
        start = file.read(12)
    length = int.from_bytes(start[8:10] if start[6:7] == b"\x01" else start[8:12], "little")
    if length > os.path.getsize(path):
        raise ValueError(f"its header is said to have {length} bytes")


def _mapped(array: Any, file: File | None) -> _Mapped:
    """Where an array is in its file, also where it is a part of one that was mapped."""
    mapped_from = array.offset - array.offset % mmap.ALLOCATIONGRANULARITY
    memory = np.frombuffer(array._mmap, np.uint8).ctypes.data
    offset = mapped_from + array.ctypes.data - memory
    end = mapped_from + np.lib.array_utils.byte_bounds(array)[1] - memory
    path = os.path.abspath(array.filename) if file is None else file.path
    return _Mapped(path, offset, array.dtype, array.shape, array.strides, end, file)


def _array_of(column: Any) -> Any:
    return column.array() if isinstance(column, _Mapped) else column


def _description(column: Any) -> str:
    where = f" in {column.path}" if isinstance(column, _Mapped) else ""
    return f"{column.dtype}{list(column.shape)}{where}"


def _name(path: Sequence[Any], column: Any, archive: str | None) -> str:
    file = column.path if isinstance(column, _Mapped) else archive
    return "".join(f"[{key!r}]" for key in path) + (f" of {file!r}" if file else "")


def _common_length(columns: Sequence[tuple[str, Any]]) -> int:
    if not columns:
        raise ValueError("Expected at least one array, got none.")
    for name, column in columns:
        if not column.shape:
            raise ValueError(f"The array{name} has no rows: its shape is ().")
    lengths = {name: len(column) for name, column in columns}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{length} in {name}" for name, length in lengths.items())
        raise ValueError(f"All arrays must have the same number of rows, got {told}.")
    return len(columns[0][1])


def _over(tree: Any, function_of: Callable[[Any], Callable[..., Any]]) -> Callable[..., Any]:
    """A function that calls those of all leaves: the tree is walked once, not for each batch."""
    branch = branch_of(tree)
    if branch is None:
        return function_of(tree)
    build, parts = branch.build, [_over(child, function_of) for child in branch.children]
    return lambda *args: build([part(*args) for part in parts])


def _rows(batch: Any) -> list[Any]:
    branch = branch_of(batch)
    if branch is None:
        return list(batch)
    return [branch.build(list(row)) for row in zip(*map(_rows, branch.children), strict=True)]
