"""From the plan of a stream to the stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grain.graph.node import Context, Node, WorkerContext
from grain.ops.configuring import collected_options
from grain.plan import kinds
from grain.plan.lowering import check_height, stream
from grain.streams.boundary import BoundaryStream
from grain.streams.custom_stream import CustomStream
from grain.streams.interleave import InterleaveStream
from grain.streams.prefetching import PrefetchStream
from grain.streams.stream import OperatorStream, Stream


def open_stream(node: Node, context: Context | None = None) -> Stream:
    """The stream of an IterDataset, at its start; options that are set further down hold above too."""
    if context is None:
        context = Context(collected_options(node), WorkerContext())
    else:
        context = context.replaced(dataset_options=context.dataset_options.merge(collected_options(node)))
    plan = stream(node)  # type: ignore[arg-type]
    check_height(plan)
    return _opened(plan, context)


def _opened(plan: kinds.Stream, context: Context) -> Stream:
    return STREAMS[type(plan)](plan, context)


def _step(plan: kinds.Step, context: Context) -> Stream:
    above = plan.operator.context_above(context)
    parents = []
    for parent in plan.parents:  # pipelines may be long: fewer calls upon each other
        parents.append(STREAMS[type(parent)](parent, above))
    return OperatorStream(plan.operator, tuple(parents), context)


def _ahead(plan: kinds.Ahead, context: Context) -> Stream:
    above = plan.operator.context_above(context)
    return PrefetchStream(plan.operator, context, plan.size, lambda: _opened(plan.parent, above))


def _remote(plan: kinds.Remote, context: Context) -> Stream:
    from grain.streams.remote import RemoteStream  # only now: `import grain` is to be fast

    return RemoteStream(plan.operator, context, open_stream)  # type: ignore[arg-type]


def _custom(plan: kinds.Custom, context: Context) -> Stream:
    reopen: Callable[[], Any] = plan.operator.open  # type: ignore[attr-defined]
    return CustomStream(plan.operator, reopen(), context, reopen)


STREAMS: dict[type, Callable[[Any, Context], Stream]] = {
    kinds.Boundary: BoundaryStream,
    kinds.Step: _step,
    kinds.Turns: lambda plan, context: InterleaveStream(plan.operator, context, open_stream),
    kinds.Ahead: _ahead,
    kinds.Remote: _remote,
    kinds.Custom: _custom,
}
"""Who opens a stream of each kind."""
