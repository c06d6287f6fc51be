"""Streams that users begin a pipeline with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from grain.files import PathLike, paths_of
from grain.iter_dataset import NodeIterDataset
from grain.ops.streaming import Generated, streamed


class GeneratorIterDataset(NodeIterDataset[Any]):
    """What `function()` yields. It is called again to resume, and what was read before is made again and passed over.

    With `takes_start` it is called with the number of elements to leave out, and need not make them.

    >>> def squares(start):
    ...     return (number**2 for number in range(start, 5))
    >>> iterator = iter(GeneratorIterDataset(squares, takes_start=True))
    >>> next(iterator), iterator.get_state(), list(iterator)
    (0, {'next_index': 1}, [1, 4, 9, 16])
    """

    def __init__(self, function: Callable[..., Iterable[Any]], *, takes_start: bool = False) -> None:
        if not callable(function):
            raise TypeError(
                f"Expected a function that returns an iterable, got {function!r}: an iterator can be read only once, "
                "so there would be no way to resume. Pass the generator function itself, without calling it."
            )
        super().__init__(streamed([Generated(function, takes_start)], "GeneratorIterDataset"))


class ParquetIterDataset(NodeIterDataset[Any]):
    """The rows of Parquet files as dicts, of several files in turn; of the columns `columns`, or of all.

    Other arguments are passed on to `pyarrow.parquet.ParquetFile`. Values are those of `ParquetDataSource`.

    >>> import pyarrow, pyarrow.parquet, tempfile
    >>> with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
    ...     pyarrow.parquet.write_table(pyarrow.table({"x": [1, 2, 3], "name": ["a", "b", "c"]}), file.name)
    ...     list(ParquetIterDataset(file.name, columns=["name"]))
    [{'name': 'a'}, {'name': 'b'}, {'name': 'c'}]
    """

    def __init__(
        self, path: PathLike | Sequence[PathLike], columns: Sequence[str] | None = None, **kwargs: Any
    ) -> None:
        from grain.sources.parquet import ParquetFiles  # only now: `import grain` is to be fast
        from grain.sources.parquet_streams import ParquetRows

        files = ParquetFiles(paths_of(path), columns, kwargs)
        super().__init__(streamed([ParquetRows(files, path) for path in files.paths], "ParquetIterDataset"))
