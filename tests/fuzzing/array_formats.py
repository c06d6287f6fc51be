"""Arrays and pictures."""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import numpy as np

from fuzzing.formats import Damaged, Format, Made, Unreadable, originals_only, same_as
from fuzzing.mutations import EXTREMES, replaced
from fuzzing.outcomes import Refused, exact
from grain import sources

_TYPES = ("<i8", "<f4", ">i4", "|u1", "|b1", "<U3", "|S5", "<M8[us]", "<c8", [("a", "<i4"), ("b", "<f8", (2,))])


def an_array(rng: Random, rows: int) -> np.ndarray:
    """Of any type that arrays in files have."""
    dtype = np.dtype(rng.choice(_TYPES))
    shape = (rows, *(rng.randint(1, 3) for _ in range(rng.randint(0, 2))))
    letters = b"".join(rng.choice("abc\0").encode("utf-32-le") for _ in range(int(np.prod(shape)) * 3))
    size = int(np.prod(shape)) * dtype.itemsize
    data = (
        letters
        if dtype.kind == "U"
        else bytes(rng.choice((0, 1)) for _ in range(size))
        if dtype.kind == "b"
        else rng.randbytes(size)
    )
    array = np.frombuffer(data, dtype).reshape(shape)
    return np.asfortranarray(array) if rng.random() < 0.2 else array


class NumpyFile(Format):
    """No checksums: what `numpy.load` finds, if the file has as many bytes as its header says."""

    name, suffix = "npy", ".npy"

    def made(self, rng: Random) -> Made:
        array, output = an_array(rng, rng.randint(1, 12)), io.BytesIO()
        np.lib.format.write_array(output, array, version=rng.choice(((1, 0), (2, 0), (3, 0))))
        return Made(output.getvalue(), [exact(row) for row in array])

    def source(self, path: str) -> Any:
        return sources.NumpyDataSource(path)

    def stacked(self, source: Any, keys: list[int]) -> list[Any] | None:
        return [exact(row) for row in source.batch(np.array(keys, np.int64))]

    def problems(self, damaged: Damaged, outcomes: Mapping[int, Any], is_stream: bool) -> Iterator[str]:
        file = io.BytesIO(damaged.content)
        try:
            array = np.lib.format.read_array(file, allow_pickle=False)
            is_all = file.tell() == len(damaged.content) and array.ndim > 0
        except Exception:  # it raises whatever it stumbles over
            is_all = False
        if is_all:
            yield from same_as(lambda key: exact(array[key]), len(array), damaged, outcomes)
        else:
            yield from same_as(lambda key: Unreadable, 0, damaged, outcomes)

    @staticmethod
    def _header(rng: Random, content: bytes) -> bytes:
        """Something else in the dict that says what is in the file."""
        end = content.find(b"\n")
        number = str(rng.choice((*EXTREMES, 10**30))).encode()
        header = content[:end]
        changed = rng.choice(
            (
                lambda: re.sub(rb"\((\d+)", b"(" + number, header, count=1),
                lambda: re.sub(
                    rb"'descr': [^(]*, 'f",
                    b"'descr': '" + rng.choice((b"|O", b"<f8", b"|V0", b"<U999999999", b"|S0", b"<i3")) + b"', 'f",
                    header,
                ),
                lambda: header.replace(b"False", rng.choice((b"True ", b"None ", b"[[]] "))),
                lambda: re.sub(rb"\(.*\)", b"()", header),
                lambda: header.replace(b"{", b"{" + b"[" * 50),
                lambda: header.replace(b"}", b",}"),
            )
        )()
        # As long as before, so that the data are where they were.
        return replaced(content, 0, changed[:end].rstrip().ljust(end) + b"\n")

    mutations: ClassVar = {"header": _header}


class NumpyArchive(Format):
    """Checksums of all members: what was written."""

    name, suffix = "npz", ".npz"

    def made(self, rng: Random) -> Made:
        rows, output = rng.randint(1, 12), io.BytesIO()
        arrays = {name: an_array(rng, rows) for name in rng.sample(("x", "y", "labels", "a b"), rng.randint(1, 3))}
        rng.choice((np.savez, np.savez_compressed))(output, **arrays)
        return Made(
            output.getvalue(), [exact({name: array[row] for name, array in arrays.items()}) for row in range(rows)]
        )

    def source(self, path: str) -> Any:
        return sources.NumpyDataSource(path)

    def stacked(self, source: Any, keys: list[int]) -> list[Any] | None:
        batch = source.batch(np.array(keys, np.int64))
        return [exact({name: column[row] for name, column in batch.items()}) for row in range(len(keys))]

    def problems(self, damaged: Damaged, outcomes: Mapping[int, Any], is_stream: bool) -> Iterator[str]:
        yield from originals_only(damaged, outcomes, loses_nothing=False)

    @staticmethod
    def _member(rng: Random, content: bytes) -> bytes:
        """A member more, of another length, damaged, or no array at all, with the right checksum."""
        output = io.BytesIO(content)
        array = io.BytesIO()
        np.save(array, np.arange(5))
        odd = (
            b"",
            b"text",
            array.getvalue()[:-3],
            array.getvalue().replace(b"(5,)", b"(9,)"),
            array.getvalue().replace(b"<i8", b"<i4"),
        )
        with zipfile.ZipFile(output, "a") as archive:
            archive.writestr(rng.choice(("z.npy", "z", "d/")), rng.choice(odd))
        return output.getvalue()

    mutations: ClassVar = {"member": _member}


