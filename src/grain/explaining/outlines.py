"""Outlines: entries one below the other, in the order in which elements pass them; where several meet, as branches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from grain.fields import Value

_MOST_BRANCHES = 3
_DEEPEST = 4
_FIRST, _LAST = 16, 6


class Entry(Value):
    """A line, and what comes together there."""

    text: str
    branches: Sequence[Any] = ()
    """What `entries` makes a column of."""


def outline(start: Any, entries: Callable[[Any], list[Entry]], depth: int = 0) -> Iterator[str]:
    """The lines of the column that `entries` makes of `start`, with its branches before what is made of them."""
    for entry in shortened(entries(start)):
        yield entry.text
        shown = entry.branches[: _MOST_BRANCHES if depth < _DEEPEST else 0]
        left = len(entry.branches) - len(shown)
        for number, branch in enumerate(shown, 1):
            is_last = number == len(shown) and not left
            first, further = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
            for position, line in enumerate(outline(branch, entries, depth + 1)):
                yield f"{further if position else first}{line}"
        if left:
            yield f"└─ … {left:,} {'more' if shown else 'inputs'}"


def shortened(column: list[Entry]) -> list[Entry]:
    """A column, of a long one the beginning and the end."""
    left = len(column) - _FIRST - _LAST
    if left <= 1:
        return column
    return [*column[:_FIRST], Entry(f"… {left:,} more"), *column[-_LAST:]]
