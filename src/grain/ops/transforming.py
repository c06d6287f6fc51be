"""What all operators with a user's function share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from grain import transforms
from grain.errors import add_place
from grain.graph.naming import transform_name, transform_place
from grain.graph.node import Node
from grain.graph.specs import transformed_spec

_KINDS: dict[str, type] = {
    "map": transforms.Map,
    "random_map": transforms.RandomMap,
    "np_random_map": transforms.TfRandomMap,
    "map_with_index": transforms.MapWithIndex,
    "filter": transforms.Filter,
    "flat_map": transforms.FlatMap,
}


class Function:
    """A user's transformation, an object with `method` or a plain function, called alike."""

    def __init__(self, transform: Any, method: str) -> None:
        self.transform, self.method = transform, method
        self.call: Callable[..., Any] = (
            getattr(transform, method) if isinstance(transform, _KINDS[method]) else transform
        )

    @property
    def name(self) -> str:
        if isinstance(self.transform, transforms.Filter) and self.method == "filter":
            return type(self.transform).__name__
        return transform_name(self.transform)

    @property
    def place(self) -> str:
        """The name, with file and line also for objects."""
        name = self.name
        return name if " @ " in name else f"{name}{transform_place(self.transform, self.method)}"

    def __reduce__(self) -> Any:
        return type(self), (self.transform, self.method)


class Transforming(Node):
    """An operator with one user's function and one parent."""

    parent: Any
    function: Function
    title: ClassVar[str]

    @property
    def parents(self) -> tuple[Any]:
        return (self.parent,)

    def element_spec(self, parent: Any) -> Any:
        return transformed_spec(self.function.transform, self.function.name, parent)

    def add_place(self, error: Exception, index: int | None) -> None:
        """Say in the error which function failed, and for which element."""
        add_place(error, f"{self.title}(transform={self.function.place})", index, self)

    def __str__(self) -> str:
        return f"{self.title}(transform={self.function.name})"
