"""`grain inspect`: what is in files."""

from __future__ import annotations

import argparse
from typing import Any

from grain.command_line.describing import labels, lines, sizes_of_some
from grain.command_line.source_arguments import add_paths, at_least, console, opened, with_unit
from grain.escaping import printable
from grain.files.folders import files_below
from grain.files.paths import files_of, paths_of
from grain.sources.detection import format_of


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "inspect",
        help="format, number and size of records, and the first ones",
        description="Show the format, the number and the size of records, and the first ones.",
    )
    add_paths(parser)
    parser.add_argument(
        "--records", type=at_least(0), default=2, metavar="N", help="how many records to show (default: 2)"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    output = console()
    groups: dict[str, list[str]] = {}
    for path in paths_of(arguments.paths):
        groups.setdefault(format_of(path), []).append(path)
    for number, (kind, paths) in enumerate(groups.items()):
        if number:
            output.print()
        _show(output, kind, paths, opened(paths, arguments.columns), arguments.records)


def _show(output: Any, kind: str, paths: list[str], source: Any, count: int) -> None:
    from rich.markup import escape
    from rich.table import Table

    facts = Table.grid(padding=(0, 2))
    facts.add_row("[bold]format", kind)
    files = [f"{paths[0]}/{name}" for name in sorted(files_below(paths[0]))] if kind == "folder of images" else paths
    sizes = [file.size for file in files_of(files)]
    facts.add_row("[bold]files", escape(f"{len(files):,}: {printable(files[0])}{' …' if len(files) > 1 else ''}"))
    facts.add_row("[bold]size", with_unit(sum(sizes)) + (f" ({_range(sizes)})" if len(sizes) > 1 else ""))
    facts.add_row("[bold]records", f"{len(source):,}")
    if len(source):
        facts.add_row("[bold]a record", _range(sizes_of_some(source)))
    if kind == "folder of images":
        facts.add_row("[bold]labels", escape(labels(source)))
    output.print(facts)
    for index in range(min(count, len(source))):
        output.print(f"\n[bold]record {index}")
        shown = Table.grid(padding=(0, 2))
        for name, value in lines(source[index]):
            shown.add_row(f"  [cyan]{escape(name)}", escape(value))
        output.print(shown)


def _range(sizes: list[int]) -> str:
    """`"33 B to 163 B, on average 92 B"`."""
    smallest, largest = with_unit(min(sizes)), with_unit(max(sizes))
    average = with_unit(sum(sizes) / len(sizes))
    return smallest if smallest == largest else f"{smallest} to {largest}, on average {average}"
