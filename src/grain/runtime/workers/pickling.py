"""How elements and errors travel from one process to another.

Pickled, with the bytes of arrays beside the pickle. What is defined in a user's main module goes by value, because
workers never import that module; it comes back as what it was.
"""

from __future__ import annotations

import copyreg
import enum
import functools
import inspect
import io
import pickle
import sys
import traceback
import weakref
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from grain.runtime.workers.slabs import Bytes

# Smaller arrays are part of the pickle.
_WORTH_A_BUFFER = 1 << 12
_SPAWNED_MAIN = "__mp_main__"
"""What `multiprocessing` calls the main module in processes that it has not forked."""
_MAINS = ("__main__", _SPAWNED_MAIN)

if sys.version_info < (3, 12):  # until then it holds a lock, and a class that has one could not go by value
    copyreg.pickle(
        functools.cached_property,
        lambda attribute: (functools.cached_property, (attribute.func,), {"attrname": attribute.attrname}),
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
    file = io.BytesIO()
    main = sys.modules.get(_SPAWNED_MAIN)
    if main is not None and main.__name__ == _SPAWNED_MAIN:
        import cloudpickle

        cloudpickle.register_pickle_by_value(main)  # as it does with one that is called `__main__`
    _by_value_pickler()(file, protocol=5, buffer_callback=take_buffer).dump(value)
    return file.getvalue()


@functools.cache
def _by_value_pickler() -> Any:
    """The class of picklers. It is made when first needed, because importing cloudpickle takes its time."""
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, obj: Any) -> Any:
            if type(obj) is _Cached and (obj.__module__ in _MAINS or "<locals>" in obj.__qualname__):
                return _cached, (obj.__wrapped__, obj.cache_parameters())
            reduced = super().reducer_override(obj)
            is_by_value = isinstance(obj, type) and reduced is not NotImplemented and len(reduced) == 6
            return _as_received(obj, *reduced) if is_by_value else reduced

    return Pickler


def _cached(function: Callable[..., Any], parameters: dict[str, Any]) -> Callable[..., Any]:
    """A function that keeps what it returns; nothing that it has returned elsewhere comes along."""
    return functools.lru_cache(**parameters)(function)  # type: ignore[no-any-return]


_Cached: Any = type(functools.lru_cache(len))


def _as_received(cls: type, make: Any, arguments: Any, state: Any, *rest: Any) -> tuple[Any, ...]:
    """What cloudpickle makes of a class that goes by value, and what it leaves out: its full name, and slots.

    Without slots its objects would not go back to where it has some.
    """
    _is_own.setdefault(cls, True)
    if not isinstance(cls, enum.EnumMeta):
        from_the_start = {"__qualname__": cls.__qualname__}
        if "__slots__" in vars(cls) and NamedTuple not in vars(cls).get("__orig_bases__", ()):  # which has its own
            from_the_start["__slots__"] = cls.__slots__  # type: ignore[attr-defined]
        arguments = tuple({**each, **from_the_start} if isinstance(each, dict) else each for each in arguments)
        attributes, others = state
        state = {name: each for name, each in attributes.items() if not inspect.ismemberdescriptor(each)}, others
    return _received_class, (make, arguments, _is_named(cls)), (rest[-1], state), None, None, _set_up_class


def _is_named(cls: type) -> bool:
    """Whether a class of the main module is found there under its name."""
    main = sys.modules.get(cls.__module__)
    return cls.__module__ in _MAINS and getattr(main, cls.__qualname__, None) is cls


def _received_class(make: Any, arguments: Any, is_named: bool) -> type:
    """A class that comes by value. One that has a name has it here too, and so its objects go back by that name."""
    cls: type = make(*arguments)
    if not _is_own.setdefault(cls, False) and is_named:
        main = sys.modules.get(cls.__module__)
        if main is None or main.__name__ != cls.__module__:  # `multiprocessing` has one name stand for the other
            main = sys.modules[cls.__module__] = ModuleType(cls.__module__)
        setattr(main, cls.__qualname__, cls)
    return cls


def _set_up_class(cls: type, state: Any) -> None:
    """Give a class that comes by value what it has there, unless it is from here: a copy does not change it."""
    if not _is_own[cls]:
        set_state, attributes = state
        set_state(cls, attributes)


_is_own: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()
"""Of the classes that have gone by value to another process or come from one: whether they are from here."""


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
