"""Which files there are in folders. A link that leads back up is not followed, so that every search ends."""

from __future__ import annotations

import fnmatch
import glob
import os
from collections import deque
from collections.abc import Sequence

from grain.files.systems import is_remote, naming, system_of


def local_matches(pattern: str) -> list[str]:
    """The files of this machine that a glob stands for; `**` is any number of folders."""
    parts = pattern.split("/")
    if "**" not in parts:
        return glob.glob(pattern)
    first = parts.index("**")
    above = "/".join(parts[:first])
    folders = [folder for folder in glob.glob(above or ("/" if first else ".")) if os.path.isdir(folder)]
    return [
        os.path.join(folder, name) if first else name
        for folder in folders
        for name in files_below(folder)
        if _matches(name.split("/"), parts[first:])
    ]


def _matches(names: Sequence[str], parts: Sequence[str]) -> bool:
    if not parts or not names:
        return not names and all(part == "**" for part in parts)
    is_hidden = names[0].startswith(".")
    if parts[0] != "**":
        is_match = fnmatch.fnmatchcase(names[0], parts[0]) and parts[0].startswith(".") >= is_hidden
        return is_match and _matches(names[1:], parts[1:])
    return _matches(names, parts[1:]) or (not is_hidden and _matches(names[1:], parts))


def files_below(folder: str) -> dict[str, int | None]:
    """All files in a folder and its sub-folders by their paths from there, with slashes, and their sizes if listed.

    A folder that several links lead to, or a link from below, is gone through once, by its own name if it has one here.
    """
    if is_remote(folder):
        system, plain = system_of(folder)
        system.invalidate_cache()
        root = plain.rstrip("/")
        with naming(folder):
            listed = system.find(root, detail=True)
        return {found.removeprefix(f"{root}/"): information.get("size") for found, information in listed.items()}
    if not os.path.isdir(folder):
        raise NotADirectoryError(f"Expected a folder, got {folder!r}, which is {_instead_of_a_folder(folder)}.")
    names: dict[str, int | None] = {}
    seen: set[tuple[int, int]] = set()
    folders, links = deque([""]), deque[str]()
    while folders or links:
        above = (folders or links).popleft()
        place = os.path.join(folder, above)
        identity = os.stat(place)
        if (identity.st_dev, identity.st_ino) in seen:
            continue
        seen.add((identity.st_dev, identity.st_ino))
        with os.scandir(place) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.is_dir(follow_symlinks=False):
                    folders.append(f"{above}{entry.name}/")
                elif not entry.is_symlink() or not os.path.isdir(entry.path):
                    names[f"{above}{entry.name}"] = None
                elif not _leads_up(entry.path):
                    links.append(f"{above}{entry.name}/")
    return names


def _leads_up(link: str) -> bool:
    """Whether a link leads to a folder that it is in itself."""
    target, place = os.path.realpath(link), os.path.realpath(os.path.dirname(link))
    return os.path.commonpath([target, place]) == target


def _instead_of_a_folder(path: str) -> str:
    return "a file" if os.path.exists(path) else "not there"
