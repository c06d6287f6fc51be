"""CSV files."""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from fuzzing.formats import Damaged, Format, Made
from fuzzing.outcomes import Refused, shown
from fuzzing.record_formats import unpacked
from fuzzing.table_formats import MISSING, loose
from grain import sources

_QUOTE_WITHIN = re.compile(r'(?<=[^,\r\n"])"(?=[^,\r\n"])')
"""A quote that neither begins nor ends a cell: readers think differently of it."""
_MISSING = ("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "N/A", "NA",
            "NULL", "NaN", "n/a", "nan", "null")  # fmt: skip
"""Words that stand for nothing."""
_WORDS = {"true": True, "false": False}


class Csv(Format):
    """No checksums, and all or nothing: the cells that Python's `csv` finds, as what they stand for."""

    value = staticmethod(loose)

    def __init__(self, is_packed: bool) -> None:
        self.name, self.suffix, self._is_packed = ("csv.gz", ".csv.gz", True) if is_packed else ("csv", ".csv", False)

    def made(self, rng: Random) -> Made:
        kinds = {
            "n": lambda: str(rng.randint(-999, 999)),
            "f": lambda: repr(rng.randint(-99, 99) / 8),
            "text": lambda: "".join(rng.choice('abä€ ",\n') for _ in range(rng.randint(1, 9))) + "x",
            "word": lambda: rng.choice(("cat", "dog")),
        }
        names = rng.sample(list(kinds), rng.randint(1, 4))
        rows = [[kinds[name]() for name in names] for _ in range(rng.randint(1, 12))]
        output = io.StringIO(newline="")
        writer = csv.writer(
            output, lineterminator=rng.choice(("\n", "\r\n")), quoting=rng.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
        )
        writer.writerows([names, *rows])
        content = output.getvalue().encode()
        records = [dict(zip(names, map(self._plain, names, row), strict=True)) for row in rows]
        return Made(gzip.compress(content, mtime=0) if self._is_packed else content, records)

    @staticmethod
    def _plain(name: str, cell: str) -> Any:
        return float(cell) if name in ("n", "f") else cell

    def source(self, path: str) -> Any:
        return sources.CsvDataSource(path)

    def problems(self, damaged: Damaged, outcomes: Mapping[int, Any], is_stream: bool) -> Iterator[str]:
        content, is_damaged = unpacked(damaged.content)
        found = [outcome for outcome in outcomes.values() if not isinstance(outcome, Refused)]
        if is_damaged and found:
            yield "the file is damaged, and no error came"
        text = content.removeprefix(b"\xef\xbb\xbf").decode("latin-1")
        lines = [line for line in csv.reader(io.StringIO(text, newline="")) if line]
        if not found or is_damaged or _QUOTE_WITHIN.search(text):
            return
        names = [name.encode("latin-1").decode(errors="replace") for name in lines[0]]
        if len(outcomes) != len(lines) - 1:
            yield f"{len(outcomes)} rows, and should be {len(lines) - 1}"
            return
        for key, (row, cells) in enumerate(zip(outcomes.values(), lines[1:], strict=True)):
            for name, cell in zip(names, cells, strict=True):
                if not _is_same(row.get(name), cell.encode("latin-1")):
                    yield f"row {key} has {shown(row.get(name))} in column {name!r}, and should have {shown(cell)}"


def _is_same(value: Any, cell: bytes) -> bool:
    """Whether a value is what a cell stands for."""
    if isinstance(value, bytes):
        return value == cell
    if isinstance(value, str):
        return value.encode() == cell
    word = cell.decode(errors="replace").strip(" \t")
    if value is MISSING:
        return word in _MISSING
    if isinstance(value, bool):
        return _WORDS.get(word.lower(), {"1": True, "0": False}.get(word)) == value
    try:
        return math.isclose(float(word), value, rel_tol=1e-6)
    except ValueError:
        return True  # a moment, or a number with another base: of these csv knows nothing
