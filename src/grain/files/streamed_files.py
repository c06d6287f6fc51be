"""Which version of a file streams read."""

from __future__ import annotations

import contextlib
import os
from typing import Any

from grain.files.systems import is_remote
from grain.files.versions import FileChangedError, Version, local_version, remote_version, this_machine, version_here


class StreamedFile:
    """A file that streams read from its start. One that is continued must find the version that was begun with.

    States do not tell of which version they are, so this object remembers it. The workers of an iterator, for which it
    is pickled, all read the version that there is then. Only files of this machine are cheap enough to be asked.
    """

    def __init__(self, path: str, given: Version | None = None, machine: str = "") -> None:
        self.path = path
        self._given = self._begun = given and version_here(path, given, machine)

    def __reduce__(self) -> Any:
        present = self._given
        if present is None and not is_remote(self.path):
            with contextlib.suppress(OSError):  # who opens it will say so
                present = local_version(os.stat(self.path))
        return StreamedFile, (self.path, present, this_machine())

    def version(self, is_start: bool) -> Version:
        """The version to read, as it is now; raise an error if that is not the one to be continued."""
        if is_remote(self.path):
            present: Version = remote_version(self.path)
        else:
            present = local_version(os.stat(self.path))
        expected = self._given if is_start else self._begun
        if expected not in (None, present):
            raise FileChangedError(self.path)
        self._begun = present
        return present
