"""Tracebacks of users' errors, without the library's own frames."""

from __future__ import annotations

import os
from types import TracebackType

from grain.config import config

PACKAGE_FOLDER = os.path.dirname(__file__) + os.sep


class UnfilteredStackTraceError(Exception):
    """Carries the whole traceback, as the cause of an error whose own is shortened."""


def shorten_traceback(error: BaseException) -> None:
    """Take the library's frames out of `error`, as `grain.config.py_traceback_filtering` says."""
    mode = config.py_traceback_filtering
    if mode == "off" or error.__traceback__ is None:
        return
    if mode == "tracebackhide" or (mode == "auto" and _is_in_notebook()):
        _hide(error.__traceback__)
        return
    whole = error.__traceback__
    error.__traceback__ = _without_own_frames(whole)
    if mode == "remove_frames":
        unfiltered = UnfilteredStackTraceError("The traceback with all frames.").with_traceback(whole)
        unfiltered.__cause__ = error.__cause__
        error.__cause__ = unfiltered


def _without_own_frames(whole: TracebackType) -> TracebackType | None:
    """The traceback without frames of this package; the frame that raised stays in any case."""
    frames, current = [], whole
    while current.tb_next is not None:
        if not _is_own(current):
            frames.append(current)
        current = current.tb_next
    shortened = current
    for frame in reversed(frames):
        line = frame.tb_lineno or frame.tb_frame.f_code.co_firstlineno  # an interrupt may come where there is no line
        shortened = TracebackType(shortened, frame.tb_frame, frame.tb_lasti, line)
    return shortened


def _hide(traceback: TracebackType | None) -> None:
    while traceback is not None:
        if traceback.tb_next is not None and _is_own(traceback):
            traceback.tb_frame.f_locals["__tracebackhide__"] = True
        traceback = traceback.tb_next


def _is_own(traceback: TracebackType) -> bool:
    return is_own_file(traceback.tb_frame.f_code.co_filename)


def is_own_file(name: str) -> bool:
    """Whether a file is one of the library's."""
    return name.startswith(PACKAGE_FOLDER)


def _is_in_notebook() -> bool:
    import builtins

    return hasattr(builtins, "__IPYTHON__")
