"""The state of a pipeline with an interleave, taken apart by dataset and put together again for other datasets.

A *shard* is one of the datasets that are interleaved, with all that is done to it alone. What follows the interleave
passes elements on as they come, so that its position is nothing but that of the shards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from grain.graph.node import IterNode, Node, saved_fields
from grain.ops.interleaving import Interleave, Position, ShardState


def interleave_of(node: Node) -> Interleave:
    """The interleave that `node` passes the elements of on."""
    start = node
    while not isinstance(node, Interleave):
        if len(node.parents) != 1 or not _passes_on(node):
            raise ValueError(
                f"ElasticIterator does not support {node} in {start}: the position of a stream can be divided anew "
                "only by the datasets of an interleave, of which elements are then passed on as they come (map, "
                "filter, batch). Apply it to the datasets before they are interleaved."
            )
        (node,) = node.parents
    return node


def _passes_on(node: Node) -> bool:
    return (
        isinstance(node, IterNode)
        and not (node.is_opaque or node.reads_by_index)
        and (node.is_one_to_one or not saved_fields(node.State))
    )


def shard_states(node: Node, saved: Any, state_at_start: Callable[[int], Any]) -> list[ShardState]:
    """The states of all shards in a saved state; `state_at_start` tells those of shards that were not begun."""
    interleave = interleave_of(node)
    while not Position.is_in(saved):
        saved = saved["parent"]
    return Position.of_saved(saved, interleave).shards(len(interleave.datasets), state_at_start)


def with_shard_states(node: Node, saved: Any, shards: Sequence[ShardState]) -> Any:
    """`saved` with these shards: the first that have not ended are in use, the others wait."""
    if not Position.is_in(saved):
        return {**saved, "parent": with_shard_states(node, saved["parent"], shards)}
    return Position.of_shards(shards, interleave_of(node).cycle_length).saved()
