"""A folder of pictures, in sub-folders by what they show."""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence
from typing import Any, SupportsIndex

from grain.escaping import printable, printable_message
from grain.files.folders import files_below
from grain.files.paths import PathLike, read_whole
from grain.sources.decoding import IMAGES, picture


class ImageFolderDataSource:
    """Pictures with the number of the sub-folder they are in: dicts of an `image`, an array of uint8, and a `label`.

    Sub-folders are numbered in the order of their names, which are `classes`; pictures come in the order of their
    paths, without hidden ones. Without `decode`, an `image` is the bytes of its file.

    An `image` has three colours, without transparency. Of pixels with more than eight bits the eight most significant
    ones are kept, so that white is the largest number that their type can hold; floats are from 0, black, to 1, white.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("dog", "cat"):
    ...         pathlib.Path(folder, name).mkdir()
    ...         _ = pathlib.Path(folder, name, "1.png").write_bytes(name.encode())
    ...     source = ImageFolderDataSource(folder, decode=False)
    ...     source.classes, source[1]
    (('cat', 'dog'), {'image': b'dog', 'label': 1})
    """

    def __init__(self, folder: PathLike, *, decode: bool = True) -> None:
        self._folder, self._decode = os.fsdecode(folder).rstrip("/"), decode
        sizes = files_below(self._folder)
        self._names = sorted(filter(_is_labelled_picture, sizes), key=lambda name: name.split("/"))
        self._sizes = {name: size for name, size in sizes.items() if size is not None}
        if not self._names:
            raise ValueError(
                f"No pictures in sub-folders of {self._folder!r}: expected some of {', '.join(IMAGES)} in folders that "
                "are named after what they show."
            )
        self.classes = tuple(sorted({name.partition("/")[0] for name in self._names}))
        self._labels = {name: number for number, name in enumerate(self.classes)}

    @property
    def paths(self) -> list[str]:
        """The pictures, in order."""
        return [f"{self._folder}/{name}" for name in self._names]

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, record_key: SupportsIndex) -> dict[str, Any]:
        return self.__getitems__([operator.index(record_key)])[0]

    def __getitems__(self, record_keys: Sequence[int]) -> list[dict[str, Any]]:
        count = len(self)
        for key in record_keys:
            if not -count <= key < count:
                raise IndexError(f"Index {key} out of range for {count} records.")
        names = [self._names[key] for key in record_keys]
        files = read_whole([f"{self._folder}/{name}" for name in names], [self._sizes.get(name) for name in names])
        return [self._record(*found) for found in zip(names, files, strict=True)]

    def _record(self, name: str, file: bytes) -> dict[str, Any]:
        label = self._labels[name.partition("/")[0]]
        if not self._decode:
            return {"image": file, "label": label}
        try:
            return {"image": picture(file), "label": label}
        except ImportError:
            raise
        except Exception as error:
            path = printable(f"{self._folder}/{name}")
            raise ValueError(f"{path} cannot be read as a picture: {printable_message(error)}") from error

    def __repr__(self) -> str:
        return f"ImageFolderDataSource({self._folder!r}{'' if self._decode else ', decode=False'})"


def _is_labelled_picture(name: str) -> bool:
    """Whether a path is that of a picture in a sub-folder; notebooks and some systems leave hidden ones beside them."""
    is_hidden = any(part.startswith(".") for part in name.split("/"))
    return "/" in name and not is_hidden and name.rpartition(".")[2].lower() in IMAGES
