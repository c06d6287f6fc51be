"""`ElasticIterator`: a position that can be resumed with another number of shards and another batch size."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from grain.api.dataset_iterator import DatasetIterator
from grain.api.iter_dataset import IterDataset, NodeIterDataset
from grain.api.map_dataset import NodeMapDataset
from grain.files.state_files import (
    as_path,
    jax_process,
    parsed,
    process_file,
    read_text,
    saved_process_count,
    state_text,
)
from grain.graph.node import ancestors, required
from grain.indices.arithmetic import integer
from grain.ops.custom import iter_node_of, node_of
from grain.ops.interleaving import ShardState
from grain.ops.resharding import interleave_of, shard_states, with_shard_states
from grain.ops.worker_parts import sharded
from grain.options import MultiprocessingOptions, ReadOptions
from grain.sharding import ShardOptions

if TYPE_CHECKING:
    from grain.api.dataset import Dataset

_NO_SHARD_STATES = "A MapDataset has no shard states: its position is one number for all shards."


class ElasticIterator(DatasetIterator[Any]):
    """The batches of one of several shards, which together make batches of `global_batch_size`.

    Saved in a run with some number of shards, it can be restored in one with another. Over a MapDataset nothing is
    repeated, skipped or put in another order by that; at the end, a shard without enough elements for a batch stops.
    Over an IterDataset, which must be an interleave, the datasets are dealt out anew. `read_options` and
    `multiprocessing_options` say how a MapDataset is read.

    >>> import grain
    >>> dataset = grain.MapDataset.range(12)
    >>> first, second = (ElasticIterator(dataset, 4, grain.ShardOptions(index, 2)) for index in range(2))
    >>> next(first), next(second)
    (array([0, 2]), array([1, 3]))
    >>> alone = ElasticIterator(dataset, 6, grain.NoSharding())
    >>> alone.set_state(first.get_state())
    >>> next(alone)
    array([4, 5, 6, 7, 8, 9])
    """

    def __init__(
        self,
        ds: Dataset[object],
        global_batch_size: int,
        shard_options: ShardOptions,
        *,
        read_options: ReadOptions | None = None,
        multiprocessing_options: MultiprocessingOptions | None = None,
    ) -> None:
        node = node_of(ds)
        for ancestor in ancestors(node):
            if ancestor.is_random_access and ancestor.may_drop:
                raise ValueError(
                    f"ElasticIterator does not support `filter` transformation. {ancestor} may discard elements, so "
                    "that shards would have different numbers of them: filter the records beforehand."
                )
        batches = _Batches(integer("global_batch_size", global_batch_size), shard_options)
        self._base: _Shard
        if node.is_random_access:
            self._base = _MapShard(node, batches, read_options or ReadOptions(), multiprocessing_options)
        elif multiprocessing_options is None:
            self._base = _StreamShard(node, batches)
        else:
            raise NotImplementedError(
                "ElasticIterator does not take multiprocessing_options for an IterDataset: use `mp_prefetch` on the "
                "datasets before they are interleaved."
            )
        super().__init__(self._base)

    @property
    def shard_options(self) -> ShardOptions:
        """Which of how many shards it is."""
        return self._base.batches.shard_options

    @property
    def base_iterator(self) -> DatasetIterator[Any]:
        """The iterator of this shard."""
        return self._base.iterator

    def __next__(self) -> Any:
        return next(self._base)

    def get_state(self) -> dict[str, Any]:
        return self._base.get_state()

    def set_state(self, state: dict[str, Any]) -> None:
        self._base.set_state(state)

    def get_shard_states(self) -> dict[int, ShardState]:
        """The positions in the datasets of an interleave that this shard reads, by their numbers in the whole."""
        return self._base.get_shard_states()

    def set_shard_states(self, states: Mapping[int, ShardState]) -> None:
        """Go to positions in the datasets that this shard reads now, whichever shards read them before."""
        self.set_state(self._base.state_of_shards(states))

    def _state_files(self) -> dict[str, str]:
        return {**super()._state_files(), **self._base.shard_files()}

    def _read_state(self, directory: Any) -> dict[str, Any]:
        saved_count = saved_process_count(directory)
        if saved_count in (0, jax_process()[1]):
            return super()._read_state(directory)  # type: ignore[no-any-return]
        return self._base.state_of_files(directory, saved_count)


class _Batches:
    """How large the batches of one shard are."""

    def __init__(self, global_size: int, shard_options: ShardOptions) -> None:
        self.global_size, self.shard_options = global_size, shard_options
        self.index, self.count = shard_options.shard_index, shard_options.shard_count

    @property
    def size(self) -> int:
        if self.global_size % self.count:
            raise ValueError(
                f"Global batch size {self.global_size} is not divisible by shard count {self.count}. "
                "All shards have batches of one size."
            )
        return self.global_size // self.count


class _Shard(DatasetIterator[Any]):
    """The iterator of one shard, made when it is first needed."""

    def __init__(self, batches: _Batches) -> None:
        super().__init__()
        self.batches = batches
        self._opened: DatasetIterator[Any] | None = None

    @property
    def iterator(self) -> DatasetIterator[Any]:
        if self._opened is None:
            self._assert_not_closed()
            self._opened = self._open()
            self._opened._share_context(self._ctx)
        return self._opened

    def start_prefetch(self) -> None:
        self.iterator.start_prefetch()

    def close(self) -> None:
        super().close()
        if self._opened is not None:
            self._opened.close()

    @abc.abstractmethod
    def _open(self) -> DatasetIterator[Any]: ...

    def get_shard_states(self) -> dict[int, ShardState]:
        raise NotImplementedError(_NO_SHARD_STATES)

    def state_of_shards(self, states: Mapping[int, ShardState]) -> dict[str, Any]:
        """The state that has the datasets of this shard at these positions."""
        raise NotImplementedError(_NO_SHARD_STATES)

    def shard_files(self) -> dict[str, str]:
        """The texts of files beside those of the processes, by their names."""
        return {}

    @abc.abstractmethod
    def state_of_files(self, directory: Any, saved_count: int) -> dict[str, Any]:
        """The state, from files that another number of processes wrote."""


class _MapShard(_Shard):
    """Batches of every shard_count-th element from a place on that all shards share."""

    def __init__(
        self, node: Any, batches: _Batches, read_options: ReadOptions, workers: MultiprocessingOptions | None
    ) -> None:
        super().__init__(batches)
        self._dataset, self._read_options, self._workers = NodeMapDataset[Any](node), read_options, workers
        self._global_next_index = 0

    def _open(self) -> DatasetIterator[Any]:
        start = self._global_next_index + self.batches.index
        own = self._dataset[start :: self.batches.count].batch(self.batches.size, drop_remainder=True)
        stream: IterDataset[Any] = own.to_iter_dataset(self._read_options)
        return iter(stream if self._workers is None else stream.mp_prefetch(self._workers))

    def __next__(self) -> Any:
        batch = next(self.iterator)
        self._global_next_index += self.batches.global_size
        return batch

    def get_state(self) -> dict[str, Any]:
        return {"global_next_index": self._global_next_index}

    def set_state(self, state: dict[str, Any]) -> None:
        saved = required(state, ("global_next_index",), self._dataset._node)
        index = integer("global_next_index", saved["global_next_index"])
        if index < 0:
            raise ValueError(f"global_next_index must not be negative, got {index}: the state was changed.")
        if self._opened is not None:
            self._opened.close()
        self._global_next_index, self._opened = index, None

    def state_of_files(self, directory: Any, saved_count: int) -> dict[str, Any]:
        first = process_file((0, saved_count))  # all say the same, save that at the end the first may be a batch ahead
        return parsed(read_text(directory, first), first)


class _StreamShard(_Shard):
    """Batches of every shard_count-th dataset of an interleave."""

    def __init__(self, node: Any, batches: _Batches) -> None:
        super().__init__(batches)
        interleave_of(node)
        self._node = sharded(node, batches.index, batches.count)
        self._interleave = interleave_of(self._node)
        self._states_at_start: dict[int, Any] = {}

    def _open(self) -> DatasetIterator[Any]:
        stream = NodeIterDataset[Any](self._node)
        return iter(stream.batch(self.batches.size) if self.batches.global_size else stream)

    def __next__(self) -> Any:
        return next(self.iterator)

    def get_state(self) -> dict[str, Any]:
        return self.iterator.get_state()

    def set_state(self, state: dict[str, Any]) -> None:
        self.iterator.set_state(state)

    def get_shard_states(self) -> dict[int, ShardState]:
        states = shard_states(self._node, self.get_state(), self._state_at_start)
        return dict(zip(self._numbers(), states, strict=True))

    def state_of_shards(self, states: Mapping[int, ShardState]) -> dict[str, Any]:
        missing = [number for number in self._numbers() if number not in states]
        if missing:
            raise ValueError(
                f"The states of datasets {missing} are missing among {sorted(states)}: restore with as many datasets "
                "as were saved."
            )
        own = [required(states[number], ("exhausted", "state"), self._node) for number in self._numbers()]
        return with_shard_states(self._node, self.get_state(), own)  # type: ignore[no-any-return]

    def shard_files(self) -> dict[str, str]:
        return {_shard_file(number): state_text(state) for number, state in self.get_shard_states().items()}

    def state_of_files(self, directory: Any, saved_count: int) -> dict[str, Any]:
        names = {number: _shard_file(number) for number in self._numbers()}
        beyond = _shard_file(self.batches.index + self.batches.count * len(names))
        if (as_path(directory) / beyond).exists():
            raise ValueError(f"{beyond} is of a dataset that {self._node} has not: restore with as many as were saved.")
        return self.state_of_shards(
            {number: parsed(read_text(directory, name), name) for number, name in names.items()}
        )

    def _numbers(self) -> Iterator[int]:
        """The numbers, in the whole, of the datasets of this shard."""
        return (self.batches.index + self.batches.count * local for local in range(len(self._interleave.datasets)))

    def _state_at_start(self, position: int) -> Any:
        """The state of a dataset before its first element; None where it is missing."""
        if position not in self._states_at_start:
            dataset = self._interleave.datasets[position]
            state = None
            if dataset is not None:
                with iter(NodeIterDataset[Any](iter_node_of(dataset))) as iterator:
                    state = iterator.get_state()
            self._states_at_start[position] = state
        return self._states_at_start[position]


def _shard_file(number: int) -> str:
    return f"shard_state_{number}.json"
