"""What happens in a forked process: nothing that has threads, or a lock that a thread may hold, is used there."""

from __future__ import annotations

import functools
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

T = TypeVar("T")


class cached_property(functools.cached_property[T]):  # noqa: N801 - the name that everybody knows
    """As that of functools, without the lock that it has in Python 3.11: a thread may hold it while another forks."""

    if not TYPE_CHECKING:

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            # Who computes it at the same time gets the same.
            return instance.__dict__.setdefault(self.attrname, self.func(instance))


class Forgetful(Protocol):
    """An object with threads or locks."""

    def begin_again(self) -> None:
        """In a forked process, before anything else is run there: have new locks, and use nothing that has threads."""


_SECONDS_TO_WAIT = 10.0
_all: weakref.WeakSet[Any] = weakref.WeakSet()


def begins_again(thing: Forgetful) -> None:
    """Let `thing` begin again in each forked copy of this process."""
    _all.add(thing)


class Undivided:
    """Work that goes on without the interpreter's lock, and has locks of its own: a fork waits until it is done.

    >>> undivided = Undivided()
    >>> with undivided:
    ...     sum(range(4))
    6
    """

    def __init__(self) -> None:
        self.begin_again()
        begins_again(self)
        _undivided.add(self)

    def begin_again(self) -> None:
        self._changed, self._count, self._forks = threading.Condition(), 0, 0

    def __enter__(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._forks)
            self._count += 1

    def __exit__(self, *error: object) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def wait(self) -> None:
        """Let nobody begin until `release`, and wait for those who have."""
        with self._changed:
            self._forks += 1
            self._changed.wait_for(lambda: not self._count, _SECONDS_TO_WAIT)

    def release(self) -> None:
        with self._changed:
            self._forks -= 1
            self._changed.notify_all()


_undivided: weakref.WeakSet[Undivided] = weakref.WeakSet()


def never_freed(thing: Any) -> None:
    """Keep an object until this process ends: freeing it would wait for threads that a fork has left behind."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _before() -> None:
    for work in list(_undivided):
        work.wait()


def _in_parent() -> None:
    for work in list(_undivided):
        work.release()


def _in_child() -> None:
    for thing in list(_all):
        thing.begin_again()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
