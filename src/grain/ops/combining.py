"""What operators on several parents share."""

from __future__ import annotations

from typing import Any

from grain.graph.node import IterNode, MapNode, S


class Combining(MapNode):
    """An operator on several parents."""

    components: tuple[MapNode, ...]

    @property
    def parents(self) -> tuple[MapNode, ...]:
        return self.components

    def element_spec(self, *parents: Any) -> Any:
        return parents[0]

    def __str__(self) -> str:
        return f"MixedMapDataset[{len(self.components)} parents]"


class Merging(IterNode[S]):
    """An operator on several streams."""

    components: tuple[IterNode[Any], ...]

    @property
    def parents(self) -> tuple[IterNode[Any], ...]:
        return self.components
