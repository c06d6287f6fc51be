"""What iterators give, errors included."""

from __future__ import annotations

import json

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


def assert_any_state_has_the_same_rest(dataset):
    """Save at every step, after errors too, and resume from there."""
    whole, iterator = steps(iter(dataset)), iter(dataset)
    for position in range(len(whole) + 1):
        resumed = iter(dataset)
        resumed.set_state(json.loads(json.dumps(iterator.get_state())))
        assert steps(resumed) == whole[position:], position
        step(iterator)
