"""WebDataset shards: tar archives in which the files of a sample have one name and follow each other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from grain.files.paths import PathLike
from grain.sources.byte_streams import Reading
from grain.sources.decoding import decoded
from grain.sources.sequences import SequenceDataSource, Spanned, offsets_of
from grain.sources.tar import Member, TarError, after_zeros, member_at, next_member

_NAME = re.compile(r"((?:.*/|)[^.]+)[.]([^/]*)$", re.DOTALL)
_NO_SAMPLE = re.compile(r"__[^/]*__($|/)")
"""Names of files that say something of the whole shard."""


class WebDatasetFormat(Spanned):
    """Members whose paths are the same up to the first dot of the file's name are one sample."""

    decode: bool = False
    name = "WebDataset"

    def spans(self, reading: Reading, offset: int) -> Iterator[tuple[int, int]]:
        """One for each sample, from its first header to the end of its last file; one for each damaged place."""
        return _samples(reading, offset, is_read=True)

    def offsets(self, reading: Reading) -> Any:
        """Where samples begin; a file without a single one and with damage is of another format."""
        found = offsets_of(_samples(reading, 0, is_read=False))
        if not reading.piece(0, 1):
            raise ValueError(f"{reading.path!r} is empty: not even an archive without members is.")
        if len(found) > 1 and found[0] == 0:
            try:
                member_at(reading.piece, 0)
            except TarError:
                if len(found) == 2:
                    raise ValueError(f"{reading.path!r} is not a tar archive.") from None
        return found

    def record(self, data: bytes, path: str, offset: int) -> dict[str, Any]:
        """The sample: its key, and the content of each file under the file's extension."""
        sample: dict[str, Any] = {}
        place = offset
        try:
            while member := member_at(lambda start, stop: data[start - offset : stop - offset], place):
                if member.stop > offset + len(data):
                    raise TarError(f"the archive ends within {member.name!r}, which begins at byte {place}")
                _add(member, data[member.start - offset : member.stop - offset], sample)
                place = member.end
        except TarError as error:
            raise ValueError(f"The sample at byte {offset} of {path!r} cannot be read: {error}.") from None
        return decoded(sample, path) if self.decode else sample


def _add(member: Member, content: bytes, sample: dict[str, Any]) -> None:
    key, field = _key_and_field(member)
    if key is not None:
        if member.refusal:
            raise TarError(f"{member.name!r} {member.refusal}")
        sample.setdefault("__key__", key)
        if field in sample:
            raise TarError(f"it has two files {member.name!r}")
        sample[field] = content


def _samples(reading: Reading, offset: int, is_read: bool) -> Iterator[tuple[int, int]]:
    """The spans of samples from `offset` on; where they are then read, their bytes stay at hand.

    A sample beside a damaged header has the files that are left of it: which sample the other was of, nobody knows.
    """
    first, sample_key, place = offset, None, offset
    while True:
        piece = partial(reading.piece, keep=first) if is_read and sample_key is not None else reading.piece
        try:
            member = member_at(piece, place)
        except TarError:
            if sample_key is not None:
                yield first, place
            first = next_member(reading.piece, place)
            yield place, first
            sample_key, place = None, first
            continue
        if member is None:  # the end, unless another archive was appended
            if sample_key is not None:
                yield first, place
            following = after_zeros(reading.piece, place)
            if following is None:
                return
            sample_key, place = None, following
            continue
        key, _ = _key_and_field(member)
        if key is not None and key != sample_key:
            if sample_key is not None:
                yield first, place
            first, sample_key = place, key
        place = member.end


def _key_and_field(member: Member) -> tuple[str | None, str]:
    """To which sample a member belongs, and as what; None if to none."""
    found = _NAME.match(member.name) if member.is_file else None
    if found is None or _NO_SAMPLE.match(member.name):
        return None, ""
    return found[1], found[2].lower()


class WebDatasetDataSource(SequenceDataSource[dict[str, Any]]):
    """The samples of WebDataset shards: dicts of a `__key__` and, by their extensions, the files of that name.

    Files are bytes. With `decode`, JSON, text (`txt`), class numbers (`cls`), arrays (`npy`) and pictures are what they
    stand for. A sample with a sparse file or a hard link, whose content is not in its place, is an error; folders and
    symbolic links belong to no sample; archives may have been appended to each other.

    Where samples are is found when a shard is first opened, and kept in `index_folder`, or in the cache folder
    (`$GRAIN_CACHE`), until the shard changes. Paths may be globs and URLs.

    >>> import tempfile, tarfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "cat.txt").write_text("A cat."), pathlib.Path(folder, "cat.cls").write_text("3")
    ...     with tarfile.open(f"{folder}/shard.tar", "w") as shard:
    ...         shard.add(f"{folder}/cat.txt", "cat.txt")
    ...         shard.add(f"{folder}/cat.cls", "cat.cls")
    ...     WebDatasetDataSource(f"{folder}/*.tar", decode=True, index_folder=folder)[0]
    {'__key__': 'cat', 'txt': 'A cat.', 'cls': 3}
    """

    def __init__(
        self, paths: PathLike | Sequence[PathLike], *, decode: bool = False, index_folder: PathLike | None = None
    ) -> None:
        super().__init__(paths, WebDatasetFormat(decode), index_folder)
