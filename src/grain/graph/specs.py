"""The shapes and types of a pipeline's elements, told without reading any."""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol, runtime_checkable

from grain.graph.folding import folded
from grain.graph.node import Node


@runtime_checkable
class ShapeDtypeStructProtocol(Protocol):
    """Anything with a shape and a dtype, such as `jax.ShapeDtypeStruct`."""

    @property
    def shape(self) -> tuple[int | None, ...]: ...

    @property
    def dtype(self) -> Any: ...


@dataclasses.dataclass(frozen=True)
class ShapeDtypeStruct:
    """The shape (None: not known) and type of an array.

    >>> ShapeDtypeStruct(shape=(None, 3), dtype="float32").shape
    (None, 3)
    """

    shape: tuple[int | None, ...]
    dtype: Any


def element_spec(node: Node) -> Any:
    """The spec of the elements of `node`."""
    return folded(node, lambda each: each.parents, lambda each, parents: each.element_spec(*parents))


def transformed_spec(transform: Any, name: str, spec: Any) -> Any:
    """What `transform` says it makes of elements like `spec`."""
    if not hasattr(transform, "output_spec"):
        raise ValueError(
            f"Cannot infer element spec for transform {name} because it does not implement `output_spec` method. "
            "Give the transform object a method `output_spec(input_spec)` that returns the spec of its output."
        )
    return transform.output_spec(spec)
