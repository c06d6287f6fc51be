"""Positions that are said as an anchor, a position that was saved before, and what has come since."""

from __future__ import annotations

from typing import Any

from grain.indices.arithmetic import integer

ANCHOR = "anchor"
_ANCHORED = (ANCHOR, "elements_since", "errors_since")


def anchored(anchor: Any, elements: int, errors: int) -> dict[str, Any]:
    """The position so many elements after `anchor` (None: the start), and so many errors after the last of them."""
    return dict(zip(_ANCHORED, (anchor, elements, errors), strict=True))


def split_anchored(saved: Any) -> tuple[Any, int, int]:
    """A position as an anchor, and how many elements, and errors after the last of them, have come since."""
    if isinstance(saved, dict) and ANCHOR in saved and saved.keys() == {*_ANCHORED}:
        anchor, elements, errors = (saved[key] for key in _ANCHORED)
        return anchor, integer("elements_since", elements), integer("errors_since", errors)
    return saved, 0, 0
