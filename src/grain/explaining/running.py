"""Where the operators of a pipeline run, and what they hold back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby

from grain.explaining.asking import begins_chain
from grain.explaining.outlines import Entry
from grain.fields import Value
from grain.graph.node import Node
from grain.ops.custom import iter_node_of
from grain.ops.interleaving import Interleave
from grain.ops.worker_parts import Workers

HERE = "inline"


class Placed(Value):
    """An operator, and where it runs."""

    node: Node
    place: str = HERE
    within: str = ""
    """Said before places that are within a worker process."""

    @property
    def inputs(self) -> list[Placed]:
        """What it reads from."""
        runs, within = self.node.inputs_run, self.within
        place = f"{within}{runs}" if runs else self.place
        if isinstance(self.node, Workers):
            within = "in each worker, "
        return [Placed(each, self._own_place(each) or place, within) for each in self.node.inputs]

    def _own_place(self, node: Node) -> str:
        """Where an interleave reads a dataset with random access, of which it makes a stream."""
        are_streams = isinstance(self.node, Interleave) and isinstance(self.node.datasets, list | tuple)
        return iter_node_of(node).inputs_run if are_streams and node.is_random_access else ""


def places(top: Placed) -> list[Entry]:
    """One entry for each place, with the names of the operators that run there."""
    placed = [top]
    while not begins_chain(placed[0].node):
        placed = [*placed[0].inputs, *placed]
    asked_for = [each for each in placed if each.node.call or each is placed[0]]
    entries = []
    for where, group in groupby(asked_for, key=lambda each: each.place):
        names = [_name(each.node) for each in group]
        entries.append(Entry(f"{where}: {', '.join(names if len(names) < 9 else [*names[:4], '…', *names[-3:]])}"))
    return [entries[0].replaced(branches=placed[0].inputs), *entries[1:]]


def _name(node: Node) -> str:
    shown = node.first_call("") or node.call
    return "slice" if shown.startswith("[") else shown.partition("(")[0]


def held_back(top: Node) -> Iterator[str]:
    """What operators keep between two elements."""
    seen, waiting = {id(top)}, [top]
    for node in waiting:  # grows while it is gone through
        for each in node.inputs:
            if id(each) not in seen:
                seen.add(id(each))
                waiting.append(each)
    found = Counter(f"{_name(node)}: {node.held_back}" for node in reversed(waiting) if node.held_back)
    for line, count in found.items():
        yield line if count == 1 else f"{line} ({count:,} times)"
