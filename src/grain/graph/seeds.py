"""Default seeds: how `.seed(s)` reaches the random operators after it."""

from __future__ import annotations

from collections import deque

from grain.graph.node import Node
from grain.indices.rng import derived_seed


def default_seed(parents: tuple[Node, ...]) -> int | None:
    """The seed of an operator on `parents` that was given none.

    It is derived from the nearest seed on every path, and from how many operators away it is: two operators of the same
    kind in one pipeline draw different numbers.
    """
    entropy: list[int] = []
    waiting = deque((parent, 1) for parent in parents)
    while waiting:
        node, distance = waiting.popleft()
        if node.carried_seed is not None:
            entropy += [node.carried_seed, distance]
        else:
            waiting.extend((parent, distance + 1) for parent in node.parents)
    return derived_seed(entropy) if entropy else None


def required_seed(seed: int | None, parents: tuple[Node, ...], operator: str) -> int:
    """`seed`, or the pipeline's where it is None."""
    if seed is None:
        seed = default_seed(parents)
    if seed is None:
        raise ValueError(
            f"`{operator}` requires a seed. Please provide it with `ds.seed(seed)` or `ds.{operator}(..., seed=seed)`"
        )
    return seed


def shown_seed(seed: int, parents: tuple[Node, ...]) -> str:
    """`seed` as an argument; nothing where it is the pipeline's."""
    return "" if seed == default_seed(parents) else f"seed={seed}"
