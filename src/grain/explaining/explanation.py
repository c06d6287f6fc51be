"""What `ds.explain()` returns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from grain.explaining.asking import calls, chain
from grain.explaining.outlines import outline
from grain.explaining.planning import stages
from grain.explaining.running import Placed, held_back, places
from grain.explaining.saving import first_state, shown
from grain.fields import Value
from grain.graph.node import Node
from grain.ops.sourcing import to_iter_dataset_node
from grain.plan.lowering import random_access, stream


class Section(Value):
    """Lines under a heading."""

    title: str
    lines: tuple[str, ...]


class Explanation(Value):
    """What a pipeline will do, as text (`str`) or in a notebook.

    Nothing is read and nothing is started for it.
    """

    chain: str
    """The pipeline on one line."""
    sections: tuple[Section, ...]

    def __str__(self) -> str:
        parts = ("\n".join([section.title, *(f"  {line}" for line in section.lines)]) for section in self.sections)
        return "\n\n".join([self.chain, *parts])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from html import escape

        return f"<p><code>{escape(self.chain)}</code></p>" + "".join(
            f"<details open><summary>{escape(section.title)}</summary>"
            f"<pre>{escape(chr(10).join(section.lines))}</pre></details>"
            for section in self.sections
        )


def explained(node: Any, written: Any = lambda state: state) -> Explanation:
    """The explanation of a pipeline, of which states are kept as `written` makes them of those of the stream."""
    plan = random_access(node) if node.is_random_access else stream(node)
    parts = {
        "Asked for": outline(node, calls),
        "Plan (elements go down, indices up)": outline(plan, stages),
        "Runs": _runs(node),
        "Holds back between two elements": list(held_back(node)) or ["nothing"],
        "State": [_state(node, written)],
    }
    return Explanation(chain(node), tuple(Section(title, tuple(lines)) for title, lines in parts.items()))


def _runs(node: Any) -> Iterator[str]:
    yield from outline(Placed(node), places)
    if node.is_random_access:
        yield f"iter(ds): {to_iter_dataset_node(node).inputs_run or 'inline'}"


def _state(node: Node, written: Any) -> str:
    if node.is_random_access:
        return f"none; of iter(ds): {shown(first_state(to_iter_dataset_node(node)))}"  # type: ignore[arg-type]
    return shown(written(first_state(node)))  # type: ignore[arg-type]
