"""By what one version of a file is told from the next."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
from typing import Any, NamedTuple, TypeAlias

from grain.files.systems import is_remote, naming, system_of

_MARKS = (
    *("ETag", "etag", "e_tag", "generation", "md5Hash", "content_md5", "Content-MD5", "Digest"),
    *("mtime", "LastModified", "last_modified", "Last-Modified", "updated", "created"),
)
"""What file systems call that by which one version of a file differs from the next, the most exact first."""


class LocalVersion(NamedTuple):
    """Of a file of this machine. Nobody can set the time of the last change, as can be done with that of the data."""

    size: int
    inode: int
    modified: int
    changed: int
    device: int

    @property
    def stamp(self) -> str:
        """The version as a text to keep; without the device, which may have another number after the next start."""
        return "-".join(map(str, self[:-1]))


class RemoteVersion(NamedTuple):
    """Of a file far away; of one whose server says nothing but the size, versions differ in that alone."""

    size: int | None
    """None where nobody knows: such a file can be read in one transfer only."""
    key: str
    """Under which name the file system says the rest."""
    mark: str

    @property
    def stamp(self) -> str:
        """The version as a text to keep."""
        return f"{self.size}-{self.mark}"


Version: TypeAlias = LocalVersion | RemoteVersion


class FileChangedError(ValueError):
    """A file is no longer what it was when it was opened."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path!r} was changed after it was opened. Make the source again to read it as it is now.")
        self.path = path

    def __reduce__(self) -> Any:
        return FileChangedError, (self.path,)


def local_version(found: os.stat_result) -> LocalVersion:
    """The version of a file of this machine, by what the system says of it."""
    return LocalVersion(*_numbers(found))


def _numbers(found: os.stat_result) -> tuple[int, int, int, int, int]:
    return found.st_size, found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_dev


def check_local(path: str, found: os.stat_result, version: Version) -> None:
    """Raise an error if what the system says of a file is not what it said of `version`."""
    if _numbers(found) != version:
        raise FileChangedError(path)


def check_open(path: str, place: int | str, version: LocalVersion) -> None:
    """Raise an error if a file that is open was changed: `place` is its descriptor, or its path.

    One that another file has taken the place of, or that was removed, is still what it was for those who have it open.
    """
    try:
        found = os.stat(place)
    except FileNotFoundError:
        return
    if _numbers(found) != version:
        size, inode, modified, _, device = version
        is_another = (found.st_ino, found.st_dev) != (inode, device)
        is_as_it_was = (found.st_size, found.st_mtime_ns) == (size, modified)
        if not is_another and not (is_as_it_was and not _is_at(path, found)):
            raise FileChangedError(path)


def _is_at(path: str, found: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(path), found)
    except FileNotFoundError:
        return False


@functools.cache
def this_machine() -> str:
    """A name for this machine, from one start of it to the next."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read()
    except OSError:
        return platform.node()


def version_here(path: str, version: Version, machine: str) -> Version:
    """What `version` of a file is called here, where it was taken on `machine`.

    Another machine has another number for the same file, or a copy: there size and time are all that can be compared.
    """
    if machine != this_machine() and isinstance(version, LocalVersion):
        with contextlib.suppress(OSError):  # who reads it will say so
            found = local_version(os.stat(path))
            if (found.size, found.modified) == (version.size, version.modified):
                return found
    return version


def remote_version(path: str, may_be_listed: bool = False) -> RemoteVersion:
    """The version of a file far away, as it is now or, where it `may_be_listed`, was when its folder was listed."""
    system, plain = system_of(path)
    with naming(path):
        if not may_be_listed:
            system.invalidate_cache(plain)
        information = system.info(plain)
    size = information.get("size")
    for key in _MARKS:
        if information.get(key) not in (None, ""):
            return RemoteVersion(size, key, str(information[key]))
    return RemoteVersion(size, "", "")


def check(path: str, version: Version) -> None:
    """Raise an error if the file at `path` is not of that version now."""
    if not is_remote(path):
        check_local(path, os.stat(path), version)
    elif remote_version(path) != version:
        raise FileChangedError(path)
