"""Moving elements to accelerators."""

from __future__ import annotations

from typing import Any

from grain.graph.node import IterNode
from grain.ops.configuring import ThreadPrefetch, thread_prefetch_node
from grain.ops.mapping import map_node


def device_put_node(
    parent: IterNode[Any], device: Any, cpu_buffer_size: int, device_buffer_size: int
) -> ThreadPrefetch:
    """`parent` on `device`, with elements ready before and after the transfer."""
    try:
        import jax
    except ImportError as error:
        raise ImportError("device_put needs JAX, which is not installed: `pip install grain[jax]`.") from error

    def put(element: Any) -> Any:
        return jax.device_put(element, device)

    placed: Any = map_node(thread_prefetch_node(parent, cpu_buffer_size), put)
    return thread_prefetch_node(placed, device_buffer_size)
