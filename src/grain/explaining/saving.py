"""What a state contains, found out without running any user's code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grain.graph.folding import folded
from grain.graph.node import IterNode, MapNode, Parent, Stateless
from grain.ops.interleaving import Interleave, Position
from grain.ops.worker_parts import Workers
from grain.streams.opening import open_stream

_MOST_SHOWN = 3


class _Known(IterNode[Stateless]):
    """In place of a stream that is not to be opened: its state at the start, or words for it."""

    saved: Any

    def save(self, state: Stateless, parents: Sequence[Parent]) -> Any:
        return self.saved


class Words(str):
    """What a state contains, where that is not known."""


def first_state(node: IterNode[Any]) -> Any:
    """The state of a stream at its start, as JSON values, with `Words` where that is up to users' code."""
    try:
        return open_stream(folded(node, _inputs, _closed)).save()
    except RecursionError as error:
        return Words(f"none: {error}")


def _inputs(node: Any) -> tuple[Any, ...]:
    """The streams that `node` reads from, where these are to be opened; more than a few are not shown."""
    if isinstance(node, MapNode | Interleave) or node.is_opaque or node.reads_by_index:
        return ()
    return node.parents[: _MOST_SHOWN + 1]  # type: ignore[no-any-return]


def _closed(node: Any, parents: list[Any]) -> Any:
    """`node` without what would be opened by users' code, in threads or in processes."""
    if parents:
        return node.with_parents(*parents, *[_Known(Words("…"))] * (len(node.parents) - len(parents)))
    if isinstance(node, Interleave):
        return _Known(_interleaved(node))
    if node.is_opaque and not isinstance(node, MapNode):
        return _Known(Words(f"what get_state() of {node}'s iterator returns"))
    return node


def _interleaved(node: Interleave) -> dict[str, Any]:
    """The state of an interleave whose datasets have not been opened."""
    count = min(node.cycle_length, len(node.datasets))
    each = first_state(node.first_part) if isinstance(node, Workers) else Words("the state of each dataset")
    return Position.of_workers(0, [each] * count).saved()


def shown(state: Any) -> str:
    """The shape of a state: its keys, and the types of what they stand for.

    >>> shown({"parent": {"next_index": 0}, "names": ["a"] * 10})
    '{"parent": {"next_index": int}, "names": [str, … 9 more]}'
    """
    if isinstance(state, dict):
        return f"{{{', '.join(f'{_quoted(key)}: {shown(value)}' for key, value in state.items())}}}"
    if isinstance(state, list):
        texts = [shown(value) for value in state]
        few = texts if len(texts) <= _MOST_SHOWN else texts[: 1 if len({*texts}) == 1 else _MOST_SHOWN]
        left = len(texts) - len(few)
        return f"[{', '.join([*few, *([f'… {left:,} more'] if left else [])])}]"
    if isinstance(state, Words):
        return str(state)
    return "None" if state is None else type(state).__name__


def _quoted(key: object) -> str:
    return f'"{key}"'
