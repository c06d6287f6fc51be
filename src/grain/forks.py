"""What happens in a forked process: nothing that has threads, or a lock that a thread may hold, is used there."""

from __future__ import annotations

import os
import weakref
from typing import Any, Protocol


class Forgetful(Protocol):
    """An object with threads or locks."""

    def begin_again(self) -> None:
        """In a forked process, before anything else is run there: have new locks, and use nothing that has threads."""


_all: weakref.WeakSet[Any] = weakref.WeakSet()


def begins_again(thing: Forgetful) -> None:
    """Let `thing` begin again in each forked copy of this process."""
    _all.add(thing)


def never_freed(thing: Any) -> None:
    """Keep an object until this process ends: freeing it would wait for threads that a fork has left behind."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _in_child() -> None:
    for thing in list(_all):
        thing.begin_again()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
