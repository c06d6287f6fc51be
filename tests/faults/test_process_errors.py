"""Errors of users' functions in worker processes."""

from __future__ import annotations

import errno
import os
import threading

import pytest

import grain
from grain import IterDataset
from support.workers import stream, wait_for, workers


def fail_at(*numbers):
    def function(x):
        if x in numbers:
            raise KeyError(f"no {x}")
        return x

    return function


def outcomes(iterator, limit=50):
    """Elements, and the types of errors in their places."""
    found = []
    for _ in range(limit):
        try:
            found.append(next(iterator))
        except StopIteration:
            return found
        except Exception as error:
            found.append(type(error).__name__)
    raise AssertionError(f"no end after {found}")


def test_error_is_the_same_and_says_where():
    iterator = iter(stream(fail_at(3)).mp_prefetch(workers(2)))
    assert [next(iterator) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(KeyError, match="no 3") as raised:
        next(iterator)
    assert any("function @" in note and "index 3" in note for note in raised.value.__notes__)
    assert 'raise KeyError(f"no {x}")' in str(raised.value.__cause__)


def test_nothing_is_lost_after_an_error():
    assert outcomes(iter(stream(fail_at(3, 6)).mp_prefetch(workers(2)))) == [0, 1, 2, "KeyError", 4, 5, "KeyError", 7]


def test_state_after_an_error():
    iterator = iter(stream(fail_at(3)).mp_prefetch(workers(2)))
    outcomes_before = [next(iterator) for _ in range(3)]
    with pytest.raises(KeyError):
        next(iterator)
    state = iterator.get_state()
    resumed = iter(stream(fail_at(3)).mp_prefetch(workers(2)))
    resumed.set_state(state)
    assert outcomes_before == [0, 1, 2]
    assert list(resumed) == list(iterator) == [4, 5, 6, 7]


class NeedsTwo(Exception):  # noqa: N818
    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


def test_exception_that_cannot_be_made_again():
    def function(x):
        raise NeedsTwo(x, "more")

    with pytest.raises(RuntimeError, match="NeedsTwo: 0 and more") as raised:
        next(iter(stream(function).mp_prefetch(workers(1))))
    assert any("cannot be pickled" in note for note in raised.value.__notes__)


def test_exception_with_something_unpicklable():
    def function(x):
        raise ValueError("with a lock", threading.Lock())

    assert outcomes(iter(stream(function, 3).mp_prefetch(workers(1)))) == ["RuntimeError"] * 3


def test_element_that_cannot_be_pickled():
    def function(x):
        return threading.Lock() if x == 3 else x

    iterator = iter(stream(function).mp_prefetch(workers(2)))
    assert [next(iterator) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(TypeError, match=r"cannot pickle '_thread\.lock' object") as raised:
        next(iterator)
    assert any("type lock could not leave worker 1" in note for note in raised.value.__notes__)
    assert list(iterator) == [4, 5, 6, 7]


class Unpicklable:
    def __getstate__(self):
        return {"x": 1}

    def __setstate__(self, state):
        raise ValueError("cannot be made again")


def test_element_that_cannot_be_unpickled():
    def function(x):
        return Unpicklable() if x == 2 else x

    iterator = iter(stream(function, 4).mp_prefetch(workers(1)))
    assert outcomes(iterator) == [0, 1, "ValueError", 3]


def test_pipeline_that_cannot_be_pickled():
    lock = threading.Lock()
    dataset = stream(abs).map(lambda x: (lock, x)).batch(2).mp_prefetch(workers(2))
    with pytest.raises(TypeError, match=r"cannot pickle '_thread\.lock' object") as raised:
        next(iter(dataset))
    assert any("Dataset: MapIterDataset(transform=<lambda>" in note for note in raised.value.__notes__)


@pytest.mark.parametrize("call", ["memfd_create", "truncate"])
def test_shared_memory_that_cannot_be_had(monkeypatch, call):
    def refuse(*args):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    iterator = iter(stream(abs, 2).mp_prefetch(workers(1)))
    with monkeypatch.context() as patched:
        patched.setattr(os, call, refuse)
        with pytest.raises(OSError, match="Too many open files") as raised:
            next(iterator)
    (note,) = raised.value.__notes__
    assert "bytes of memory to share between processes" in note
    assert "memfd_create" in note
    assert list(iterator) == [0, 1]


def test_stream_that_cannot_be_divided():
    class Endless(IterDataset):
        def __iter__(self):
            return iter(stream(abs))

    assert list(Endless().mp_prefetch(workers(1))) == list(range(8))
    with pytest.raises(ValueError, match="Cannot slice `IterDataset` source"):
        next(iter(Endless().mp_prefetch(workers(2))))


def test_module_that_the_worker_cannot_find(tmp_path, monkeypatch):
    (tmp_path / "grain_test_lost.py").write_text("def get(x):\n    return x\n")
    monkeypatch.syspath_prepend(tmp_path)
    import grain_test_lost

    dataset = stream(grain_test_lost.get).mp_prefetch(workers(1))
    monkeypatch.undo()
    with pytest.raises(ModuleNotFoundError, match="grain_test_lost"):
        next(iter(dataset))


def test_next_call_after_a_job_that_failed_tries_again(tmp_path, monkeypatch):
    (tmp_path / "grain_test_found.py").write_text("def get(x):\n    return x\n")
    with monkeypatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        import grain_test_found
    dataset = stream(grain_test_found.get, 3).mp_prefetch(workers(1))
    iterator = iter(dataset)
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError):
            next(iterator)
    monkeypatch.syspath_prepend(tmp_path)
    assert list(iterator) == [0, 1, 2]


def test_closed_by_another_thread_while_an_element_is_waited_for(tmp_path):
    def wait(x):
        (tmp_path / "begun").touch()
        threading.Event().wait(60)

    iterator = iter(stream(wait).mp_prefetch(workers(1)))
    outcome = []

    def consume():
        try:
            next(iterator)
        except ValueError as error:
            outcome.append(str(error))

    thread = threading.Thread(target=consume)
    thread.start()
    wait_for((tmp_path / "begun").exists)
    iterator.close()
    thread.join(20)
    assert len(outcome) == 1
    assert "closed" in outcome[0]


def test_an_iterator_whose_init_function_fails_can_be_moved_and_closed():
    def init(index, count):
        raise LookupError("no device")

    iterator = iter(stream(abs).mp_prefetch(workers(1), worker_init_fn=init))
    iterator.start_prefetch()
    grain.experimental.set_next_index(iterator, 3)
    with pytest.raises(LookupError):
        next(iterator)
    iterator.close()
