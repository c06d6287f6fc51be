"""What happens when something goes wrong with worker processes, and that nothing is left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import time

import pytest

from support.programs import program

LOOP = """
    import os, sys, time
    import numpy as np
    import grain

    def record(x):
        return {{"x": x, "pixels": np.full((100, 100), x)}}

    dataset = grain.MapDataset.range({length}).map(record).to_iter_dataset().batch(2)
    dataset = dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=2))
"""


def steady(tmp_path, body, **kwargs):
    """A program that prints `ready` and stays in the middle of an epoch."""
    return program(LOOP.format(length=10**9) + body, folder=tmp_path, **kwargs)


ENDLESS = """
    for number, batch in enumerate(dataset):
        if number == 5:
            print("ready", flush=True)
"""


# Each worker says so when it is in a function that does not return.
STUCK = """
    import os, time
    import grain

    def stuck(x):
        print("stuck", flush=True)
        time.sleep(1000)

    dataset = grain.MapDataset.range(10).map(stuck).to_iter_dataset(grain.ReadOptions(0, 0))
    iterator = iter(dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=2)))
    iterator.start_prefetch()
"""


@pytest.mark.parametrize("how", ["file", "-c", "-"])
def test_plain_program(tmp_path, how):
    source = LOOP.format(length=10) + "    print([int(x) for batch in dataset for x in batch['x']])"
    running = program(source, folder=tmp_path, how=how)
    code, output, errors = running.finish()
    assert (code, errors) == (0, "")
    assert output == "[0, 2, 1, 3, 4, 6, 5, 7, 8, 9]\n"
    running.assert_nothing_left()


def test_parent_killed(tmp_path):
    running = steady(tmp_path, ENDLESS)
    assert running.read_line() == "ready"
    assert len(running.descendants()) >= 3
    os.kill(running.pid, signal.SIGKILL)
    running.assert_nothing_left(seconds=2)


def test_parent_killed_while_workers_are_busy(tmp_path):
    running = program(STUCK + "    next(iterator)", folder=tmp_path)
    assert [running.read_line() for _ in range(2)] == ["stuck", "stuck"]
    os.kill(running.pid, signal.SIGKILL)
    running.assert_nothing_left(seconds=2)


def test_parent_terminated(tmp_path):
    running = steady(tmp_path, ENDLESS)
    assert running.read_line() == "ready"
    os.kill(running.pid, signal.SIGTERM)
    running.assert_nothing_left(seconds=2)


def test_parent_killed_whose_fork_lives_on(tmp_path):
    """The copy holds all files that the original had open, and yet the workers see that they are alone."""
    running = steady(
        tmp_path,
        """
    iterator = iter(dataset)
    next(iterator)
    if not os.fork():
        time.sleep(4)
        os._exit(0)
    print("ready", flush=True)
    time.sleep(1000)
    """,
    )
    assert running.read_line() == "ready"
    os.kill(running.pid, signal.SIGKILL)
    running.process.wait()
    deadline = time.monotonic() + 5
    while len(running.descendants()) > 1 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(running.descendants()) == 1, "the copy alone should be left"
    running.assert_nothing_left(seconds=6)


def test_interrupt(tmp_path):
    running = steady(
        tmp_path,
        """
    iterator = iter(dataset)
    seen = []
    try:
        while True:
            seen.append(int(next(iterator)["x"][0]))
            if len(seen) == 5:
                print("ready", flush=True)
    except KeyboardInterrupt:
        count = len(seen)
        seen += [int(next(iterator)["x"][0]) for _ in range(10)]
        expected = [4 * (number // 2) + number % 2 for number in range(len(seen))]
        print(seen == expected, flush=True)
    """,
    )
    assert running.read_line() == "ready"
    for pid in [running.pid, *running.descendants()]:  # as a terminal does
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGINT)
    code, output, errors = running.finish()
    assert (code, output, errors) == (0, "True\n", "")
    running.assert_nothing_left()


def test_interrupt_that_is_not_caught(tmp_path):
    running = steady(tmp_path, ENDLESS)
    assert running.read_line() == "ready"
    os.kill(running.pid, signal.SIGINT)
    code, _, errors = running.finish()
    assert code == -signal.SIGINT
    assert errors.rstrip().endswith("KeyboardInterrupt")
    running.assert_nothing_left()


@pytest.mark.parametrize("ending", ["os._exit(0)", "os._exit(3)", "sys.exit(0)", "os.kill(os.getpid(), 9)"])
def test_worker_that_ends(tmp_path, ending):
    """Elements before it arrive, the error names the exit code, and the next call goes on where the worker was."""
    running = program(
        f"""
        import os, pathlib, sys
        import grain

        marker = pathlib.Path({str(tmp_path)!r}, "done")

        def fails_once(x):
            if x == 5 and not marker.exists():
                marker.touch()
                {ending}
            return x

        dataset = grain.MapDataset.range(10).map(fails_once).to_iter_dataset(grain.ReadOptions(0, 0))
        iterator = iter(dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=2)))
        seen = []
        while True:
            try:
                seen.append(next(iterator))
            except StopIteration:
                break
            except RuntimeError as error:
                seen.append(str(error).partition(".")[0])
        print(seen)
        """,
        folder=tmp_path,
    )
    code, output, errors = running.finish()
    assert (code, errors) == (0, "")
    exit_code = {"os._exit(3)": "3", "os.kill(os.getpid(), 9)": "-9 (SIGKILL)"}.get(ending, "0")
    failure = f"Worker process was terminated unexpectedly with exit code {exit_code}"
    assert output.strip() == str([0, 1, 2, 3, 4, failure, 5, 6, 7, 8, 9])
    running.assert_nothing_left()


def test_fork_server_killed(tmp_path):
    """The workers go with it; the error says so, and what follows starts a new one."""
    running = steady(
        tmp_path,
        f"""
    iterator = iter(dataset)
    first = [int(next(iterator)["x"][0]) for _ in range(4)]
    print("ready", flush=True)
    while not os.path.exists({str(tmp_path / "killed")!r}):
        time.sleep(0.01)
    rest, failures = [], 0
    while len(rest) < 6:
        try:
            rest.append(int(next(iterator)["x"][0]))
        except RuntimeError:
            failures += 1
    print(first + rest, failures > 0)
    """,
    )
    assert running.read_line() == "ready"
    os.kill(running.descendants()[0], signal.SIGKILL)
    while running.descendants():
        time.sleep(0.01)
    (tmp_path / "killed").touch()
    code, output, errors = running.finish()
    assert (code, errors) == (0, "")
    assert output == f"{[4 * (number // 2) + number % 2 for number in range(10)]} True\n"
    running.assert_nothing_left()


@pytest.mark.parametrize(
    "leaving",
    [
        "iterator.close()",
        "del iterator",
        "",
        "sys.exit(3)",
        "raise ValueError('the end')",
        "iterator.close(); iterator.close(); del iterator",
    ],
)
def test_leaving_in_the_middle(tmp_path, leaving):
    running = steady(tmp_path, f"    iterator = iter(dataset)\n    next(iterator)\n    {leaving}\n")
    _, _, errors = running.finish(timeout=20)
    assert ("Error" in errors) == ("ValueError" in leaving)
    running.assert_nothing_left()


def test_leaving_while_workers_are_stuck(tmp_path):
    running = program(
        """
        import time, grain
        def stuck(x):
            if x > 1:
                time.sleep(1000)
            return x
        dataset = grain.MapDataset.range(10).map(stuck).to_iter_dataset()
        iterator = iter(dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=2)))
        print(next(iterator), next(iterator), flush=True)
        start = time.monotonic()
        iterator.close()
        print(time.monotonic() - start < 2)
        """,
        folder=tmp_path,
    )
    code, output, errors = running.finish(timeout=20)
    assert (code, output, errors) == (0, "0 1\nTrue\n", "")
    running.assert_nothing_left()


def test_stuck_workers_do_not_stay_after_close(tmp_path):
    ending = f"""
    while not os.path.exists({str(tmp_path / "go")!r}):
        time.sleep(0.01)
    iterator.close()
    print("closed", flush=True)
    time.sleep(1000)
    """
    running = program(STUCK + ending, folder=tmp_path)
    assert [running.read_line() for _ in range(2)] == ["stuck", "stuck"]
    (tmp_path / "go").touch()
    assert running.read_line() == "closed"
    deadline = time.monotonic() + 5
    while len(running.descendants()) > 1 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(running.descendants()) == 1, "the server alone should be left"
    os.kill(running.pid, signal.SIGKILL)
    running.assert_nothing_left()


def test_fork_of_the_parent(tmp_path):
    """Both go on with the element that was next, each with workers of its own."""
    running = steady(
        tmp_path,
        """
    iterator = iter(dataset)
    seen = [int(next(iterator)["x"][0]) for _ in range(5)]
    child = os.fork()
    seen += [int(next(iterator)["x"][0]) for _ in range(5)]
    if child:
        os.waitpid(child, 0)
    print(seen, flush=True)
    """,
    )
    code, output, errors = running.finish()
    assert (code, errors) == (0, "")
    assert output.splitlines() == [str([4 * (number // 2) + number % 2 for number in range(10)])] * 2
    running.assert_nothing_left()


def test_stuck_source_is_reported(tmp_path):
    running = program(
        """
        import time, grain
        import grain.streams.remote as remote

        remote.SECONDS_UNTIL_STUCK = 2.5

        class Blocking:
            def __len__(self):
                return 10
            def __getitem__(self, index):
                if index == 3:
                    time.sleep(1000)
                return index

        dataset = grain.MapDataset.source(Blocking()).to_iter_dataset(grain.ReadOptions(0, 0))
        for element in dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=2)):
            print(element, flush=True)
        """,
        folder=tmp_path,
    )
    assert [running.read_line() for _ in range(3)] == ["0", "1", "2"]
    warning = running.process.stderr.readline() + running.process.stderr.readline()
    running.kill_all()
    running.finish()
    assert "worker 1 of 2 has given no element for" in warning
    assert "{'next_index': 1}" in warning
    assert "in __getitem__" in warning
