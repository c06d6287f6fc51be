"""`grain.checkpoint`: iterators in the checkpoints of `orbax.checkpoint`, beside the model.

`CheckpointSave` and `CheckpointRestore` exist where Orbax can be imported, and import it when they are first used:

    manager.save(step, args=ocp.args.Composite(model=ocp.args.StandardSave(params), data=CheckpointSave(iterator)))
    manager.restore(step, args=ocp.args.Composite(model=..., data=CheckpointRestore(iterator)))
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, overload

from grain.files.state_files import (
    Checkpointable,
    jax_process,
    process_file,
    read_text,
    restoring_from,
    state_text,
    write_texts,
)

__all__ = ["CheckpointHandler", "GrainCheckpointHandler", "PyGrainCheckpointHandler"]

if TYPE_CHECKING:
    import os

    from grain.api.orbax_arguments import CheckpointRestore, CheckpointSave

    class BytesAsState(Protocol):
        """An iterator of anybody's whose state is bytes."""

        def get_state(self) -> bytes: ...

        def set_state(self, state: bytes, /) -> None: ...

        def start_prefetch(self) -> object: ...

    Item = TypeVar("Item", bound=Checkpointable | BytesAsState)
    Directory: TypeAlias = str | os.PathLike[str]

    GrainCheckpointRestore = PyGrainCheckpointRestore = CheckpointRestore
    GrainCheckpointSave = PyGrainCheckpointSave = CheckpointSave
    __all__ += ["CheckpointRestore", "GrainCheckpointRestore", "PyGrainCheckpointRestore"]
    __all__ += ["CheckpointSave", "GrainCheckpointSave", "PyGrainCheckpointSave"]


class CheckpointHandler:
    """Writes and reads the position of an iterator: of a dataset, or any whose state is bytes (a DataLoader's).

    Each process has a file of its own. Restoring changes the iterator and returns it.

    >>> import grain, tempfile
    >>> dataset = grain.MapDataset.range(5)
    >>> iterator, again = iter(dataset), iter(dataset)
    >>> next(iterator), next(iterator)
    (0, 1)
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     CheckpointHandler().save(directory, iterator)
    ...     next(CheckpointHandler().restore(directory, again))
    2
    """

    def __init__(self) -> None:
        if "orbax.checkpoint" in sys.modules:
            _orbax_argument("CheckpointSave")  # Orbax asks, as soon as it gets a handler, for its arguments

    def save(
        self,
        directory: Directory,
        item: Checkpointable | BytesAsState | None = None,
        args: CheckpointSave | None = None,
    ) -> None:
        """Write the position of `item`, or of `args.item`, to a file in `directory`."""
        iterator = _iterator(item, args)
        if isinstance(iterator, Checkpointable):
            texts = iterator._state_files()
        else:
            texts = {process_file(jax_process()): state_text(iterator.get_state())}
        write_texts(directory, texts)

    @overload
    def restore(self, directory: Directory, item: Item, args: CheckpointRestore | None = None) -> Item: ...
    @overload
    def restore(self, directory: Directory, item: None = None, args: CheckpointRestore | None = None) -> Any: ...
    def restore(self, directory: Directory, item: Any = None, args: CheckpointRestore | None = None) -> Any:
        """Take `item`, or `args.item`, to the position in `directory`, and let it begin to read ahead."""
        iterator = _iterator(item, args)
        with restoring_from(directory):
            if isinstance(iterator, Checkpointable):
                state = iterator._read_state(directory)
            else:
                state = read_text(directory, process_file(jax_process())).encode()
            iterator.set_state(state)
        iterator.start_prefetch()
        return iterator

    def structure(self, directory: Directory) -> None:
        """Nothing: positions are no trees of arrays."""

    def metadata(self, directory: Directory) -> None:
        """Nothing: positions are no trees of arrays."""

    def finalize(self, directory: Directory) -> None:
        """Nothing is left to do when all processes have written."""

    def close(self) -> None:
        """Nothing is held."""

    @classmethod
    def typestr(cls) -> str:
        """The name under which Orbax notes it in checkpoints: Grain's, so that either reads those of the other."""
        if cls is CheckpointHandler:
            return "grain._src.python.checkpoint.handler.CheckpointHandler"
        return f"{cls.__module__}.{cls.__qualname__}"


def _iterator(item: Any, args: Any) -> Any:
    if item is not None:
        return item
    if args is None or args.item is None:
        raise ValueError(
            "There is no iterator to save or restore: pass CheckpointSave(iterator) or CheckpointRestore(iterator)."
        )
    return args.item


def _orbax_argument(name: str) -> Any:
    try:
        from grain.api import orbax_arguments
    except ImportError as error:
        raise AttributeError(f"{name} needs Orbax ({error}): pip install orbax-checkpoint") from error
    orbax_arguments.register(CheckpointHandler)
    return getattr(orbax_arguments, name)


# The names of older programs.
PyGrainCheckpointHandler = GrainCheckpointHandler = CheckpointHandler

FOUND_LATER: dict[str, Callable[[], Any]] = {
    f"{prefix}{name}": functools.partial(_orbax_argument, name)
    for name in ("CheckpointSave", "CheckpointRestore")
    for prefix in ("", "Grain", "PyGrain")
}
"""Names that are looked up when they are first used, and how."""
