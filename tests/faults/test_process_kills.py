"""Processes that are killed at the wrong moment: a RuntimeError tells of it, and nothing is lost."""

import _thread
import os
import signal

import pytest

from grain.runtime.workers.pool import Pool, pool
from grain.streams.serving import serve
from support.programs import program
from support.workers import stream, workers


class Deadly:
    """Ends the first process in which it is unpickled."""

    def __init__(self, marker):
        self.marker = marker

    def __call__(self, x):
        return x

    def __setstate__(self, state):
        self.__dict__.update(state)
        if not self.marker.exists():
            self.marker.touch()
            os._exit(3)


@pytest.mark.parametrize("is_asked_for_state", [False, True])
def test_a_worker_that_ends_before_it_has_begun(tmp_path, is_asked_for_state):
    dataset = stream(Deadly(tmp_path / "marker"), 4)
    iterator = iter(dataset.mp_prefetch(workers(1), worker_init_fn=lambda *_: tmp_path))  # so no worker is used again
    with pytest.raises(RuntimeError, match=r"with exit code 3\..* worker 0 of 1, at the start, from where"):
        iterator.get_state() if is_asked_for_state else next(iterator)
    assert list(iterator) == [0, 1, 2, 3]


@pytest.mark.parametrize("victim", [0, 1, 2])
@pytest.mark.parametrize("is_asked_for_state", [False, True])
def test_a_worker_that_ends_at_its_first_element_keeps_its_turn(tmp_path, victim, is_asked_for_state):
    marker = tmp_path / "marker"

    def end_once(x):
        if x == victim and not marker.exists():
            marker.touch()
            os._exit(3)
        return x

    iterator = iter(stream(end_once, 6).mp_prefetch(workers(2)))
    if is_asked_for_state:
        iterator.get_state()
    elements = [next(iterator) for _ in range(victim)]
    with pytest.raises(RuntimeError, match="with exit code 3"):
        next(iterator)
    assert elements + list(iterator) == [0, 1, 2, 3, 4, 5]


def test_a_server_that_is_killed_right_before_a_launch(monkeypatch):
    """It still counts as usable then."""
    iterator = iter(stream(abs, 400).mp_prefetch(workers(2)))
    assert next(iterator) == 0
    server = pool(serve)._launchers[-1]
    server._server.signal(signal.SIGKILL)
    assert server.has_ended(10)
    with monkeypatch.context() as patched:
        patched.setattr(type(server), "is_usable", True)
        with pytest.raises(RuntimeError, match="terminated unexpectedly for an unknown reason"):
            next(iter(stream(abs, 4).mp_prefetch(workers(1))))
    with pytest.raises(RuntimeError, match="terminated unexpectedly"):
        list(iterator)


def test_a_pool_whose_thread_could_not_be_started(monkeypatch):
    def refuse(*args):
        raise RuntimeError("can't start new thread")

    fresh = Pool(serve)
    with monkeypatch.context() as patched:
        patched.setattr(_thread, "start_new_thread", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            fresh.acquire(None)
    worker = fresh.acquire(None)
    fresh.release(worker)
    fresh.wait_for_released()
    fresh.close()


def test_random_kills(tmp_path):
    """Of workers and of the server, at any moment."""
    running = program(
        """
        import contextlib, faulthandler, os, pathlib, random, signal, threading, time
        import grain
        from grain.runtime.workers.pool import pool
        from grain.streams.serving import serve

        faulthandler.dump_traceback_later(100, exit=True)
        random.seed(5)
        moved = threading.Event()
        is_done = False

        def kill():
            while not is_done:
                moved.wait()
                moved.clear()
                time.sleep(random.random() ** 2 * 0.05)
                with contextlib.suppress(OSError, IndexError):  # it has just ended, or none has begun
                    server = pool(serve)._launchers[-1]._server._pid
                    workers = pathlib.Path(f"/proc/{server}/task/{server}/children").read_text().split()
                    os.kill(int(random.choice([server, *workers])), signal.SIGKILL)

        dataset = grain.MapDataset.range(40).to_iter_dataset(grain.ReadOptions(0, 0))
        dataset = dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=2))
        killing = threading.Thread(target=kill, daemon=True)
        killing.start()
        failures = 0
        while failures < 20:
            iterator, seen = iter(dataset), []
            while True:
                try:
                    seen.append(next(iterator))
                    moved.set()
                except StopIteration:
                    break
                except RuntimeError as error:
                    assert "terminated unexpectedly" in str(error), error
                    failures += 1
            assert seen == list(range(40)), seen
        is_done = True
        moved.set()
        killing.join()
        print("all right")
        """,
        folder=tmp_path,
    )
    code, output, errors = running.finish(timeout=120)
    assert (code, output) == (0, "all right\n"), errors
    running.assert_nothing_left()


def test_an_iterator_that_a_fork_drops_goes_on_in_the_original(tmp_path):
    running = program(
        """
        import os
        import grain

        dataset = grain.MapDataset.range(6).to_iter_dataset(grain.ReadOptions(0, 0))
        dataset = dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=1))
        iterator = iter(dataset)
        assert next(iterator) == 0
        child = os.fork()
        if not child:
            del iterator
            assert list(dataset) == [0, 1, 2, 3, 4, 5]  # with a worker of its own
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        print(list(iterator))
        """,
        folder=tmp_path,
    )
    assert running.finish(timeout=30) == (0, "[1, 2, 3, 4, 5]\n", "")
    running.assert_nothing_left()
