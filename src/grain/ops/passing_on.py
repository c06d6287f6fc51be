"""What operators share whose elements are those of their only parent."""

from __future__ import annotations

from typing import Any

from grain.graph.node import IterNode, MapNode, S
from grain.plan.index_steps import IndexStep


class Reordering(MapNode):
    """A node whose elements are those of its parent at other indices."""

    parent: MapNode

    @property
    def parents(self) -> tuple[MapNode]:
        return (self.parent,)

    def index_step(self) -> IndexStep:
        """index -> index in the parent."""
        raise NotImplementedError

    def lower(self, parent: Any) -> Any:
        return parent.then(self.index_step())

    def element_spec(self, parent: Any) -> Any:
        return parent


class PassingOn(IterNode[S]):
    """An operator whose elements are those of its only parent."""

    parent: Any

    @property
    def parents(self) -> tuple[Any]:
        return (self.parent,)

    def element_spec(self, parent: Any) -> Any:
        return parent
