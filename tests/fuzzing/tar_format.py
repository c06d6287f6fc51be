"""WebDataset shards."""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from fuzzing.formats import Damaged, Format, Made
from fuzzing.mutations import replaced
from fuzzing.outcomes import Refused, first_difference, given, is_subsequence, shown
from fuzzing.record_formats import some_bytes
from grain import sources
from grain.experimental import WebDatasetIterDataset
from support.record_files import tar

_FORMATS = (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT)


class WebDataset(Format):
    """Checksums of headers, none of contents: a file is what comes after a header that is sound.

    A sample may lack files only where an error comes close before or after it, and what was not touched is not lost.
    """

    name, suffix = "webdataset", ".tar"

    def made(self, rng: Random) -> Made:
        samples, members = [], []
        folder = rng.choice(("", "images/", "ä" * rng.randint(1, 50) + "/", "long" * rng.randint(10, 40) + "/"))
        for number in range(rng.randint(1, 6)):
            key = f"{folder}{number:05}"
            fields = rng.sample(("txt", "cls", "json", "bin", "seg.png"), rng.randint(1, 3))
            contents = {field: _content(rng, field) for field in fields}
            samples.append({"__key__": key, **contents})
            members.append([(f"{key}.{field}", content) for field, content in contents.items()])
        kind = rng.choice(_FORMATS if len(folder.encode()) < 80 else _FORMATS[:2])
        whole = tar([member for sample in members for member in sample], kind)
        # An archive is its members one after the other, and then zeros.
        extents, start = [], 0
        for sample in members:
            size = sum(_size(member, kind) for member in sample)
            extents.append((start, start + size))
            start += size
        return Made(whole, samples, extents)

    def source(self, path: str) -> Any:
        return sources.WebDatasetDataSource(path, index_folder=Path(path).parent)

    def stream(self, path: str) -> Any:
        return WebDatasetIterDataset(path)

    def problems(self, damaged: Damaged, outcomes: Mapping[int, Any], is_stream: bool) -> Iterator[str]:
        found, whole = list(outcomes.values()), _samples_by_tarfile(damaged.content)
        known = _files_after_headers(damaged.content)
        # A block of zeros says that an archive ends there, a sound header may say anything of what comes after it, and
        # no checksum covers a long name.
        is_cut = (
            damaged.mutation in self.mutations
            or _ends_early(damaged.content, damaged.made)
            or _is_renamed(damaged.content, damaged.made)
        )
        complete = {sample["__key__"]: sample.keys() for sample in damaged.made.records}
        for place, sample in enumerate(found):
            if isinstance(sample, Refused) or sample in whole:
                continue
            is_beside_error = any(isinstance(one, Refused) for one in found[max(place - 2, 0) : place + 3])
            is_complete = sample.keys() == complete.get(sample.get("__key__"))
            if "__key__" not in sample:
                yield f"a sample comes without a key: {shown(sample)}"
                continue
            files = {(f"{sample['__key__']}.{field}".lower(), content) for field, content in sample.items()}
            unknown = [name for name, content in files - known if not name.endswith(".__key__")]
            if unknown:
                yield f"a file comes that no sound header has: {unknown[0]!r} in {shown(sample)}"
            elif damaged.is_in_place and not is_complete and not is_beside_error and not is_cut:
                yield f"a sample lacks files, and no error says why: {shown(sample)}"
        is_refused = len(found) == 1 and isinstance(found[0], Refused) and found[0].is_whole
        if damaged.is_in_place and not is_refused:
            wanted = [damaged.made.records[number] for number in damaged.untouched()]
            if not is_subsequence(wanted, given(found)) and not is_cut:
                yield f"a sample is lost that was not touched: {first_difference(given(found), wanted)}"

    @staticmethod
    def _header(rng: Random, content: bytes) -> bytes:
        """Something else in a header, with the right checksum."""
        headers = [place for place in range(0, len(content), 512) if content[place + 257 : place + 262] == b"ustar"]
        if not headers:
            return content
        start = rng.choice(headers)
        header = bytearray(content[start : start + 512])
        size = b"%011o\0" % rng.choice((0, 1, 511, 512, 513, 10**6, 8**11 - 1))
        place, field = rng.choice(
            (
                (
                    124,
                    rng.choice(
                        (size, b"\xff" * 12, b"\x80" + bytes(3) + b"\x7f" * 8, b"-0000000001\0", b"zzzzzzzzzzz\0")
                    ),
                ),
                (156, rng.choice((b"S", b"1", b"5", b"x", b"g", b"L", b"K", b"X", b"N", b"7", b"Z"))),
                (
                    0,
                    rng.choice(
                        (bytes(100), b"nodot", b"__meta__/a.txt\0", b"/../x.txt\0", b"00000.txt\0", b"\xff\xfe.txt\0")
                    ),
                ),
                (257, rng.choice((b"ustar  \0", b"ustar\0" + b"00", bytes(8)))),
            )
        )
        header[place : place + len(field)] = field
        header[148:156] = b" " * 8
        header[148:156] = b"%06o\0 " % sum(header)
        return replaced(content, start, bytes(header))

    mutations: ClassVar = {"header": _header}


