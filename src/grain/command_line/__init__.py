"""The command `grain`: look at data, convert it, and see how fast it can be read."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from grain import __version__
from grain.command_line import bench, convert, inspect
from grain.escaping import printable, printable_message

_EXAMPLES = """\
examples:
  grain inspect train-*.parquet              what is in there, and the first records
  grain convert photos/ photos.arrayrecord --shards 8 --workers 4
  grain bench photos-*.arrayrecord           how fast it can be read, in which way

A path is a file, a folder of images, a glob in quotes, or a URL such as s3://bucket/key.
`grain COMMAND --help` tells more about each command.
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        super().error(printable(message))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with `arguments`; the exit status."""
    parser = _Parser(
        prog="grain",
        description="Look at data, convert it, and see how fast it can be read.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"grain {__version__}")
    parser.add_argument(
        "--traceback", action="store_true", help="where a command fails, show the place in the code too"
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (inspect, convert, bench):
        command.add_to(commands)
    chosen = parser.parse_args(arguments)
    try:
        chosen.run(chosen)
    except KeyboardInterrupt:
        print("\ngrain: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        if chosen.traceback:
            raise
        print(f"grain: error: {printable_message(error)}", file=sys.stderr)
        for note in getattr(error, "__notes__", ()):
            print(f"  {printable(note)}", file=sys.stderr)
        return 1
    return 0
