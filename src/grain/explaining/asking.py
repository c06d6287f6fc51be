"""What was asked for: the operators of a pipeline, as a chain of calls or as an outline."""

from __future__ import annotations

from grain.explaining.outlines import Entry, shortened
from grain.graph.node import Node

_MOST_INPUTS = 3


def begins_chain(node: Node) -> bool:
    """Whether a chain of calls begins with `node`."""
    return len(node.inputs) != 1 or node.first_call("") is not None


def column(node: Node) -> list[Node]:
    """The operators from the one where the chain begins to `node`, without those that nobody has asked for."""
    found = [node]
    while not begins_chain(found[-1]):
        found.append(found[-1].inputs[0])
    return [each for each in reversed(found) if each.call or each is found[-1]]


def calls(node: Node) -> list[Entry]:
    """One entry for each operator."""
    first, *others = column(node)
    return [Entry(call_text(first), first.inputs), *(Entry(each.call) for each in others)]


def call_text(node: Node) -> str:
    """How an operator was asked for, with three dots for its inputs where they are arguments."""
    return node.first_call("…" if node.inputs else "") or node.call


def chain(node: Node, is_nested: bool = False) -> str:
    """The whole pipeline on one line.

    >>> import grain
    >>> chain(grain.MapDataset.range(10).shuffle(seed=1).batch(2)._node)
    'MapDataset.range(10).shuffle(seed=1).batch(2)'
    """
    first, *others = column(node)
    if type(first).__repr__ is not Node.__repr__:
        beginning = repr(first)
    else:
        beginning = call_text(first) if is_nested else first.first_call(_chains(first.inputs)) or first.call
    return "".join([beginning, *(_linked(entry.text) for entry in shortened([Entry(each.call) for each in others]))])


def _chains(nodes: tuple[Node, ...]) -> str:
    shown = [chain(node, is_nested=True) for node in nodes[:_MOST_INPUTS]]
    left = len(nodes) - len(shown)
    return ", ".join([*shown, *([f"… {left:,} more"] if left else [])])


def _linked(call: str) -> str:
    return call if call.startswith("[") else f".{call}"