def _content(rng: Random, field: str) -> bytes:
    if field == "cls":
        return b"%d" % rng.randrange(1000)
    return json.dumps({"n": rng.random()}).encode() if field == "json" else some_bytes(rng, 1200)


def _size(member: tuple[str, bytes], kind: int) -> int:
    with tarfile.open(fileobj=io.BytesIO(tar([member], kind))) as archive:
        (info,) = archive.getmembers()
    return info.offset_data + -(-info.size // 512) * 512


def _ends_early(content: bytes, made: Made) -> bool:
    """Whether a block of zeros where a header was now says that the archive ends there."""
    return any(not content[header : header + 512].strip(b"\0") for header, _, _, _ in _headers(made))


def _is_renamed(content: bytes, made: Made) -> bool:
    """Whether what an extended header says has changed, between that header and the one of the file."""
    return any(
        content[begin + 512 : data - 512] != made.content[begin + 512 : data - 512]
        for begin, data, _, _ in _headers(made)
    )


def _headers(made: Made) -> Iterator[tuple[int, int, str, int]]:
    """Of each file of a sound archive: where its headers begin, its content, its name and its size."""
    with tarfile.open(fileobj=io.BytesIO(made.content)) as archive:
        for info in archive:
            yield info.offset, info.offset_data, info.name, info.size


def _files_after_headers(content: bytes) -> set[tuple[str, bytes]]:
    """What Python's reader finds at each place where it finds a file, whatever is before that place.

    What is left of a long name where only the last header is sound counts too: nobody knows that there was more of it.
    """
    found = set()
    with_magic = (match.start() for match in re.finditer(b"ustar", content[257:]))
    for place in {*range(0, len(content), 512), *with_magic}:
        try:
            with tarfile.open(fileobj=io.BytesIO(content[place:]), mode="r:") as archive:
                info = archive.firstmember
        except Exception:  # it raises whatever it stumbles over
            continue
        if info is not None and place + info.offset_data + info.size <= len(content):
            begin = place + info.offset_data
            found.add((info.name.lower(), content[begin : begin + info.size]))
    return found


def _samples_by_tarfile(content: bytes) -> list[dict[str, Any]]:
    """The samples that Python's reader finds."""
    samples: list[dict[str, Any]] = []
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:", errorlevel=0) as archive:
            for info in archive:
                folder, _, file = info.name.rpartition("/")
                stem, dot, field = file.partition(".")
                if not (info.isreg() and stem and dot and info.size <= len(content)):
                    continue
                key = f"{folder}/{stem}" if "/" in info.name else stem
                if not samples or samples[-1]["__key__"] != key:
                    samples.append({"__key__": key})
                member = archive.extractfile(info)
                samples[-1][field.lower()] = member.read() if member else b""
    except Exception:  # it raises whatever it stumbles over
        return samples
    return samples
