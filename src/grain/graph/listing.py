"""Things that hold each other, as a list in which each comes after what it holds.

That can be pickled however high they are: pickling goes from an object into those that it holds, by a call each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from grain.fields import Fields
from grain.graph.folding import folded

Listed: TypeAlias = list[tuple[type[Fields], dict[str, Any]]]
"""The kind of each, and its fields, with places in the list for what it holds."""


class Place(Fields):
    """A place in a list."""

    number: int


def mapped(value: Any, kind: type, function: Callable[[Any], Any]) -> Any:
    """`value` with what `function` makes of them in place of the objects of a `kind` that it is or holds."""
    if isinstance(value, kind):
        return function(value)
    if isinstance(value, dict):
        return {key: mapped(item, kind, function) for key, item in value.items()}
    if isinstance(value, list | tuple) and any(isinstance(item, kind) for item in value):
        return type(value)(mapped(item, kind, function) for item in value)
    return value


def listed(top: Any, kind: type) -> Listed:
    """`top`, and all of its `kind` that are below."""
    result: Listed = []

    def held(each: Any) -> list[Any]:
        found: list[Any] = []
        for name in each.field_names:
            mapped(getattr(each, name), kind, found.append)
        return found

    def placed(each: Any, places: list[Place]) -> Place:
        given = iter(places)
        fields = {name: mapped(getattr(each, name), kind, lambda _: next(given)) for name in each.field_names}
        result.append((type(each), fields))
        return Place(len(result) - 1)

    folded(top, held, placed)
    return result


def unlisted(things: Listed) -> Any:
    """What `listed` was given."""
    made: list[Any] = []
    for kind, fields in things:
        made.append(
            kind(**{name: mapped(value, Place, lambda place: made[place.number]) for name, value in fields.items()})
        )
    return made[-1]
