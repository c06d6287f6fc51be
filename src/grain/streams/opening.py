"""From the plan of a stream to the stream."""

from __future__ import annotations

from typing import Any

from grain.graph.node import Context, Node, WorkerContext
from grain.ops.configuring import ThreadPrefetch, collected_options
from grain.ops.custom import CustomIter
from grain.ops.interleaving import Interleave
from grain.ops.process_prefetch import ProcessPrefetch
from grain.plan import kinds
from grain.plan.lowering import stream
from grain.streams.interleave_opening import InterleaveStream
from grain.streams.prefetching import PrefetchStream
from grain.streams.stream import BoundaryStream, CustomStream, Stream


def open_stream(node: Node, context: Context | None = None) -> Any:
    """The stream of an IterDataset, at its start; options that are set further down hold above too."""
    if context is None:
        context = Context(collected_options(node), WorkerContext())
    else:
        context = context.replaced(dataset_options=context.dataset_options.merge(collected_options(node)))
    return _opened(stream(node), context)  # type: ignore[arg-type]


def _opened(plan: kinds.Stream, context: Context) -> Any:
    if isinstance(plan, kinds.Boundary):
        return BoundaryStream(plan, context)
    operator = plan.operator
    if isinstance(operator, CustomIter):
        return CustomStream(operator, operator.open(), context)
    if isinstance(operator, ProcessPrefetch):
        from grain.streams.remote import RemoteStream  # only now: `import grain` is to be fast

        return RemoteStream(operator, context, open_stream)
    if isinstance(operator, Interleave):
        return InterleaveStream(operator, context, open_stream)
    above = operator.context_above(context)
    parents = tuple(_opened(parent, above) for parent in plan.parents)
    if isinstance(operator, ThreadPrefetch) and operator.prefetch_buffer_size:
        (parent,), (below,) = parents, plan.parents
        return PrefetchStream(operator, parent, context, operator.prefetch_buffer_size, lambda: _opened(below, above))
    return Stream(operator, parents, context)
