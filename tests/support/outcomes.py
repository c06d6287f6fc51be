"""What iterators give, errors included."""

from __future__ import annotations

from support.comparison import plain

ERROR = "error"
"""In the place of an element that has failed."""


class BrokenError(Exception):
    """What functions of tests raise."""


def step(iterator):
    """The next element, ERROR for one that fails, or None at the end."""
    try:
        return plain(next(iterator))
    except BrokenError:
        return ERROR
    except StopIteration:
        return None


def steps(iterator):
    """All that an iterator gives."""
    found = []
    while (element := step(iterator)) is not None:
        found.append(element)
        assert len(found) < 1000, "no end in sight"
    return found
