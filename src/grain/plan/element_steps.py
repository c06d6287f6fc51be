"""Element steps: from an element to the element above it, by a user's function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from grain.errors import add_place
from grain.fields import Value
from grain.graph.functions import Function
from grain.indices.rng import RngPool


class ElementStep(Value):
    """element -> element."""

    title: str
    """The operator's name, for notes on errors."""
    function: Function
    indexed: ClassVar[bool] = False
    """Whether `call` gets the index too."""
    keeps: ClassVar[bool] = False
    """Whether `call` says if the element is kept."""

    @property
    def call(self) -> Callable[..., Any]:
        """What is called with the element, and with its index where `indexed`."""
        return self.function.call

    def add_place(self, error: Exception, index: Any) -> None:
        """Say in the error which function failed, and for which element."""
        add_place(error, f"{self.title}(transform={self.function.place})", index)

    def __repr__(self) -> str:
        others = [f", {name}={getattr(self, name)!r}" for name in self.field_names[2:]]
        return f"{type(self).__name__}({self.function!r}{''.join(others)})"


class Apply(ElementStep):
    """A function of the element."""


class Keep(ElementStep):
    """The element, or None where a function of it is false."""

    keeps = True


class ApplyWithIndex(ElementStep):
    """A function of the index and the element."""

    indexed = True

    @property
    def call(self) -> Callable[[Any, Any], Any]:
        function = self.function.call
        return lambda element, index: function(index, element)


class ApplyRandom(ElementStep):
    """A function of the element and a random generator, which `seed` and the index determine."""

    seed: int
    indexed = True

    @property
    def call(self) -> Callable[[Any, Any], Any]:
        return RngPool(self.seed).caller(self.function.call)
