"""The library's own exception types, and the notes it adds to those of users' functions."""

from __future__ import annotations


class PyGrainInternalError(Exception):
    """A promise of the library was broken: please report it."""


class UnknownOptionError(ValueError, AttributeError):
    """A name that `grain.config` does not have; an AttributeError too, so that `hasattr` works."""


class StateMismatchError(KeyError, ValueError):
    """A saved state that does not fit the pipeline."""

    def __str__(self) -> str:
        return str(self.args[0])


class StateTypeError(StateMismatchError, TypeError):
    """A saved state with something else in place of a number."""


class StateIndexError(StateMismatchError, IndexError):
    """A saved state with a number that is out of range."""


class RecordKeyError(ValueError, IndexError):
    """A number that a source of files has no record for."""


class EmptyDatasetError(IndexError, ZeroDivisionError):
    """An element was asked of a dataset that has none; a ZeroDivisionError too, which is what Grain raises."""

    def __init__(self, reason: str = "The dataset is empty") -> None:
        super().__init__(f"{reason}: there is no element at any index.")


_ORIGIN = "_grain_origin"


def is_from(error: BaseException, operator: object) -> bool:
    """Whether it was `operator` that lost an element with `error`."""
    return error.__dict__.get(_ORIGIN) == id(operator)


def add_place(error: BaseException, operator: object, index: int | None, origin: object = None) -> None:
    """Say in a note which operator failed, for which element; `origin` is the operator that has lost one of its own."""
    if origin is not None:
        error.__dict__.setdefault(_ORIGIN, id(origin))
    element = "" if index is None else f" for the element at index {index}"
    error.add_note(f"Raised in {operator}{element}.")
