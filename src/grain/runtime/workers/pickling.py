"""How elements and errors travel from one process to another.

Pickled, with the bytes of arrays beside the pickle. What is defined in a user's main module goes by value, because
workers never import that module; it comes back as what it was.
"""

from __future__ import annotations

import copyreg
import pickle
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from grain.runtime.workers.slabs import Bytes

# Smaller arrays are part of the pickle.
_WORTH_A_BUFFER = 1 << 12

if sys.version_info < (3, 12):  # until then it holds a lock, and a class that has one could not go by value
    copyreg.pickle(
        cached_property,
        lambda attribute: (cached_property, (attribute.func,), {"attrname": attribute.attrname}),
    )


def packed(value: Any) -> tuple[bytes, list[Bytes]]:
    """`value` as a pickle, and the bytes of its large arrays."""
    buffers: list[Bytes] = []

    def is_inside(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < _WORTH_A_BUFFER:
            return True
        buffers.append(np.frombuffer(raw, np.uint8))
        return False

    try:
        return pickle.dumps(value, protocol=5, buffer_callback=is_inside), buffers
    except Exception:  # it may hold what plain pickle cannot name
        buffers.clear()
        return pickled_by_value(value, is_inside), buffers


def pickled(value: Any) -> bytes:
    """`value` as a pickle, without large arrays in it."""
    try:
        return pickle.dumps(value)
    except Exception:
        return pickled_by_value(value)


def pickled_by_value(value: Any, take_buffer: Callable[[Any], Any] | None = None) -> bytes:
    """A pickle that holds what others could not import: functions, and all that is defined in the main module."""
    import cloudpickle

    return cloudpickle.dumps(value, protocol=5, buffer_callback=take_buffer)  # type: ignore[no-any-return]


def name_main_classes() -> None:
    """Have the classes that came here by value in this process's main module too.

    So they have the same name here as where they came from, and go back as a name: a copy would change the original.
    """
    import cloudpickle

    main = sys.modules["__main__"]
    for known in list(getattr(cloudpickle.cloudpickle, "_DYNAMIC_CLASS_TRACKER_BY_CLASS", ())):
        if known.__module__ == "__main__" and "." not in known.__qualname__:
            setattr(main, known.__qualname__, known)


def unpacked(body: Any, buffers: Sequence[Any]) -> Any:
    """What `packed` was given."""
    return pickle.loads(body, buffers=buffers)


class WorkerTracebackError(Exception):
    """The traceback of an error as it was in the worker; the cause of the error that the consumer sees."""

    def __str__(self) -> str:
        return f"in a worker process:\n\n{self.args[0]}"


def packed_error(error: BaseException) -> bytes:
    """`error` with its traceback as text; one that cannot travel becomes a RuntimeError that tells all about it."""
    text = "".join(traceback.format_exception(error))
    try:
        body, buffers = packed((error, text))
        back, _ = unpacked(body, buffers)
        if type(back).__name__ == type(error).__name__:
            return pickle.dumps((body, [bytes(buffer) for buffer in buffers]))
    except Exception:  # it cannot be pickled, or not be made again from its arguments
        pass
    stand_in = RuntimeError(f"{type(error).__module__}.{type(error).__qualname__}: {error}")
    for note in getattr(error, "__notes__", ()):
        stand_in.add_note(note)
    stand_in.add_note(
        f"It is a RuntimeError in place of a {type(error).__qualname__}, which cannot be pickled and so not leave the "
        "worker process. Exceptions can be pickled if `cls(*error.args)` makes an equal one."
    )
    return pickle.dumps((pickle.dumps((stand_in, text)), []))


def unpacked_error(packed: Any) -> BaseException:
    """The error, caused by a `WorkerTracebackError`."""
    error, text = unpacked(*pickle.loads(packed))
    error.__cause__ = WorkerTracebackError(text)
    return error  # type: ignore[no-any-return]
