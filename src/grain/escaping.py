"""Text from files on its way to a terminal."""

from __future__ import annotations


def printable(text: str, keep: str = "") -> str:
    r"""`text` with escapes in the place of what terminals obey or do not show, but for the characters of `keep`.

    That is what `repr` escapes: control characters, marks that change the direction of writing, spaces of other kinds.

    >>> print(printable("a\x1b[31m red\u202e name\n"))
    a\x1b[31m red\u202e name\n
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() or letter in keep else repr(letter)[1:-1] for letter in text)


def printable_message(error: BaseException) -> str:
    """The message of an error that others wrote, who may have put names from files into it as they were."""
    return printable(str(error), keep="\n")
