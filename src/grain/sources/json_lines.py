"""JSON lines: one value in each line of a text file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from grain.files.paths import PathLike
from grain.sources.byte_streams import Reading
from grain.sources.sequences import SequenceDataSource, Spanned

_PIECE = 4 << 20
_BOM = b"\xef\xbb\xbf"
_SPACE = 32
"""No byte of white space is greater."""


class JsonLinesFormat(Spanned):
    """Lines of UTF-8. Blank ones, which hold nothing but white space of ASCII, do not count."""

    name = "JsonLines"

    def spans(self, reading: Reading, offset: int) -> Iterator[tuple[int, int]]:
        """One for each line that is not blank."""
        while True:
            end = reading.find(b"\n", offset)
            line = reading.piece(offset, end if end >= 0 else reading.end)
            stop = offset + len(line) + (end >= 0)
            if not _is_blank(line, offset):
                yield offset, stop
            if end < 0:
                return
            offset = stop

    def offsets(self, reading: Reading) -> Any:
        """Where lines begin that are not blank, many at once."""
        found, start, tail = [], 0, b""
        while True:
            more = reading.piece(start + len(tail), start + 2 * len(tail) + _PIECE)
            data = tail + more
            cut = data.rfind(b"\n") + 1 if more else len(data)
            found.append(_line_starts(data[:cut], start))
            start, tail = start + cut, data[cut:]
            if not more:
                return np.concatenate([*found, [start]])

    def record(self, data: bytes, path: str, offset: int) -> Any:
        """The value of a line; after it there may be blank ones."""
        try:
            return _value(data, offset)
        except (ValueError, RecursionError):
            line = data.partition(b"\n")[0]
        try:  # a blank line may hold what JSON does not take for white space
            return _value(line, offset)
        except (ValueError, RecursionError) as error:
            reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
            shown = line.strip()
            raise ValueError(
                f"{_line(path, offset)} is not valid JSON: {reason}. It reads "
                f"{shown[:80]!r}{'...' if len(shown) > 80 else ''}."
            ) from None


def _value(line: bytes, offset: int) -> Any:
    return json.loads(str(line if offset else line.removeprefix(_BOM), "utf-8"))


def _is_blank(line: bytes, offset: int) -> bool:
    return not (line if offset else line.removeprefix(_BOM)).strip()


def _line_starts(data: bytes, start: int) -> Any:
    """Where lines begin that are not blank, in data that begin at `start` of the file."""
    letters = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(letters == ord("\n")) + 1
    if data and not data.endswith(b"\n"):
        ends = np.append(ends, len(data))
    starts = np.concatenate([[0], ends[:-1]])[: len(ends)]
    is_filled = letters[starts] > _SPACE
    if start == 0 and data.startswith(_BOM):
        is_filled[0] = False
    for line in np.flatnonzero(~is_filled).tolist():  # few, as most lines begin with a brace
        is_filled[line] = not _is_blank(data[starts[line] : ends[line]], start + starts[line])
    return starts[is_filled].astype(np.int64) + start


_counted: tuple[Any, int, int] = None, 0, 0
"""A version of a file in which lines were counted, up to where, and how many: the next bad one is found from there."""


def _line(path: str, offset: int) -> str:
    """Which line it is that begins at `offset`: its number as editors count, from one, with blank lines."""
    global _counted
    with Reading.of(path) as reading:
        if reading.is_compressed:  # to count would be to unpack all that comes before, for each bad line
            return f"The line at byte {offset} of what {path!r} holds"
        counted, start, lines = _counted
        if counted != (path, reading.version) or start > offset:
            start, lines = 0, 0
        for place in range(start, offset, _PIECE):
            lines += reading.piece(place, min(place + _PIECE, offset)).count(b"\n")
    _counted = (path, reading.version), offset, lines
    return f"Line {lines + 1} of {path!r}"


class JsonLinesDataSource(SequenceDataSource[Any]):
    """The values of JSON lines files, one for each line that is not blank.

    Where lines begin is found when a file is first opened, and kept in `index_folder`, or in the cache folder
    (`$GRAIN_CACHE`), until the file changes. Paths may be globs and URLs.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "two.jsonl")
    ...     _ = path.write_text('{"text": "one"}\\n{"text": "two"}\\n')
    ...     source = JsonLinesDataSource(path, index_folder=folder)
    ...     len(source), source[1]
    (2, {'text': 'two'})
    """

    def __init__(self, paths: PathLike | Sequence[PathLike], *, index_folder: PathLike | None = None) -> None:
        super().__init__(paths, JsonLinesFormat(), index_folder)
