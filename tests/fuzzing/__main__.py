"""The command behind `scripts/fuzz`."""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from pathlib import Path

from fuzzing.cases import judged
from fuzzing.running import Limits, Run, parsed_name
from fuzzing.table import FORMATS

_SHOWN = 25
"""Kinds of problems of which an example is printed."""


def main() -> int:
    """Read damaged files, or one again; returns 1 where something was found."""
    arguments = _arguments()
    if arguments.replay:
        return max(_replayed(Path(path)) for path in arguments.replay)
    files = arguments.files if arguments.seconds is not None or arguments.files is not None else 1000
    run = Run(arguments.format or FORMATS, arguments.seed, arguments.out, Limits(arguments.limit, arguments.memory))
    ended = threading.Event()
    progress = threading.Thread(target=_show_progress, args=(run, ended), daemon=True)
    progress.start()
    run.read(files, arguments.seconds, arguments.jobs)
    ended.set()
    progress.join()
    _show(run)
    return 1 if run.problems else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description="Reads damaged files, and says what goes wrong.")
    parser.add_argument(
        "--format", nargs="+", choices=FORMATS, metavar="F", help=f"of: {', '.join(FORMATS)}; all if not given"
    )
    parser.add_argument(
        "--files", type=int, metavar="N", help="read N files of each format (1000 if no --seconds are given)"
    )
    parser.add_argument("--seconds", type=float, metavar="S", help="stop after S seconds")
    parser.add_argument(
        "--seed", type=int, default=0, metavar="K", help="other seeds give other files (0 if not given)"
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(), metavar="N", help="processes at a time (one per processor)"
    )
    parser.add_argument("--limit", type=float, default=20, metavar="S", help="seconds that one file may take (20)")
    parser.add_argument("--memory", type=int, default=512, metavar="MB", help="memory that reading may take (512)")
    parser.add_argument(
        "--out", type=Path, default=Path("fuzz-findings"), help="folder for failing files (fuzz-findings)"
    )
    parser.add_argument(
        "--replay", nargs="+", metavar="FILE", help="read files again that failed, and say what is wrong"
    )
    return parser.parse_args()


def _replayed(path: Path) -> int:
    case, mutation = parsed_name(path.absolute())
    verdict = judged(
        case, case.damaged(path.read_bytes(), mutation), lambda view: print(f"{path}: {view}", file=sys.stderr)
    )
    print(f"{path}: {verdict.view + ': ' + verdict.problem if verdict.problem else 'nothing is wrong'}")
    return 1 if verdict.problem else 0


def _show_progress(run: Run, ended: threading.Event) -> None:
    began = time.monotonic()
    while not ended.wait(10):
        files = sum(tally.files for tally in run.tallies.values())
        print(f"{time.monotonic() - began:6.0f} s  {files:9,} files  {len(run.problems)} kinds of problems", flush=True)


def _show(run: Run) -> None:
    print(f"\n{'format':20}{'files':>9}{'records':>11}{'errors':>11}{'problems':>10}")
    for name, tally in run.tallies.items():
        print(f"{name:20}{tally.files:9,}{tally.given:11,}{tally.refused:11,}{tally.findings.total():10,}")
    print(f"{'all':20}{sum(tally.files for tally in run.tallies.values()):9,}\n")
    for name, tally in run.tallies.items():
        for kind, count in tally.findings.most_common():
            print(f"{count:6,} × {name}, {kind}")
    print()
    for problem in run.problems[:_SHOWN]:
        print(problem)
    if len(run.problems) > _SHOWN:
        print(f"... and {len(run.problems) - _SHOWN} other kinds")


if __name__ == "__main__":
    sys.exit(main())
