"""A bar that shows how far a long job has come."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from grain.escaping import printable

Advance: TypeAlias = Callable[[int], None]
_RECORDS_AT_ONCE = 256  # telling the bar of each one would take longer than writing it


@contextlib.contextmanager
def progress_bar(is_wanted: bool | None, total: int | None, title: str) -> Iterator[Advance]:
    """A function to be told of each piece of work. By default there is a bar where there is a terminal, and rich."""
    if is_wanted is None:
        is_wanted = sys.stderr.isatty() and importlib.util.find_spec("rich") is not None
    if not is_wanted:
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(printable(title), total=total)
        yield lambda count: bar.advance(task, count)


def told(records: Iterable[Any], advance: Advance) -> Iterator[Any]:
    """The records, while `advance` is told of them."""
    number = 0
    for number, record in enumerate(records, 1):
        yield record
        if number % _RECORDS_AT_ONCE == 0:
            advance(_RECORDS_AT_ONCE)
    advance(number % _RECORDS_AT_ONCE)
