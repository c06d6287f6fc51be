"""The state of a pipeline with an interleave, taken apart by dataset and put together again for other datasets.

A *shard* is one of the datasets that are interleaved, with all that is done to it alone. What follows the interleave
passes elements on as they come, so that its position is nothing but that of the shards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from grain.graph.node import IterNode, Node, saved_fields
from grain.ops.interleaving import Interleave

ShardState = dict[str, Any]
"""`exhausted` (0 or 1) and `state`, which may be None for a shard that has ended."""


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


def shard_states(saved: Any, count: int, state_at_start: Callable[[int], Any]) -> list[ShardState]:
    """The states of all `count` shards in a saved state; `state_at_start` tells those of shards that were not begun."""
    saved = _innermost(saved)
    future_states = {int(position): state for position, state in saved["future_states"].items()}
    result = []
    for position in range(count):
        state = None
        if position >= saved["next_index_in_datasets"]:
            state = future_states[position] if position in future_states else state_at_start(position)
        result.append({"exhausted": int(state is None), "state": state})
    slots = (saved["iterators_in_use_indices"], saved["iterators_in_use_states"], saved["exhausted"])
    for position, state, has_ended in zip(*slots, strict=True):
        if state is not None:
            result[position] = {"exhausted": has_ended, "state": state}
    return result


def with_shard_states(saved: Any, shards: Sequence[ShardState], cycle_length: int) -> Any:
    """`saved` with these shards: the first that have not ended are in use, the others wait."""
    if "next_index_in_cycle" not in saved:
        return {**saved, "parent": with_shard_states(saved["parent"], shards, cycle_length)}
    slot_count = min(cycle_length, len(shards))
    going_on = [position for position, shard in enumerate(shards) if not shard["exhausted"]]
    ended = [position for position, shard in enumerate(shards) if shard["exhausted"]]
    in_use = (going_on + ended)[:slot_count]
    next_position = going_on[:slot_count][-1] + 1 if going_on else len(shards)
    return {
        "next_index_in_cycle": 0,
        "next_index_in_datasets": next_position,
        "iterators_in_use_indices": in_use,
        "iterators_in_use_states": [shards[position]["state"] for position in in_use],
        "exhausted": [shards[position]["exhausted"] for position in in_use],
        "future_states": {
            position: None if shards[position]["exhausted"] else shards[position]["state"]
            for position in range(next_position, len(shards))
        },
    }


def _innermost(saved: Any) -> Any:
    while "next_index_in_cycle" not in saved:
        saved = saved["parent"]
    return saved
