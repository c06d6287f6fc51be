"""Files that hold the states of iterators: one for each process, in the directory of a checkpoint.

What writes and reads them needs of a directory only what `pathlib.Path` has, so that Orbax can pass paths in the cloud.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Coroutine, Iterator, Mapping
from typing import Any, ClassVar

_PROCESS_FILE = re.compile(r"process_(\d+)-of-(\d+)\.json")


def jax_process() -> tuple[int, int]:
    """The index of this process and the number of them: (0, 1) in a program that has not imported JAX."""
    jax = sys.modules.get("jax")  # where it is not imported, nothing can have told it of other processes
    return (0, 1) if jax is None else (jax.process_index(), jax.process_count())


def process_file(process: tuple[int, int]) -> str:
    """The name of the file of one process, given its index and the number of them.

    >>> process_file((0, 2))
    'process_0-of-2.json'
    """
    return "process_{}-of-{}.json".format(*process)


def saved_process_count(directory: Any) -> int:
    """How many processes wrote the files in `directory`; 0 where there are none."""
    if not as_path(directory).exists():
        return 0
    found = (_PROCESS_FILE.fullmatch(path.name) for path in as_path(directory).iterdir())
    return max((int(match.group(2)) for match in found if match), default=0)


def as_path(directory: Any) -> Any:
    """A string as a path; whatever has the methods of one as it is."""
    if not isinstance(directory, str):
        return directory
    from pathlib import Path  # only now: `import grain` is to be fast

    return Path(directory)


def state_text(state: Mapping[str, Any] | bytes) -> str:
    """What a file holds: JSON, or the text that an iterator gave as bytes.

    >>> print(state_text({"next_index": 3}))
    {
        "next_index": 3
    }
    """
    if isinstance(state, bytes):
        return state.decode()
    import json  # only now: `import grain` is to be fast

    return json.dumps(state, indent=4)


def parsed(text: str, path: Any) -> dict[str, Any]:
    """The state that `text`, read from `path`, holds."""
    import json

    try:
        state = json.loads(text)
    except ValueError as error:
        raise ValueError(
            f"{path} does not hold the state of an iterator: {error}. It was cut short or changed: restore another "
            "step."
        ) from None
    if not isinstance(state, dict):
        raise ValueError(f"{path} does not hold the state of an iterator, but {text[:80]!r}; restore another step.")
    return state


def write_texts(directory: Any, texts: Mapping[str, str]) -> None:
    """Write files by their names."""
    for name, text in texts.items():
        (as_path(directory) / name).write_text(text)


def read_text(directory: Any, name: str) -> str:
    """What the file `name` holds."""
    path = as_path(directory) / name
    if not path.exists():
        raise ValueError(f"File {path} does not exist. {_what_is_there(directory)}")
    return str(path.read_text())


def _what_is_there(directory: Any) -> str:
    count = saved_process_count(directory)
    if count == 0:
        return "There are no states of iterators in that directory."
    index, present_count = jax_process()
    return (
        f"The states in the directory are of {count} process(es), and this is process {index} of {present_count}: "
        "restore with as many, or use `grain.experimental.ElasticIterator`."
    )


@contextlib.contextmanager
def restoring_from(directory: Any) -> Iterator[None]:
    """Say in errors that are raised inside which directory was being restored."""
    try:
        yield
    except Exception as error:
        error.add_note(f"Raised while an iterator was restored from {directory}.")
        raise


class Checkpointable:
    """An iterator that knows the files of its state, and that Orbax saves and loads as what it calls stateful.

    `orbax.checkpoint.v1.save_checkpointables(path, {"model": params, "data": iterator})` calls `save`.
    """

    _has_bytes_as_state: ClassVar[bool] = False

    def get_state(self) -> Any:
        """The position."""
        raise NotImplementedError

    def set_state(self, state: Any) -> None:
        """Go to a position that `get_state` gave."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """The position as a dict, by the name that programs with PyTorch look for.

        >>> import grain
        >>> iterator, again = (iter(grain.MapDataset.range(5).batch(2)) for _ in range(2))
        >>> next(iterator), iterator.state_dict()
        (array([0, 1]), {'next_index': 1})
        >>> again.load_state_dict(iterator.state_dict())
        >>> next(again)
        array([2, 3])
        """
        state = self.get_state()
        return parsed(state.decode(), "get_state()") if self._has_bytes_as_state else state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go to a position that `state_dict` gave."""
        self.set_state(state_text(state_dict).encode() if self._has_bytes_as_state else state_dict)

    async def save(self, directory: Any) -> Coroutine[Any, Any, None]:
        """Note the position now; it is written when the result is awaited."""
        return _write_when_created(directory, self._state_files())

    async def load(self, directory: Any) -> Coroutine[Any, Any, None]:
        """Go to the position that `save` wrote, when the result is awaited."""
        return self._load(directory)

    async def _load(self, directory: Any) -> None:
        import asyncio  # only now: `import grain` is to be fast

        with restoring_from(directory):
            self.set_state(await asyncio.to_thread(self._read_state, directory))

    def _state_files(self) -> dict[str, str]:
        """The texts of the files that hold the position, by their names."""
        return {process_file(jax_process()): state_text(self.get_state())}

    def _read_state(self, directory: Any) -> Any:
        """The state that the files in `directory` hold."""
        name = process_file(jax_process())
        text = read_text(directory, name)
        return text.encode() if self._has_bytes_as_state else parsed(text, name)


async def _write_when_created(directory: Any, texts: Mapping[str, str]) -> None:
    """Write files into a directory that Orbax is about to make."""
    import asyncio

    path = await directory.await_creation()
    await asyncio.to_thread(write_texts, path, texts)
