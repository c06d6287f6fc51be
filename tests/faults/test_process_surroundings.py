"""What a worker process finds around it."""

from __future__ import annotations

import importlib
import logging
import os
import sys
import threading

import numpy as np
import pytest

from grain import MapDataset
from support.programs import program
from support.workers import INLINE, stream, workers


def test_init_function_is_called_first_and_once_in_each_process():
    def init(index, count):
        os.environ["GRAIN_TEST_INIT"] = os.environ.get("GRAIN_TEST_INIT", "") + f"({index} of {count})"

    dataset = stream(lambda x: os.environ.get("GRAIN_TEST_INIT")).mp_prefetch(workers(2), worker_init_fn=init)
    assert list(dataset)[:2] == ["(0 of 2)", "(1 of 2)"]
    assert "GRAIN_TEST_INIT" not in os.environ


def test_init_function_that_fails():
    def init(index, count):
        raise LookupError(f"no device for worker {index}")

    iterator = iter(stream(abs).mp_prefetch(workers(2), worker_init_fn=init))
    with pytest.raises(LookupError, match="no device for worker 0"):
        next(iterator)


def test_environment_directory_and_path(tmp_path, monkeypatch):
    (tmp_path / "grain_test_module.py").write_text("value = 42\ndef get(x):\n    return value + x\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRAIN_TEST_VARIABLE", "set")
    import grain_test_module

    dataset = stream(lambda x: (os.getcwd(), os.environ.get("GRAIN_TEST_VARIABLE"), grain_test_module.get(x)), 2)
    assert list(dataset.mp_prefetch(workers(1))) == [(str(tmp_path), "set", 42), (str(tmp_path), "set", 43)]
    monkeypatch.delenv("GRAIN_TEST_VARIABLE")
    assert next(iter(dataset.mp_prefetch(workers(1))))[1] is None


def test_linear_algebra_has_one_thread_unless_the_user_says_otherwise(monkeypatch):
    def limit(x):
        return os.environ.get("OMP_NUM_THREADS")

    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert set(stream(limit, 2).mp_prefetch(workers(2))) == {"1"}
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert set(stream(limit, 2).mp_prefetch(workers(2))) == {"3"}


def test_jax_is_not_imported_by_workers_of_a_program_that_has_it():
    importlib.import_module("jax")
    assert set(stream(lambda x: "jax" in sys.modules, 2).mp_prefetch(workers(2))) == {False}


def test_log_prefix():
    def message(x):
        return logging.LogRecord, logging.getLogRecordFactory()("n", 30, "f", 1, "%d is odd", (x,), None).getMessage()

    texts = [text for _, text in stream(message, 2).mp_prefetch(workers(2))]
    assert texts == ["[0] 0 is odd", "[1] 1 is odd"]


def test_global_generators_differ_between_workers():
    drawn = list(stream(lambda x: np.random.random(), 8).mp_prefetch(workers(2)))  # noqa: NPY002
    assert len(set(drawn)) == 8


def test_what_an_init_function_has_set_up_stays_for_the_next_epoch(tmp_path):
    def init(index, count):
        os.environ["GRAIN_TEST_INIT"] = f"{index} of {count}"
        os.chdir(tmp_path)

    dataset = stream(lambda x: (os.environ.get("GRAIN_TEST_INIT"), os.getcwd()), 4)
    dataset = dataset.mp_prefetch(workers(2), worker_init_fn=init)
    for _ in range(3):
        assert list(dataset)[:2] == [("0 of 2", str(tmp_path)), ("1 of 2", str(tmp_path))]


def test_init_function_that_cannot_be_pickled():
    lock = threading.Lock()
    iterator = iter(stream(abs).mp_prefetch(workers(1), worker_init_fn=lambda index, count: lock))
    with pytest.raises(TypeError, match="cannot pickle") as raised:
        next(iterator)
    assert any("worker_init_fn" in note for note in raised.value.__notes__)


def test_pipeline_is_taken_as_it_is_when_an_iterator_begins():
    class Source(list):
        pass

    source = Source([1, 2, 3])
    dataset = MapDataset.source(source).to_iter_dataset(INLINE).mp_prefetch(workers(2))
    assert list(dataset) == [1, 2, 3]
    source[0] = 10
    assert list(dataset) == [10, 2, 3]


def test_workers_have_the_pipeline_anew_for_every_iterator():
    class Counting:
        def __init__(self):
            self.count = 0

        def __call__(self, x):
            self.count += 1
            return self.count

    dataset = stream(Counting(), 4).mp_prefetch(workers(2))
    for _ in range(3):
        assert list(dataset) == [1, 1, 2, 2]


def test_edited_modules_are_imported_again(tmp_path, monkeypatch):
    path = tmp_path / "grain_test_edited.py"
    path.write_text("def get(x):\n    return 'old'\n")
    monkeypatch.syspath_prepend(tmp_path)
    import grain_test_edited

    assert set(stream(grain_test_edited.get, 4).mp_prefetch(workers(2))) == {"old"}
    path.write_text("def get(x):\n    return 'new and longer'\n")
    os.utime(path, (1, 1))  # a change that no clock is too coarse for
    assert set(stream(grain_test_edited.get, 4).mp_prefetch(workers(2))) == {"new and longer"}


def test_other_limits_leave_running_iterators_alone(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    iterator = iter(stream(abs).mp_prefetch(workers(2)))
    assert next(iterator) == 0
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert list(stream(abs).mp_prefetch(workers(2))) == list(range(8))
    assert list(iterator) == list(range(1, 8))


def test_working_directory_that_is_gone(tmp_path, monkeypatch):
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert list(stream(abs).mp_prefetch(workers(2))) == list(range(8))


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_what_workers_print_comes_in_whole_lines(tmp_path, unbuffered):
    running = program(
        """
        import grain
        dataset = grain.MapDataset.range(500).map(lambda x: print("made", x)).to_iter_dataset()
        list(dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=2)))
        """,
        folder=tmp_path,
        PYTHONUNBUFFERED=unbuffered,
    )
    _, output, errors = running.finish()
    assert errors == ""
    assert sorted(output.splitlines()) == sorted(f"made {x}" for x in range(500))
    running.assert_nothing_left()
