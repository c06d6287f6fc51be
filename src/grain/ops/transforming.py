"""What all operators with a user's function share."""

from __future__ import annotations

from typing import Any, ClassVar

from grain.errors import add_place
from grain.graph.functions import Function
from grain.graph.node import Node
from grain.graph.specs import transformed_spec


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
