"""Which files of a job that was interrupted are finished."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path

from grain.files.paths import File, cache_folder, is_remote, written_at_once


class Journal:
    """A small file beside the others while a job lasts. A job with other parameters does not believe it."""

    def __init__(self, target: str, parameters: str) -> None:
        folder, name = os.path.split(target)
        if is_remote(target):
            self._path = cache_folder() / f"{hashlib.sha1(target.encode()).hexdigest()}.writing.json"
        else:
            self._path = Path(folder, f".{name.replace('*', '')}.writing.json")
        self._parameters = hashlib.sha1(parameters.encode()).hexdigest()
        self._finished: dict[str, str] = {}
        with contextlib.suppress(FileNotFoundError, ValueError):  # one that a crash of the system emptied is no JSON
            kept = json.loads(self._path.read_text())
            if kept["parameters"] == self._parameters:
                self._finished = kept["finished"]

    def has(self, path: str) -> bool:
        """Whether the file was finished, and has not been touched since."""
        try:
            return path in self._finished and self._finished[path] == File(path).stamp
        except FileNotFoundError:
            return False

    def add(self, path: str) -> None:
        """Take note that the file is finished."""
        self._finished[path] = File(path).stamp
        with written_at_once(self._path) as partial, open(partial, "w") as output:
            json.dump({"parameters": self._parameters, "finished": self._finished}, output)

    def remove(self) -> None:
        """Forget the job: it is done."""
        self._path.unlink(missing_ok=True)
