"""Bytes of files far away, all of one version of each file.

Where the answer to a request says of which version it is, as those of web servers and of S3 do, nothing else is asked
for; other file systems are asked for the version after every read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from grain.files.systems import naming, system_of
from grain.files.versions import FileChangedError, RemoteVersion, check

_AT_ONCE = 64
TRIES = 3
"""How often a transfer that ends too early is asked for."""


class RemoteRange(NamedTuple):
    """Bytes of a file."""

    path: str
    version: RemoteVersion
    start: int
    stop: int


class RangesIgnoredError(ValueError):
    """A server gives whole files only."""

    def __init__(self, path: str, given: object, asked: int) -> None:
        super().__init__(
            f"The server of {path!r} does not support ranged reads: it gave {given} bytes, and was asked for {asked}. "
            "Copy the file to this machine, or read it as a stream."
        )


class TransferError(OSError):
    """A transfer ends too early, again and again."""

    def __init__(self, path: str, got: int, expected: int) -> None:
        super().__init__(
            f"{path!r} cannot be read: the transfer ended after {got} of {expected} bytes, {TRIES} times. Its "
            "connection or its server is at fault; try again later, or copy the file to this machine by other means."
        )


def read_remote(ranges: Sequence[RemoteRange]) -> list[bytes]:
    """The bytes of each range; all of one file system are asked for at the same time."""
    found = [b""] * len(ranges)
    missing = [place for place, wanted in enumerate(ranges) if wanted.stop > wanted.start]  # none can be asked for
    for _ in range(TRIES):
        for place, data in zip(missing, _fetched([ranges[place] for place in missing]), strict=True):
            found[place] = data
        missing = [place for place in missing if len(found[place]) < ranges[place].stop - ranges[place].start]
        if not missing:
            return found
    wanted = ranges[missing[0]]
    check(wanted.path, wanted.version)
    raise TransferError(wanted.path, len(found[missing[0]]), wanted.stop - wanted.start)


def _fetched(ranges: Sequence[RemoteRange]) -> list[bytes]:
    """The bytes of each range, perhaps not all of them."""
    systems: dict[int, tuple[Any, list[tuple[int, str]]]] = {}
    for place, wanted in enumerate(ranges):
        system, plain = system_of(wanted.path)
        systems.setdefault(id(system), (system, []))[1].append((place, plain))
    found, unproven = [b""] * len(ranges), set()
    for system, places in systems.values():
        answers = _answers(system, [(plain, *ranges[place][2:]) for place, plain in places])
        for (place, _), answer in zip(places, answers, strict=True):
            wanted = ranges[place]
            found[place], is_proven = _checked(wanted, answer)
            if not is_proven:
                unproven.add((wanted.path, wanted.version))
    for path, version in unproven:
        check(path, version)
    return found


class _Answer(NamedTuple):
    data: bytes
    said: Any = None
    """What the answer says of the file, by the names that `RemoteVersion.key` has; None if it says nothing."""
    size: int | None = None


def _checked(wanted: RemoteRange, answer: _Answer | BaseException) -> tuple[bytes, bool]:
    """The bytes, and whether they are known to be of the version that is wanted."""
    path, version, asked = wanted.path, wanted.version, wanted.stop - wanted.start
    if isinstance(answer, RangesIgnoredError):
        raise RangesIgnoredError(path, answer.args[0], asked)
    if isinstance(answer, BaseException):
        if not isinstance(answer, FileNotFoundError):
            check(path, version)
        with naming(path):
            raise answer
    mark = None if answer.said is None else answer.said.get(version.key)
    if (mark is not None and str(mark) != version.mark) or answer.size not in (None, version.size):
        raise FileChangedError(path)
    if len(answer.data) > asked:
        raise RangesIgnoredError(path, len(answer.data), asked)
    return answer.data, mark is not None or (not version.key and answer.size is not None)


def _answers(system: Any, wanted: list[tuple[str, int, int]]) -> list[_Answer | BaseException]:
    request = _REQUESTS.get(system.protocol if isinstance(system.protocol, str) else system.protocol[0])
    if request is None or not system.async_impl:
        paths, starts, stops = zip(*wanted, strict=True)
        pieces = system.cat_ranges(list(paths), list(starts), list(stops), on_error="return")
        return [piece if isinstance(piece, BaseException) else _Answer(piece) for piece in pieces]

    async def all_at_once() -> list[_Answer | BaseException]:
        found: list[_Answer | BaseException] = []
        for first in range(0, len(wanted), _AT_ONCE):
            some = (request(system, *each) for each in wanted[first : first + _AT_ONCE])
            found += await asyncio.gather(*some, return_exceptions=True)
        return found

    from fsspec.asyn import sync

    return sync(system.loop, all_at_once)  # type: ignore[no-any-return]


async def _from_web(system: Any, url: str, start: int, stop: int) -> _Answer:
    session = await system.set_session()
    headers = {"Accept-Encoding": "identity", **system.kwargs.get("headers", {}), "Range": f"bytes={start}-{stop - 1}"}
    async with session.get(system.encode_url(url), **{**system.kwargs, "headers": headers}) as response:
        if response.status == 404:
            raise FileNotFoundError(url)
        response.raise_for_status()
        said = response.headers
        if response.status != 206 and (start or said.get("Content-Length") != str(stop)):
            raise RangesIgnoredError(url, said.get("Content-Length", "all"), stop - start)
        size = said.get("Content-Range", "").rpartition("/")[2]
        return _Answer(await response.read(), said, int(size) if size.isdecimal() else None)


async def _from_s3(system: Any, path: str, start: int, stop: int) -> _Answer:
    from s3fs.core import S3_RETRYABLE_ERRORS

    bucket, key, version = system.split_path(path)
    versioned = {"VersionId": version} if version else {}
    said = await system._call_s3(
        "get_object", Bucket=bucket, Key=key, Range=f"bytes={start}-{stop - 1}", **versioned, **system.req_kw
    )
    try:
        data = await said["Body"].read()
    except S3_RETRYABLE_ERRORS:
        data = b""
    finally:
        said["Body"].close()
    return _Answer(data, said)


_REQUESTS = {"http": _from_web, "https": _from_web, "s3": _from_s3, "s3a": _from_s3}
