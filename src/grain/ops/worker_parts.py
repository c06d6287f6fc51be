"""Which part of a pipeline each of several workers runs.

1. Nothing is changed in place: a part is a new graph that shares its sources with the whole.
2. Random access is divided where a stream begins: worker i of n reads the elements i, i + n, i + 2n... All operators on
   streams work on that alone, so those that join, drop or count elements do so within a worker.
3. An interleave is divided by its datasets, and a user's stream by its method `set_slice`, or by its parents.
4. With `sequential`, worker i has the i-th contiguous block of each source instead, and what follows is applied to the
   block: a shuffle shuffles it, a repetition repeats it, a concatenation joins the blocks of its parents, batches are
   made of it (so each worker has a remainder, or drops one, as with batches of a stream).
5. That would make other elements than the whole has where an operator picks them by their places: slices, window
   shuffles, mixtures, zips, selections and users' own operators. Of those, worker i has a block of their elements, and
   where they are endless, which has no blocks, the elements i, i + n...
6. So the workers together read what one alone would: no record is left out, and none comes twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grain.graph.folding import folded
from grain.graph.naming import counted
from grain.graph.node import Context, IterNode, MapNode, Node, WorkerContext, ancestors
from grain.graph.parts import Part
from grain.graph.seeds import default_seed
from grain.ops.configuring import IterSeed, Transparent, WithOptions, collected_options, thread_prefetch_node
from grain.ops.interleaving import Interleave
from grain.ops.slicing import slice_node


def sharded(node: IterNode[Any], index: int, count: int, sequential: bool = False) -> IterNode[Any]:
    """What worker `index` of `count` runs of `node`."""
    if count == 1:
        return node
    part, own = Part(index, count, sequential), {}

    def divisible(each: Node) -> tuple[Node, ...]:
        own[id(each)] = _own_part(each, part)
        return each.parents if own[id(each)] is None else ()

    def divided(each: Node, parents: list[Node]) -> Node:
        return own[id(each)] or each.with_parents(*parents)

    return folded(node, divisible, divided)  # type: ignore[no-any-return]


def _own_part(node: Node, part: Part) -> Node | None:
    """The part of `node`, where it is not made of parts of its parents."""
    own = node.own_part(part)
    if own is not None:
        return own
    if isinstance(node, MapNode) and not (part.is_sequential and node.is_divisible):
        return slice_node(node, part.share_of(node.length))
    if not node.parents:
        raise ValueError(
            f"Cannot slice `IterDataset` source. {node} can not be divided between {part.count} workers: it has "
            "neither parents nor a method `set_slice(slice, sequential_slice)`, after which it gives only the elements "
            "of that slice. Write one, or use one worker."
        )
    return None


class Sharded(Transparent):
    """A pipeline, already divided, that runs as one of several workers."""

    worker: WorkerContext

    def context_above(self, context: Context) -> Context:
        return context.replaced(mp_context=self.worker)

    def __str__(self) -> str:
        return f"ShardedIterDataset(worker={self.worker.process_index}, count={self.worker.process_count})"


def worker_part(node: IterNode[Any], index: int, count: int, sequential: bool = False) -> Sharded:
    """`sharded(...)` as worker `index` runs it."""
    return Sharded(sharded(node, index, count, sequential), WorkerContext(index, count))


class Workers(Interleave):
    """The parts of a pipeline, each run by a worker, in turn."""

    whole: IterNode[Any]
    asked: str
    """How they were asked for."""
    place: str
    """Where the parts are run."""
    buffer_size: int
    is_sequential: bool

    @property
    def first_part(self) -> IterNode[Any]:
        """What the first worker runs; the whole, where a user's code would have to be asked for a part of it."""
        if any(node.is_opaque and not node.is_random_access for node in ancestors(self.whole)):
            return self.whole
        return worker_part(self.whole, 0, len(self.datasets), self.is_sequential)

    @property
    def inputs(self) -> tuple[IterNode[Any]]:
        return (self.whole,)

    def first_call(self, inputs: str) -> None:
        return None

    @property
    def call(self) -> str:
        return self.asked

    @property
    def inputs_run(self) -> str:
        return f"{self.place}, each at most {counted(self.buffer_size, 'element')} ahead"

    @property
    def held_back(self) -> str:
        return f"up to {counted(self.buffer_size, 'element')} of each worker, made ahead"


class _CarriedSeed(IterSeed):
    call = ""


class _CarriedOptions(WithOptions):
    call = ""


def in_turn(
    whole: IterNode[Any], parts: Sequence[IterNode[Any]], asked: str, place: str, buffer_size: int, sequential: bool
) -> IterNode[Any]:
    """One element of each of the `parts` of `whole` in turn, with its options and its seed."""
    count = len(parts)
    turns: IterNode[Any] = Workers(list(parts), count, count, count, 0, whole, asked, place, buffer_size, sequential)
    seed = default_seed((whole,))
    if seed is not None:
        turns = _CarriedSeed(turns, seed)
    return _CarriedOptions(turns, collected_options(whole))


def multithread_prefetch_node(
    parent: IterNode[Any], num_threads: int, buffer_size: int, sequential: bool
) -> IterNode[Any]:
    """`parent`, divided between threads."""
    if num_threads < 0:
        raise ValueError(f"num_threads must be 0 (none) or more, got {num_threads}.")
    parts = [worker_part(parent, index, num_threads, sequential) for index in range(num_threads)]
    asked = f"multithread_prefetch(num_threads={num_threads}, buffer_size={buffer_size})"
    ahead = [thread_prefetch_node(part, buffer_size) for part in parts]
    return in_turn(parent, ahead, asked, counted(num_threads, "thread"), buffer_size, sequential)
