"""Writing what a pipeline gives to files, which sources read again."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

from grain.api.map_dataset import MapDataset
from grain.fields import Frozen
from grain.files.cache_folder import written_at_once
from grain.files.paths import File, PathLike
from grain.files.systems import is_remote
from grain.options import MultiprocessingOptions, ReadOptions, warn
from grain.streams.remote import wait_for_workers
from grain.writing.formats import Format, format_of
from grain.writing.identity import identity
from grain.writing.journal import Journal
from grain.writing.progress import Advance, progress_bar, told
from grain.writing.shards import Shard, shards_of

if TYPE_CHECKING:
    from grain.sources.random_access import RandomAccessDataSource

T = TypeVar("T")
Written: TypeAlias = Generator[int, None, None]
"""The number of each shard when it is finished."""
_RECORDS_COMPARED = 16
"""By these, among others, one sees whether a job that was interrupted was the same; more may be gigabytes of text."""
_IN_THIS_THREAD = ReadOptions(num_threads=0, prefetch_buffer_size=0)


@overload
def write(
    elements: Iterable[T],
    path: PathLike,
    format: str | None = None,
    *,
    shards: int = 1,
    encode: Callable[[T], object] | None = None,
    length: int | None = None,
    workers: int = 0,
    progress: bool | None = None,
    resume: bool = False,
    overwrite: bool = True,
    **options: Any,
) -> list[str]: ...
@overload
def write(
    elements: RandomAccessDataSource[T],
    path: PathLike,
    format: str | None = None,
    *,
    shards: int = 1,
    encode: Callable[[T], object] | None = None,
    length: int | None = None,
    workers: int = 0,
    progress: bool | None = None,
    resume: bool = False,
    overwrite: bool = True,
    **options: Any,
) -> list[str]: ...
def write(
    elements: Any,
    path: PathLike,
    format: str | None = None,
    *,
    shards: int = 1,
    encode: Callable[[Any], object] | None = None,
    length: int | None = None,
    workers: int = 0,
    progress: bool | None = None,
    resume: bool = False,
    overwrite: bool = True,
    **options: Any,
) -> list[str]:
    """Write a dataset, a source or any iterable to files, and give their paths.

    `format` is "arrayrecord" (elements are bytes; option: `group_size`) or "parquet" (elements are dicts; options:
    `rows_per_group` and `schema`), or told by the end of the path. `encode` makes such records of other elements.
    A Parquet column gets the type that holds the first `rows_per_group` records, unless there is a `schema`.
    A value that it does not hold exactly is an error that names the element and the column.

    Several shards get numbers, which take the place of a `*` in the path or come before its extension. They are of
    equal length. An iterable without a length needs to be told one, which may be a guess: the last shard takes what
    remains. Elements that can be had by index are written by `workers` processes, a shard each.

    A file gets its name when it is whole. After an interruption the same call continues with the shards that are
    missing. It is the same if the options are, and the code and the values of `encode` and of the pipeline's functions,
    the files that are read, and the first records; of an iterator only the first records are known. A call that differs
    starts over, and removes what the other had finished; with `resume` it is refused. Files that are there already are
    replaced, unless `overwrite` is False: then they are an error.

    >>> import grain, tempfile
    >>> numbers = grain.MapDataset.range(5).map(lambda number: b"%d" % number)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     paths = write(numbers, f"{folder}/numbers-*.arrayrecord", shards=2)
    ...     print([os.path.basename(path) for path in paths])
    ...     print(list(grain.ArrayRecordDataSource(f"{folder}/numbers-*.arrayrecord")))
    ['numbers-00000-of-00002.arrayrecord', 'numbers-00001-of-00002.arrayrecord']
    [b'0', b'1', b'2', b'3', b'4']
    """
    target = os.fsdecode(path)
    format_asked = format_of(target, format, options)
    by_index = _by_index(elements, workers)
    count = _length(elements, length, shards)
    journal = Journal(target)
    # A job of one file is never continued, so nobody asks whether it is the same.
    known = _identity(elements, by_index, encode) if shards > 1 or journal.is_begun else {}
    opened = elements if by_index is None else by_index.to_iter_dataset(_IN_THIS_THREAD)
    stream = _records(opened, format_asked, encode, 0)
    first = list(islice(stream, format_asked.records_to_see))
    job = _Job(format_asked.fitted(first), encode, shards_of(target, shards, count), by_index)
    known |= {"options": f"{job.format} {shards} {count}", "first records": _digest(first[:_RECORDS_COMPARED])}
    _check_files(job, journal, journal.changes(known) if resume else [], overwrite)
    journal.begin(known)
    missing = [number for number, shard in enumerate(job.shards) if not journal.has(shard.path)]
    job.remove_partial_files()
    with progress_bar(progress, count, os.path.basename(target)) as advance:
        if by_index is None:
            written = _written_in_order(job, missing, chain(first, stream), advance)
        else:
            written = _written_by_index(job, missing, workers, advance)
        with contextlib.closing(written):
            for number in written:
                if shards > 1:
                    journal.add(job.shards[number].path)
    journal.remove()
    return [shard.path for shard in job.shards]


def _identity(elements: Any, by_index: MapDataset[Any] | None, encode: Any) -> dict[str, str]:
    """What tells a job from others: what cannot be told is never the same."""
    whole = identity(elements if by_index is None else by_index)
    if by_index is None and whole is None:
        whole = type(elements).__qualname__
    return {"elements": whole or os.urandom(16).hex(), "encode": identity(encode) or os.urandom(16).hex()}


def _digest(records: list[Any]) -> str:
    return hashlib.sha256(repr(records).encode(errors="surrogatepass")).hexdigest()


def _check_files(job: _Job, journal: Journal, changes: list[str], overwrite: bool) -> None:
    """Raise an error where a job that was interrupted, or files that are there, forbid this one."""
    if changes:
        raise ValueError(
            f"{job.shards[0].path!r} and those after it were begun by another job, which differs in: "
            f"{', '.join(changes)}. Leave out `resume` to start over."
        )
    for path in [shard.path for shard in job.shards]:
        if not is_remote(path) and os.path.isdir(path):
            raise IsADirectoryError(f"{path!r} is a folder. Write to a file in it.")
        if not overwrite and _exists(path) and not journal.has(path):
            raise FileExistsError(f"{path!r} is there already. Pass `overwrite` to replace it, or write elsewhere.")


def _exists(path: str) -> bool:
    try:
        File(path)
    except FileNotFoundError:
        return False
    return True


class _Job(Frozen):
    """What is to be written, to which files."""

    format: Format
    encode: Callable[[Any], Any] | None
    shards: list[Shard]
    by_index: MapDataset[Any] | None

    def write(self, number: int, records: Iterable[Any]) -> int:
        """Write one shard, and give its number."""
        with written_at_once(self.shards[number].path) as partial:
            writer = self.format.open(partial, self.shards[number].start)
            for record in records:
                writer.write(record)
            writer.close()
        return number

    def remove_partial_files(self) -> None:
        """Remove what workers, or programs, have left that were ended in the middle and could not do so."""
        paths = {shard.path for shard in self.shards}
        folder = os.path.dirname(self.shards[0].path)
        for partial in glob.glob(os.path.join(glob.escape(folder), "*.partial"), include_hidden=True):
            if partial.rsplit(".", 2)[0] in paths:
                with contextlib.suppress(FileNotFoundError):  # it has become whole
                    os.unlink(partial)

    def records(self, number: int) -> Iterator[Any]:
        """The records of a shard, where elements can be had by index."""
        assert self.by_index is not None
        shard = self.shards[number]
        part = self.by_index[shard.start : shard.start + (shard.count or 0)]
        return _records(part, self.format, self.encode, shard.start)


def _by_index(elements: Any, workers: int) -> MapDataset[Any] | None:
    """The elements as random access, where they are that."""
    if isinstance(elements, MapDataset):
        return elements
    if hasattr(elements, "__len__") and hasattr(elements, "__getitem__") and not isinstance(elements, Mapping):
        return MapDataset.source(elements)
    if workers:
        raise ValueError(
            f"Only elements that can be had by index are written by workers, got {type(elements).__name__}. Pass a "
            "MapDataset, a source or a list, or leave out `workers`."
        )
    return None


def _length(elements: Any, guess: int | None, shards: int) -> int | None:
    """How many elements there are, as far as that is known."""
    if shards < 1:
        raise ValueError(f"shards must be at least 1, got {shards}.")
    if guess is not None and guess < 0:
        raise ValueError(f"length must be at least 0, got {guess}.")
    count = len(elements) if hasattr(elements, "__len__") else guess
    if count is None and shards > 1:
        raise ValueError(
            f"{type(elements).__name__} has no length, so it cannot be cut into {shards} shards: pass length=, "
            "which may be a guess, or write one shard."
        )
    if count is not None and count >= sys.maxsize:
        raise ValueError("The dataset has no end. Write one epoch of it: leave out .repeat(), or slice it.")
    return count


def _records(elements: Iterable[Any], format: Format, encode: Callable[[Any], Any] | None, start: int) -> Iterator[Any]:
    for number, element in enumerate(elements, start):
        try:
            record = element if encode is None else encode(element)
            format.check(record)
        except Exception as error:
            error.add_note(f"Raised for element {number} of those to be written.")
            raise
        yield record


def _written_by_index(job: _Job, missing: list[int], workers: int, advance: Advance) -> Written:
    advance(sum(shard.count or 0 for number, shard in enumerate(job.shards) if number not in missing))
    if workers and missing:
        yield from _written_by_workers(job, missing, workers, advance)
        return
    for number in missing:
        yield job.write(number, told(job.records(number), advance))


def _written_by_workers(job: _Job, missing: list[int], workers: int, advance: Advance) -> Written:
    numbers = MapDataset.source(missing).map(lambda number: job.write(number, job.records(number)))
    options = MultiprocessingOptions(num_workers=min(workers, len(missing)))
    try:
        with contextlib.closing(iter(numbers.to_iter_dataset(_IN_THIS_THREAD).mp_prefetch(options))) as written:
            for number in written:
                advance(job.shards[number].count or 0)
                yield number
    finally:
        wait_for_workers()  # they might begin another file
        job.remove_partial_files()


def _written_in_order(job: _Job, missing: list[int], stream: Iterator[Any], advance: Advance) -> Written:
    if len(missing) < len(job.shards):
        warn("Passing over the elements of %d shards that are finished.", len(job.shards) - len(missing))
    for number, shard in enumerate(job.shards):
        is_last = number == len(job.shards) - 1
        records = told(stream if is_last else islice(stream, shard.count), advance)
        if number in missing:
            yield job.write(number, records)
        else:
            for _ in records:
                pass
