"""Which files of a job that was interrupted are finished."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

from grain.files.cache_folder import cache_folder, written_at_once
from grain.files.paths import File
from grain.files.systems import is_remote
from grain.writing.shards import is_shard


class Journal:
    """A small file beside the others while a job lasts: what identifies the job, and which files are finished."""

    def __init__(self, target: str) -> None:
        folder, name = os.path.split(target)
        if is_remote(target):
            self._path = cache_folder() / f"{hashlib.sha1(target.encode()).hexdigest()}.writing.json"
        else:
            self._path = Path(folder, f".{name.replace('*', '')}.writing.json")
        self._target = target
        self._identity: dict[str, str] = {}
        self._finished: dict[str, str] = {}
        # One that a crash of the system emptied is no JSON.
        with contextlib.suppress(FileNotFoundError, ValueError, KeyError, TypeError):
            kept = json.loads(self._path.read_text())
            self._identity, self._finished = dict(kept["identity"]), dict(kept["finished"])

    @property
    def is_begun(self) -> bool:
        """Whether there are files that were finished."""
        return bool(self._finished)

    def changes(self, identity: Mapping[str, str]) -> list[str]:
        """In what the job that was interrupted differs from the one with this identity."""
        return [name for name, value in identity.items() if self._finished and self._identity.get(name) != value]

    def has(self, path: str) -> bool:
        """Whether the file was finished, and has not been touched since."""
        try:
            return path in self._finished and self._finished[path] == File(path).version.stamp
        except FileNotFoundError:
            return False

    def begin(self, identity: Mapping[str, str]) -> None:
        """Go on with the job that has this identity; what another one has finished is removed."""
        if self.changes(identity):
            for path in self._finished:
                if is_shard(path, self._target) and not is_remote(path) and self.has(path):
                    os.unlink(path)
            self.remove()
            self._finished = {}
        self._identity = dict(identity)

    def add(self, path: str) -> None:
        """Take note that the file is finished."""
        self._finished[path] = File(path).version.stamp
        with written_at_once(self._path) as partial, open(partial, "w") as output:
            json.dump({"identity": self._identity, "finished": self._finished}, output)

    def remove(self) -> None:
        """Forget the job: it is done."""
        self._path.unlink(missing_ok=True)