_PICTURES = {
    "PNG": ("1", "L", "P", "RGB", "RGBA"),
    "JPEG": ("L", "RGB", "CMYK"),
    "BMP": ("1", "L", "P", "RGB"),
    "GIF": ("L", "P"),
    "PPM": ("L", "RGB"),
    "TIFF": ("1", "L", "P", "RGB", "RGBA"),
    "WEBP": ("RGB", "RGBA"),
}
"""Formats, and the modes that they have here."""
_SIZES = {b"\x89P": ((16, 20), ">I"), b"GI": ((6, 8), "<H"), b"BM": ((18, 22), "<I"), b"\xff\xd8": ((), ">H")}
"""Where formats that begin so have width and height, and how."""
_SOUND = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)


class Pictures(Format):
    """What Pillow decodes; the other pictures of the folder are as they were."""

    name, suffix = "pictures", ".png"

    def made(self, rng: Random) -> Made:
        from PIL import Image

        format = rng.choice(list(_PICTURES))
        size, output = (rng.randint(1, 20), rng.randint(1, 20)), io.BytesIO()
        image = Image.frombytes("RGB", size, rng.randbytes(3 * size[0] * size[1])).convert(
            rng.choice(_PICTURES[format])
        )
        image.save(output, format)
        sound = [exact({"image": _SOUND, "label": label}) for label in (0, 2)]
        return Made(output.getvalue(), [sound[0], _decoded(output.getvalue()), sound[1]])

    def placed(self, folder: Path, name: str, damaged: Damaged) -> str:
        from PIL import Image

        sound = io.BytesIO()
        Image.fromarray(_SOUND).save(sound, "PNG")
        for label, file in (("a", sound.getvalue()), ("b", damaged.content), ("c", sound.getvalue())):
            (folder / label).mkdir()
            (folder / label / f"{name}.png").write_bytes(file)
        return str(folder)

    def is_named(self, outcome: Refused, path: str, view: str) -> bool:
        return outcome.names(f"{path}/b/", has_place=False)

    def source(self, path: str) -> Any:
        return sources.ImageFolderDataSource(path)

    def problems(self, damaged: Damaged, outcomes: Mapping[int, Any], is_stream: bool) -> Iterator[str]:
        records = damaged.made.records
        try:
            expected = None if isinstance(outcomes[1], Refused) else _decoded(damaged.content)
        except Exception:  # it raises whatever it stumbles over
            expected = Unreadable
        if expected is not None:
            rows = [records[0], expected, records[2]]
            yield from same_as(lambda key: rows[key], 3, Damaged(damaged.made, damaged.made, b"", ""), outcomes)
        for key in (0, 2):
            if outcomes[key] != records[key]:
                yield f"another picture of the folder is {outcomes[key]!r}"

    @staticmethod
    def _size(rng: Random, content: bytes) -> bytes:
        """Another width or height, where these formats have them."""
        places, kind = _SIZES.get(content[:2], ((), ""))
        if content.startswith(b"\xff\xd8"):
            frame = content.find(b"\xff\xc0")
            places = (frame + 5, frame + 7)
        for place in places if rng.random() < 0.5 else places[:1]:
            value = rng.choice((0, 1, 255, 4000, 13000, 65535, 2**31 - 1)) & (0xFFFF if kind[1:] == "H" else 2**31 - 1)
            content = replaced(content, place, struct.pack(kind, value))
        if content.startswith(b"\x89PNG"):
            content = replaced(content, 29, struct.pack(">I", zlib.crc32(content[12:29])))
        return (
            re.sub(rb"\n\d+ \d+\n", b"\n%d 13000\n" % rng.choice((0, 13000)), content, count=1)
            if content[:1] == b"P"
            else content
        )

    mutations: ClassVar = {"size": _size}


def _decoded(content: bytes) -> Any:
    """The middle record of the folder; None where it is of a kind that is scaled."""
    from PIL import Image

    with Image.open(io.BytesIO(content)) as image:
        if image.mode not in ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK"):
            return None
        opaque = image.convert("RGBA") if image.mode == "P" else image
        return exact({"image": np.array(opaque.convert("RGB")), "label": 1})
