"""`grain convert`: any source as ArrayRecord or Parquet."""

from __future__ import annotations

import argparse
import json
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from grain.command_line.describing import labels
from grain.command_line.source_arguments import add_columns, at_least, console, opened, with_unit
from grain.escaping import printable
from grain.files.paths import File, paths_of
from grain.writing.destinations import check_apart
from grain.writing.formats import ArrayRecordFormat, format_of
from grain.writing.jobs import write
from grain.writing.shards import shard_path


def _as_json(record: Any) -> bytes:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"), default=_as_list).encode()


def _as_list(value: Any) -> Any:
    """A number or an array of NumPy's as JSON has it."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"JSON cannot hold {value!r} ({type(value).__name__}): use --encoding pickle.")


_ENCODINGS: dict[str, Callable[[Any], bytes]] = {"pickle": pickle.dumps, "json": _as_json}


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "convert",
        help="write any source as ArrayRecord or Parquet",
        description="Write the records of any source as ArrayRecord (the fastest to read at random) or Parquet. A file "
        "gets its name only when it is complete; after an interruption the same command continues with the next shard, "
        "and one with other sources or options starts over. Files that are there already are not replaced.",
    )
    parser.add_argument("sources", metavar="SRC", nargs="+", help="files, a folder of images, or URLs")
    parser.add_argument("destination", metavar="DST", help="such as out.arrayrecord or out-*.parquet")
    add_columns(parser)
    parser.add_argument("--format", choices=["arrayrecord", "parquet"], help="where the name of DST does not tell")
    parser.add_argument("--shards", type=at_least(1), default=1, metavar="N", help="number of files (default: 1)")
    parser.add_argument(
        "--workers", type=at_least(0), default=0, metavar="N", help="processes that write shards (default: 0)"
    )
    parser.add_argument(
        "--encoding",
        choices=_ENCODINGS,
        default="pickle",
        help="how ArrayRecord keeps records that are not bytes (default: pickle, which keeps arrays as they are)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace files that are there already")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="continue what was interrupted; refuse to start over where sources or options are others",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    output, found = console(), paths_of(arguments.sources)
    shards = [shard_path(arguments.destination, number, arguments.shards) for number in range(arguments.shards)]
    check_apart(found, shards)
    source = opened(found, arguments.columns)
    is_array_record = isinstance(format_of(arguments.destination, arguments.format, {}), ArrayRecordFormat)
    first = source[0] if len(source) else b""
    encode: Callable[[Any], Any] | None = None
    if is_array_record and not isinstance(first, bytes):
        encode = _ENCODINGS[arguments.encoding]
    elif not is_array_record and not isinstance(first, Mapping):
        encode = _as_row
    try:
        paths = write(
            source,
            arguments.destination,
            arguments.format,
            shards=arguments.shards,
            encode=encode,
            workers=arguments.workers,
            resume=arguments.resume,
            overwrite=arguments.overwrite,
        )
    except FileExistsError as error:
        error.add_note(f"The last path, {arguments.destination!r}, is the destination. To replace files: --overwrite.")
        raise
    size = with_unit(sum(File(path).size for path in paths))
    files = f"{len(paths)} file{'s' * (len(paths) > 1)}"
    output.print(f"{len(source):,} records in {files}, {size}: {printable(_shown(paths))}", markup=False)
    if hasattr(source, "classes"):
        output.print(f"Labels: {labels(source)}.", markup=False)
    if is_array_record and encode is not None:
        output.print(f"Records are encoded: read them with .map({arguments.encoding}.loads).")


def _as_row(record: Any) -> dict[str, Any]:
    return {"record": record}


def _shown(paths: list[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{paths[0]} … {paths[-1]}"
