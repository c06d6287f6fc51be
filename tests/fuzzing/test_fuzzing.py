"""A few seconds of `scripts/fuzz` for each format, and that it would find what is wrong."""

import os
from pathlib import Path

import pytest

from fuzzing import running
from fuzzing.cases import Case, judged
from fuzzing.record_formats import TFRecord
from fuzzing.running import Limits, Run, parsed_name
from fuzzing.table import FORMATS

FILES = 150


@pytest.fixture(autouse=True)
def _paths(monkeypatch):
    """Processes of the fuzzer find what this one has found."""
    root = Path(__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(root / "src"), str(root / "tests")]))


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_files_are_read_right_or_refused(name):
    run = Run([name], seed=0, folder=None)
    run.read(FILES, None, jobs=1)
    assert not run.problems, "\n".join(run.problems)
    assert run.tallies[name].files == FILES


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_follows_from_its_seed_and_number(name):
    one, other = (Case(FORMATS[name], 3, 5).damaged() for _ in range(2))
    assert one == other
    assert one != Case(FORMATS[name], 3, 6).damaged()


class Careless(TFRecord):
    """A reader that gets some things wrong."""

    def __init__(self, wrong):
        self.wrong = wrong

    def source(self, path):
        records = list(super().source(path))
        return self.wrong(records)

    def mutated(self, rng, made, other):
        return "intact", made.content


class Crumbled(list):
    def __getitem__(self, key):
        raise ValueError("A record is damaged.")


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (lambda records: [b"?", *records[1:]], "wrong: a record is wrong"),
        (lambda records: records[1:], "wrong: a record is lost"),
        (Crumbled, "unnamed"),
        (lambda records: 1 / 0, "unnamed"),
    ],
)
def test_what_is_wrong_is_found(wrong, problem):
    case = Case(Careless(wrong), 0, 1)
    assert judged(case, case.damaged()).problem.startswith(problem)


def test_crashes_hangs_and_memory_are_found_and_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "_WORKER", "support.hostile_reader")
    run = Run(["jsonlines"], seed=0, folder=tmp_path, limits=Limits(seconds=6, megabytes=50))
    run.read(4, None, jobs=1)
    assert [problem.split(": ")[1] for problem in run.problems] == ["crash (11)", "hang", "memory"]
    kept = sorted((tmp_path / "jsonlines").iterdir())
    assert len(kept) == 3
    case, mutation = parsed_name(kept[0])
    assert (case.number, mutation) == (1, case.damaged().mutation)
    assert kept[0].read_bytes() == case.damaged().content
