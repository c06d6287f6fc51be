"""The plan of a pipeline after the passes, as an outline."""

from __future__ import annotations

from typing import Any

from grain.explaining.asking import call_text
from grain.explaining.outlines import Entry
from grain.fields import brief
from grain.graph.naming import counted, transform_name
from grain.ops.custom import iter_node_of
from grain.ops.interleaving import Interleave
from grain.ops.worker_parts import Workers
from grain.plan.index_steps import IndexStep
from grain.plan.kinds import Boundary, Gather, Group, Join, Read, Step, reads_many
from grain.plan.lowering import stream

_ENDLESS = 2**53
"""Nobody has so many elements: it is a share of what has no end."""


def stages(plan: Any) -> list[Entry]:
    """One entry for each stage and for each step of it, from the origin up."""
    downwards = [plan]
    while len(downwards[-1].inputs) == 1:
        downwards.append(downwards[-1].inputs[0])
    found = []
    for stage in reversed(downwards):
        if isinstance(stage, Step) and not stage.operator.call:  # nobody has asked for it, and it does nothing
            continue
        branches = (stage.inputs or _out_of_sight(stage)) if stage is downwards[-1] else ()
        found.append(Entry(_line(type(stage).__name__.lower(), _described(stage)), branches))
        for step in getattr(stage, "steps", ()):
            found.append(Entry(_line("index" if isinstance(step, IndexStep) else "element", repr(step))))
    return found


def _line(kind: str, text: str) -> str:
    return f"{kind:<9}{text}"


def _described(plan: Any) -> str:
    if isinstance(plan, Read):
        return repr(plan.records)
    if isinstance(plan, Gather):
        return f"{counted(len(plan.children), 'input')} by {brief(plan.picks)}"
    if isinstance(plan, Join):
        return f"tuples of {counted(len(plan.children), 'element')}"
    if isinstance(plan, Group):
        return f"{plan.extent!r}, {'stacked' if plan.join is None else f'joined by {transform_name(plan.join)}'}"
    if isinstance(plan, Boundary):
        together = (
            f", {plan.read_together} records at a time" if plan.read_together > 1 and reads_many(plan.access) else ""
        )
        count = "endlessly many elements" if plan.length >= _ENDLESS else counted(plan.length, "element")
        return f"{count} by index{together}"
    return call_text(plan.operator)


def _out_of_sight(plan: Any) -> list[Any]:
    """The plans of what is opened only while it runs: datasets that take turns, or the part of a worker."""
    operator = getattr(plan, "operator", None)
    if isinstance(operator, Workers):
        return [stream(operator.first_part)]
    if isinstance(operator, Interleave) and isinstance(operator.datasets, list | tuple):
        return _Lowered(operator.inputs)
    return []


class _Lowered(list[Any]):
    """Nodes that are lowered when they are looked at: of very many, only a few are."""

    def __getitem__(self, index: Any) -> Any:
        return [stream(iter_node_of(node)) for node in super().__getitem__(index)]
