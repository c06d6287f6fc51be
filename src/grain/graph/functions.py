"""Users' transformations: functions, or objects with a method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grain import transforms
from grain.fields import Compared
from grain.graph.naming import transform_name, transform_place

_KINDS: dict[str, type] = {
    "map": transforms.Map,
    "random_map": transforms.RandomMap,
    "np_random_map": transforms.TfRandomMap,
    "map_with_index": transforms.MapWithIndex,
    "filter": transforms.Filter,
    "flat_map": transforms.FlatMap,
}


class Function(Compared):
    """A user's transformation, an object with `method` or a plain function, called alike."""

    field_names = ("transform", "method")

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

    def __repr__(self) -> str:
        return self.place

    def __reduce__(self) -> Any:
        return type(self), (self.transform, self.method)
