"""Raises exceptions in the middle of anything, as Ctrl-C does: at a call of a user's function, or at any line."""

from __future__ import annotations

import sys
from pathlib import Path

import grain
from grain.streams.cursor import Cursor

USERS_CODE = str(Path(__file__).parent)
LIBRARY = str(Path(grain.__file__).parent)
# What is called to save and to restore is not below `next`.
_NOT_FOR_ELEMENTS = {"get_state", "set_state", "close", "__len__", "__init__", "<module>"}
# In `Cursor.__next__`, the lines before the element is there. Those after them see to an exception that was raised.
_NEXT = Cursor.__next__.__code__
_LINES_OF_NEXT = range(_NEXT.co_firstlineno, _NEXT.co_firstlineno + 4)


class Interruption:
    """Calls functions, and raises `exception` in event number `at` of all calls together, once.

    With `again`, it is raised a second time when so many lines of the library have followed.
    """

    def __init__(self, at, *, lines=False, exception=KeyboardInterrupt, again=None):
        self.at, self.exception, self.count, self.place = at, exception, 0, None
        self._again = again
        self._trace = self._trace_lines if lines else self._trace_calls

    def call(self, function, *args):
        sys.settrace(self._trace)
        try:
            return function(*args)
        finally:
            sys.settrace(None)

    def _trace_calls(self, frame, event, argument):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(USERS_CODE) and code.co_name not in _NOT_FOR_ELEMENTS:
            self._meet(frame)
        return self._trace_again

    def _trace_again(self, frame, event, argument):
        """Lines after the first interrupt, but for those of `Cursor.__next__`, in which no signal is seen to."""
        code = frame.f_code
        if (
            event == "line"
            and self.place
            and self._again
            and code is not _NEXT
            and code.co_filename.startswith(LIBRARY)
        ):
            self._again -= 1
            if not self._again:
                self.place += f", and {code.co_filename}:{frame.f_lineno}, in {code.co_name}"
                raise self.exception("another interrupt")
        return self._trace_again

    def _trace_lines(self, frame, event, argument):
        code = frame.f_code
        if not code.co_filename.startswith(LIBRARY):
            return None
        if event == "line" and (code is not _NEXT or frame.f_lineno in _LINES_OF_NEXT):
            self._meet(frame)
        return self._trace_lines

    def _meet(self, frame):
        self.count += 1
        if self.count == self.at:
            self.place = f"{frame.f_code.co_filename}:{frame.f_lineno}, in {frame.f_code.co_name}"
            raise self.exception("an interrupt")


def count_events(dataset, *, lines=False):
    """How many calls of users' functions, or lines of the library, it takes to go through a dataset."""
    counting, iterator = Interruption(-1, lines=lines), iter(dataset)
    while True:
        try:
            counting.call(next, iterator)
        except StopIteration:
            return counting.count
