"""Interrupts that strike anywhere while there are workers: nothing hangs, nothing is lost, and the program ends."""

import os
import sys

import pytest

from support.programs import program

SIGNALS = """
import faulthandler, random, signal, sys
import numpy as np
import grain

faulthandler.dump_traceback_later(100, exit=True)
random.seed({seed})
count = 0


def handler(number, frame):
    global count
    at = frame
    while at is not None and at.f_code is not insistently.__code__:
        at = at.f_back
    if frame.f_code.co_filename == __file__ or at is None:  # not in the library: it is tried again
        signal.setitimer(signal.ITIMER_REAL, 1e-4)
    else:
        count += 1
        raise KeyboardInterrupt


def insistently(function, *args):
    while True:
        try:
            signal.setitimer(signal.ITIMER_REAL, random.random() ** 4 * 0.05 + 1e-5)
            return function(*args)
        except KeyboardInterrupt:
            pass


def record(x):
    return {{"x": x, "array": np.full(5000, x)}}


def dataset(length):
    records = grain.MapDataset.range(length).map(record).to_iter_dataset(grain.ReadOptions(0, 0))
    return records.mp_prefetch(grain.MultiprocessingOptions(num_workers=2))


def epoch(iterator, numbers):
    for x in numbers:
        element = insistently(next, iterator)
        assert element["x"] == x and (element["array"] == x).all(), (element["x"], x)
    assert insistently(next, iterator, None) is None


assert len(list(dataset(4))) == 4
signal.signal(signal.SIGALRM, handler)
while count < {count}:
{scenario}
signal.setitimer(signal.ITIMER_REAL, 0)
sys.unraisablehook = lambda _: None  # what was raised in the middle of a garbage collection
print("all right")
"""
SCENARIOS = {
    "epochs": """
    iterator = insistently(iter, dataset(20))
    epoch(iterator, range(20))
    insistently(iterator.close)
""",
    "closing": """
    iterator = insistently(iter, dataset(20))
    for x in range(random.randrange(4)):
        assert insistently(next, iterator)["x"] == x
    insistently(iterator.close)
""",
    "states": """
    number = random.randrange(20)
    first, second = insistently(iter, dataset(20)), insistently(iter, dataset(20))
    for x in range(number):
        assert insistently(next, first)["x"] == x
    insistently(second.set_state, insistently(first.get_state))
    insistently(second.start_prefetch)
    epoch(second, range(number, 20))
""",
    "new servers": """
    from grain.runtime.workers.pool import pool
    from grain.streams.serving import serve
    iterator = insistently(iter, dataset(4))
    epoch(iterator, range(4))
    insistently(pool(serve).close)
""",
}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_random_signals(tmp_path, scenario):
    text = SIGNALS.format(seed=len(scenario), count=300, scenario=SCENARIOS[scenario])
    running = program(text, folder=tmp_path)
    code, output, errors = running.finish(timeout=120)
    assert (code, output) == (0, "all right\n"), errors
    running.assert_nothing_left()


@pytest.mark.parametrize("is_closed", [False, True], ids=["at the end", "closed"])
def test_an_interrupt_at_any_line_of_a_workers_stream(tmp_path, is_closed):
    """Which is then at its last element, or closed with others to come; what follows is as ever."""
    running = program(
        f"""
        import faulthandler, itertools
        import grain
        from support.interruption import Interruption

        faulthandler.dump_traceback_later(100, exit=True)
        records = grain.MapDataset.range(2).to_iter_dataset(grain.ReadOptions(0, 0))
        dataset = records.mp_prefetch(grain.MultiprocessingOptions(num_workers=1))
        for at in itertools.count(1):
            iterator, interruption = iter(dataset), Interruption(at, lines=True)
            elements = [next(iterator)]
            if not {is_closed}:
                elements.append(next(iterator))
            try:
                interruption.call(*([iterator.close] if {is_closed} else [next, iterator, None]))
            except KeyboardInterrupt:
                elements += [] if {is_closed} else list(iterator)
                iterator.close()
                assert list(dataset) == [0, 1]
            assert elements == ([0] if {is_closed} else [0, 1]), (elements, interruption.place)
            if interruption.place is None:
                break
        print(at > 10)
        """,
        folder=tmp_path,
        PYTHONPATH=os.pathsep.join(sys.path),
    )
    assert running.finish(timeout=120) == (0, "True\n", "")
    running.assert_nothing_left()
