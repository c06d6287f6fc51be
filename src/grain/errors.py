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


class RecordKeyError(ValueError, IndexError):
    """A number that a source of files has no record for."""


def add_place(error: BaseException, operator: object, index: int | None) -> None:
    """Say in a note which operator failed, and for which element."""
    element = "" if index is None else f" for the element at index {index}"
    error.add_note(f"Raised in {operator}{element}.")
