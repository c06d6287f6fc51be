"""What the commands share: paths that become a source, and a console to write to."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from grain.files.paths import paths_of
from grain.sources.detection import format_of, open_source

_TABLES = ("Arrow", "CSV", "Parquet")


def add_paths(parser: argparse.ArgumentParser) -> None:
    """The argument PATH, and how it is read."""
    parser.add_argument("paths", metavar="PATH", nargs="+", help="files, a folder of images, or URLs")
    add_columns(parser)


def add_columns(parser: argparse.ArgumentParser) -> None:
    """The option --columns."""
    parser.add_argument("--columns", metavar="A,B", help="of tables: only these columns")


def at_least(smallest: int) -> Callable[[str], int]:
    """The type of an argument that is a whole number, and not less than `smallest`."""

    def number(text: str) -> int:
        if not text.lstrip("+-").isdecimal() or int(text) < smallest:
            raise argparse.ArgumentTypeError(f"expected a whole number from {smallest} on, got {text!r}")
        return int(text)

    return number


def opened(paths: Sequence[str], columns: str | None = None) -> Any:
    """The records of `paths`, by random access; pictures of a folder as the bytes of their files."""
    found, options = paths_of(paths), dict[str, Any]()
    kind = format_of(found[0])
    if kind == "folder of images":
        options["decode"] = False
    if columns is not None:
        if kind not in _TABLES:
            raise ValueError(f"--columns is for tables ({', '.join(_TABLES)}), and {found[0]!r} is {kind}.")
        options["columns"] = columns.split(",")
    return open_source(found, **options)


def console(**options: Any) -> Any:
    """Where tables and colours go; plain text where it is not a terminal."""
    try:
        from rich.console import Console
    except ImportError as error:
        raise ImportError("The command `grain` takes rich: pip install 'grain[cli]'.") from error
    return Console(highlight=False, **options)


def with_unit(count: float) -> str:
    """A number of bytes, readably.

    >>> with_unit(999), with_unit(12_345), with_unit(999_940), with_unit(7e9)
    ('999 B', '12.3 kB', '1.00 MB', '7.00 GB')
    """
    if count < 999.5:
        return f"{count:.0f} B"
    for unit in ("kB", "MB", "GB"):
        count /= 1000
        if count < 999.5:  # what is more would be rounded up to four digits
            return f"{count:#.3g}".rstrip(".") + f" {unit}"
    return f"{count / 1000:,.1f} TB"
