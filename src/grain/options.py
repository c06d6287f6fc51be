"""Options that users pass to reading, to workers and to whole pipelines."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any


def warn(message: str, *args: Any) -> None:
    """Log a warning."""
    import logging  # only now: `import grain` is to be fast

    logging.getLogger("grain").warning(message, *args)


@dataclasses.dataclass(slots=True)
class ReadOptions:
    """How elements of a MapDataset are read: at most `num_threads` at once, `prefetch_buffer_size` ahead.

    Nothing is read ahead where either is zero.

    >>> ReadOptions(num_threads=2)
    ReadOptions(num_threads=2, prefetch_buffer_size=500)
    """

    num_threads: int = 16
    prefetch_buffer_size: int = 500

    def __post_init__(self) -> None:
        for name in ("num_threads", "prefetch_buffer_size"):
            if (value := getattr(self, name)) < 0:
                raise ValueError(f"{name} must be non-negative, got {value}")
        if 0 < self.prefetch_buffer_size < self.num_threads:
            warn(
                "prefetch_buffer_size=%d is smaller than num_threads=%d: at most %d threads will be busy.",
                self.prefetch_buffer_size,
                self.num_threads,
                self.prefetch_buffer_size,
            )


@dataclasses.dataclass(slots=True)
class MultiprocessingOptions:
    """How many worker processes to use (None: one for each CPU), and how many elements each may have ready."""

    num_workers: int | None = 0
    per_worker_buffer_size: int = 1
    enable_profiling: bool = False


@enum.unique
class ExecutionTrackingMode(enum.Enum):
    """Whether the time spent in each stage is measured."""

    DISABLED = enum.auto()
    STAGE_TIMING = enum.auto()


class _Default:
    """Marks a field that the caller left alone."""


_DEFAULT: Any = _Default()
_DEFAULTS: dict[str, Any] = {
    "filter_warn_threshold_ratio": 0.9,
    "filter_raise_threshold_ratio": None,
    "execution_tracking_mode": ExecutionTrackingMode.DISABLED,
    "min_shm_size": 0,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetOptions:
    """Options of a whole pipeline, wherever in it they are given.

    `filter_warn_threshold_ratio` and `filter_raise_threshold_ratio`: warn, or raise, when a filter drops at least this
    share of 1,000 elements (None: never). `min_shm_size`: arrays of fewer bytes are not put in shared memory.

    >>> DatasetOptions(min_shm_size=8).merge(
    ...     DatasetOptions(min_shm_size=1, filter_warn_threshold_ratio=0.5)
    ... ).min_shm_size
    8
    """

    filter_warn_threshold_ratio: float | None = _DEFAULT
    filter_raise_threshold_ratio: float | None = _DEFAULT
    execution_tracking_mode: ExecutionTrackingMode = _DEFAULT
    min_shm_size: int = _DEFAULT
    _user_set_fields: frozenset[str] = dataclasses.field(default=frozenset(), init=False)

    __hash__ = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        explicit = {name for name in _DEFAULTS if getattr(self, name) is not _DEFAULT}
        for name in _DEFAULTS.keys() - explicit:
            object.__setattr__(self, name, _DEFAULTS[name])
        object.__setattr__(self, "_user_set_fields", frozenset(explicit))

    def merge(self, other: DatasetOptions | None) -> DatasetOptions:
        """These options, completed by those set in `other`."""
        if other is None:
            return self
        chosen = {name: getattr(other, name) for name in other._user_set_fields}
        chosen.update({name: getattr(self, name) for name in self._user_set_fields})
        return DatasetOptions(**chosen)
