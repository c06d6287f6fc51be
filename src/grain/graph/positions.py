"""Positions that are said as an anchor, a position that was saved before, and what has come since."""

from __future__ import annotations

from typing import Any

from grain.errors import StateIndexError, StateTypeError
from grain.indices.arithmetic import integer

MOST = 2**53
"""More than can have been counted in a pipeline's life."""
ANCHOR = "anchor"
_ANCHORED = (ANCHOR, "elements_since", "errors_since")


def anchored(anchor: Any, elements: int, errors: int) -> dict[str, Any]:
    """The position so many elements after `anchor` (None: the start), and so many errors after the last of them."""
    return dict(zip(_ANCHORED, (anchor, elements, errors), strict=True))


def split_anchored(saved: Any) -> tuple[Any, int, int]:
    """A position as an anchor, and how many elements, and errors after the last of them, have come since."""
    if isinstance(saved, dict) and ANCHOR in saved and saved.keys() == {*_ANCHORED}:
        anchor, elements, errors = (saved[key] for key in _ANCHORED)
        return anchor, saved_count("elements_since", elements), saved_count("errors_since", errors)
    return saved, 0, 0


def saved_count(name: str, value: Any, most: int = MOST) -> int:
    """A number that was saved under `name`, where it can be one: not negative, and at most `most`."""
    try:
        count = integer(name, value)
    except TypeError as error:
        raise StateTypeError(f"{error} Restore the state with the pipeline that saved it.") from None
    if not 0 <= count <= most:
        raise StateIndexError(
            f"Checkpoint `{name}` {count} is out of range: it must be from 0 to {most}. Restore it with the pipeline "
            "that saved it."
        )
    return count
