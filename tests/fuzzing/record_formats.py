"""Files of records, one after the other: TFRecord, JSON lines, ArrayRecord; and what gzip makes of files."""

from __future__ import annotations

import gzip
import json
import struct
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from fuzzing.formats import Damaged, Format, Made, originals_only
from fuzzing.mutations import EXTREMES, replaced
from fuzzing.outcomes import Refused, exact, first_difference, given, is_subsequence
from grain import sources
from grain.experimental import JsonLinesIterDataset, TFRecordIterDataset
from support.record_files import masked, tfrecord


def some_bytes(rng: Random, most: int = 120) -> bytes:
    """Of any length, seldom of none; half of them with many zeros, which numbers have."""
    size = rng.choice((0, rng.randint(1, most), rng.randint(1, most), rng.randint(1, most)))
    return rng.randbytes(size) if rng.random() < 0.5 else bytes(rng.choice((0, 0, 1, 255)) for _ in range(size))


class TFRecord(Format):
    """Checksums of lengths and of records: what comes was written, and nothing that was not touched is lost."""

    name, suffix = "tfrecord", ".tfrecord"

    def made(self, rng: Random) -> Made:
        records = [some_bytes(rng) for _ in range(rng.randint(1, 12))]
        extents, start = [], 0
        for record in records:
            extents.append((start, start + len(record) + 16))
            start += len(record) + 16
        return Made(tfrecord(records), records, extents)

    def source(self, path: str) -> Any:
        return sources.TFRecordDataSource(path, index_folder=Path(path).parent)

    def stream(self, path: str) -> Any:
        return TFRecordIterDataset(path)

    def problems(self, damaged: Damaged, outcomes: Mapping[int, Any], is_stream: bool) -> Iterator[str]:
        # A length with the right checksum that is a lie may hide what comes after it.
        return originals_only(damaged, outcomes, loses_nothing=damaged.mutation != "length")

    @staticmethod
    def _length(rng: Random, content: bytes) -> bytes:
        """Another length, with the right checksum."""
        starts, start = [], 0
        while start + 12 <= len(content):
            starts.append(start)
            start += 16 + struct.unpack_from("<Q", content, start)[0]
        start = rng.choice(starts)
        length = struct.unpack_from("<Q", content, start)[0]
        wrong = struct.pack("<Q", rng.choice((*EXTREMES, length + 1, length - 1, length + 16)) % 2**64)
        return replaced(content, start, wrong + masked(wrong))

    mutations: ClassVar = {"length": _length}


class JsonLines(Format):
    """No checksums: each line by itself is what Python's `json` makes of it."""

    name, suffix = "jsonlines", ".jsonl"

    def made(self, rng: Random) -> Made:
        values = [self._value(rng) for _ in range(rng.randint(1, 12))]
        content, extents = rng.choice((b"", b"", b"\xef\xbb\xbf")), []
        for value in values:
            start = len(content) if extents else 0
            content += json.dumps(value, ensure_ascii=rng.random() < 0.5).encode() + rng.choice((b"\n", b"\n", b"\r\n"))
            extents.append((start, len(content)))
            content += rng.choice((b"", b"", b"", b"\n", b" \t\r\n"))
        return Made(content, [exact(value) for value in values], extents)

    @staticmethod
    def _value(rng: Random) -> Any:
        text = "".join(rng.choice('ab \n"\\äß€😀\x00\x0c\u2028') for _ in range(rng.randint(0, 20)))
        number = rng.choice((0, -1, 2**53 + 1, 2**70, 0.1, 1e300, rng.randint(0, 10**6)))
        return rng.choice(({"text": text, "n": number}, {"a": [number, None, {"b": text}], "c": True}, [text], number))

    def source(self, path: str) -> Any:
        return sources.JsonLinesDataSource(path, index_folder=Path(path).parent)

    def stream(self, path: str) -> Any:
        return JsonLinesIterDataset(path)

    def problems(self, damaged: Damaged, outcomes: Mapping[int, Any], is_stream: bool) -> Iterator[str]:
        if damaged.content.startswith(b"\x1f\x8b\x08") and not is_stream:
            return
        found, expected = given(outcomes.values()), self.readable(damaged.content)
        if found != expected and not (len(outcomes) == 1 and outcomes[0].is_whole):
            yield first_difference(found, expected)

    def readable(self, content: bytes) -> list[Any]:
        """The values of the lines that can be read."""
        found = []
        for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
            try:
                found.append(exact(json.loads(line.decode())))
            except (ValueError, RecursionError):
                continue
        return found

    @staticmethod
    def _line(rng: Random, content: bytes) -> bytes:
        """A line more, of the kind that readers stumble over."""
        odd = (
            b"\x0c", b"\x0b", b" \x0b ", b"\x1c", b"\x85", b"\xa0", b"\r", b"\0", b"\xe2\x80\xa8",
            b'{"a": NaN}', b'{"a": 1, "a": 2}', b'"\\ud800"', b"1" * 5000, b"[" * 100_000, b'{"a":' * 5000,
            b'"\xff"', b"\xef\xbb\xbf1", b"1 2", b"{} {}",
        )  # fmt: skip
        lines = content.split(b"\n")
        lines.insert(rng.randint(0, len(lines)), rng.choice(odd))
        return b"\n".join(lines)

    mutations: ClassVar = {"line": _line}


class ArrayRecord(Format):
    """Checksums of all chunks: what comes was written; in place, each record is the right one or an error."""

    name, suffix = "arrayrecord", ".arrayrecord"

    def made(self, rng: Random) -> Made:
        from array_record.python.array_record_module import ArrayRecordWriter

        records = [b"%d:" % number + some_bytes(rng) for number in range(rng.randint(1, 12))]
        codec = rng.choice(("uncompressed", "zstd:1", "brotli:1", "snappy"))
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/file"
            writer = ArrayRecordWriter(path, f"group_size:{rng.choice((1, 1, 3, 100))},{codec}")
            for record in records:
                writer.write(record)
            writer.close()
            return Made(Path(path).read_bytes(), records)

    def source(self, path: str) -> Any:
        source = sources.ArrayRecordDataSource(path)
        if int(Path(path).stem.rpartition("-")[2]) % 2:
            source._files[0]._pace._in_parallel = 10**9  # as if the disk were slow
        return source

    def problems(self, damaged: Damaged, outcomes: Mapping[int, Any], is_stream: bool) -> Iterator[str]:
        yield from originals_only(damaged, outcomes, loses_nothing=False)
        if damaged.is_in_place and not any(
            isinstance(outcome, Refused) and outcome.is_whole for outcome in outcomes.values()
        ):
            found, records = list(outcomes.values()), damaged.made.records
            if len(found) != len(records):
                yield f"{len(found)} records, and should be {len(records)}"
            elif any(one != other and not isinstance(one, Refused) for one, other in zip(found, records, strict=True)):
                yield first_difference(found, records)


class Gzipped(Format):
    """A stream of another format. What is unpacked before the damage is under that format's law; damage is an error."""

    def __init__(self, plain: Format) -> None:
        self.plain = plain
        self.name, self.suffix, self.value = f"{plain.name}.gz", f"{plain.suffix}.gz", plain.value

    def made(self, rng: Random) -> Made:
        made = self.plain.made(rng)
        parts = rng.choice((1, 1, 2))
        step = len(made.content) // parts + 1
        content = b"".join(
            gzip.compress(made.content[start : start + step], rng.choice((0, 1, 9)), mtime=0)
            for start in range(0, len(made.content), step)
        )
        return Made(content, made.records)

    def stream(self, path: str) -> Any:
        return self.plain.stream(path)

    def problems(self, damaged: Damaged, outcomes: Mapping[int, Any], is_stream: bool) -> Iterator[str]:
        content, is_damaged = unpacked(damaged.content)
        if is_damaged and not any(isinstance(outcome, Refused) for outcome in outcomes.values()):
            yield "the file is damaged, and no error came"
        made, other = (Made(unpacked(one.content)[0], one.records) for one in (damaged.made, damaged.other))
        inner = Damaged(made, other, content, "truncated" if is_damaged else "joined")
        if not is_damaged or not isinstance(self.plain, JsonLines):
            yield from self.plain.problems(inner, outcomes, is_stream)
        elif not is_subsequence(given(outcomes.values()), self.plain.readable(content)):
            yield first_difference(given(outcomes.values()), self.plain.readable(content))


def unpacked(content: bytes) -> tuple[bytes, bool]:
    """What gzip has packed, as far as that can be unpacked, and whether it is damaged; other bytes as they are."""
    if not content.startswith(b"\x1f\x8b\x08"):
        return content, False
    found, rest = b"", content
    while rest:
        member = zlib.decompressobj(31)
        try:
            for place in range(len(rest)):
                found += member.decompress(rest[place : place + 1])
                if member.eof:
                    break
        except zlib.error:
            return found, True
        if not member.eof:
            return found, True
        rest = rest[place + 1 :].lstrip(b"\0")
    return found, False
