"""`SharedMemoryArray`: an array in a named block, of which nothing stays behind."""

from __future__ import annotations

import dataclasses
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from grain.elements import shared_memory
from grain.multiprocessing import SharedMemoryArray, SharedMemoryArrayMetadata

BLOCKS = Path("/dev/shm")
pytestmark = pytest.mark.skipif(not BLOCKS.exists(), reason="looks at blocks where Linux keeps them")


def is_there(name):
    return (BLOCKS / name).exists()


@pytest.fixture
def array():
    made = SharedMemoryArray((2, 3), np.int32)
    made.unlink_on_del()
    made[:] = np.arange(6).reshape(2, 3)
    name = made.shm.name
    yield made
    del made
    gc.collect()
    if is_there(name):  # a test has it still in its frame
        SharedMemoryArrayMetadata(name, (1,), np.uint8).close_and_unlink_shm()


def test_it_is_an_array_in_a_block(array):
    assert isinstance(array, np.ndarray)
    assert (array.shape, array.dtype, array.tolist()) == ((2, 3), np.int32, [[0, 1, 2], [3, 4, 5]])
    assert (BLOCKS / array.shm.name).read_bytes() == array.tobytes()


def test_metadata(array):
    metadata = array.metadata
    assert metadata == SharedMemoryArrayMetadata(array.shm.name, (2, 3), np.dtype(np.int32))
    assert hash(metadata) == hash(array.metadata)
    with pytest.raises(dataclasses.FrozenInstanceError):
        metadata.name = "other"
    assert not hasattr(metadata, "__dict__")


@pytest.mark.parametrize("opened", [lambda a: SharedMemoryArray.from_metadata(a.metadata), pickle.dumps])
def test_opened_by_name_it_is_the_same_memory(array, opened):
    again = opened(array)
    again = pickle.loads(again) if isinstance(again, bytes) else again
    again[1, 2] = 77
    assert array[1, 2] == 77
    assert type(again) is SharedMemoryArray


def test_pickles_are_small():
    large = SharedMemoryArray((1000, 1000))
    large.unlink_on_del()
    assert len(pickle.dumps(large)) < 1000


def test_views_share_the_block_and_copies_do_not(array):
    for view in (array[1:], array.T, array.reshape(6), array[:, 1], array.view(np.uint8)):
        assert view.shm is array.shm
    for copy in (array.copy(), array.astype(float), array[[0, 1]], np.array(array)):
        assert getattr(copy, "shm", None) is None


def test_results_are_ordinary(array):
    for result in (array + 1, np.sqrt(array), array.sum(axis=0), np.stack([array, array]), array == 3):
        assert type(result) is np.ndarray
    for result in (array.sum(), array.mean(), np.max(array), array[0, 0]):
        assert isinstance(result, np.generic)
    assert np.add(array, 1, out=array) is array
    array += 1
    assert type(array) is SharedMemoryArray


@pytest.mark.parametrize("part", [lambda a: a[1:], lambda a: a[:, 1:], lambda a: a.T, lambda a: a.copy()])
def test_what_is_not_at_the_start_of_the_block_is_pickled_with_its_contents(array, part):
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(part(array))), part(array))
    with pytest.raises(ValueError, match="SharedMemoryArray of its own"):
        part(array).metadata  # noqa: B018


@pytest.mark.parametrize(("shape", "dtype"), [((0, 3), float), ((2,), object), ((2,), "V0")])
def test_what_cannot_be_shared(shape, dtype):
    with pytest.raises(ValueError, match="No SharedMemoryArray of shape"):
        SharedMemoryArray(shape, dtype)


def test_scalars_and_any_iterable_as_shape():
    for shape, expected in (((), ()), ([2, 2], (2, 2)), (iter((3,)), (3,))):
        array = SharedMemoryArray(shape)
        array.unlink_on_del()
        assert (array.shape, array.dtype) == (expected, float)


def test_the_block_goes_with_the_last_view():
    array = SharedMemoryArray((4,))
    array.unlink_on_del()
    name, view, plain = array.shm.name, array[1:], np.asarray(array)
    plain[:] = 5
    del array
    assert is_there(name)
    del view
    assert plain.tolist() == [5, 5, 5, 5]
    assert is_there(name)
    del plain
    assert not is_there(name)


def test_a_view_can_mark_the_block_too():
    name = (view := SharedMemoryArray((4,))[1:]).shm.name
    view.unlink_on_del()
    del view
    assert not is_there(name)


def test_an_unmarked_array_leaves_the_block_to_others():
    metadata = SharedMemoryArray((4,)).metadata
    assert is_there(metadata.name)
    opened = SharedMemoryArray.from_metadata(metadata)
    opened.unlink_on_del()
    del opened
    assert not is_there(metadata.name)
    with pytest.raises(FileNotFoundError, match=metadata.name):
        SharedMemoryArray.from_metadata(metadata)


def test_close_and_unlink():
    metadata = SharedMemoryArray((4,)).metadata
    metadata.close_and_unlink_shm()
    assert not is_there(metadata.name)
    with pytest.raises(FileNotFoundError, match=metadata.name):
        metadata.close_and_unlink_shm()


def test_open_files_and_mappings_are_given_back():
    def held():
        return len(os.listdir("/proc/self/fd")), Path("/proc/self/maps").read_text(errors="replace").count("psm_")

    SharedMemoryArray((4,)).metadata.close_and_unlink_shm()  # what Python keeps open from then on
    before = held()
    for _ in range(20):
        metadata = SharedMemoryArray((4,)).metadata
        SharedMemoryArray.from_metadata(metadata).unlink_on_del()
    assert held() == before


# ---------------------------------------------------------------- closed by threads


@pytest.fixture
def asynchronous(monkeypatch):
    """Lets threads close blocks, in this test only."""
    monkeypatch.setattr(shared_memory, "_closing", None)
    yield
    shared_memory._closing.finish()


def test_threads_close_blocks(asynchronous, monkeypatch):
    removed, closers = threading.Event(), []

    def close(block, close=shared_memory._Block.close):
        close(block)
        closers.append(threading.current_thread().name)
        removed.set()

    monkeypatch.setattr(shared_memory._Block, "close", close)
    SharedMemoryArray.enable_async_del()
    SharedMemoryArray.enable_async_del()
    array = SharedMemoryArray((4,))
    array.unlink_on_del()
    name = array.shm.name
    del array
    assert removed.wait(30)
    assert closers == ["grain-shared-memory"]
    assert not is_there(name)


def test_where_too_many_wait_blocks_are_closed_at_once(asynchronous):
    SharedMemoryArray.enable_async_del(max_outstanding_requests=0)
    array = SharedMemoryArray((4,))
    array.unlink_on_del()
    name = array.shm.name
    del array
    assert not is_there(name)


# ---------------------------------------------------------------- several processes


def run(script, *arguments):
    """The output of a script, which must succeed and have nothing to complain of."""
    heading = "import sys, pickle, numpy as np\nfrom grain.multiprocessing import SharedMemoryArray as Array\n"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", heading + script, *arguments], capture_output=True, timeout=60
    )
    assert (done.returncode, done.stderr.decode()) == (0, "")
    return done.stdout.decode().split()


def test_a_reader_leaves_the_block_to_its_maker(array):
    script = "array = pickle.loads(bytes.fromhex(sys.argv[1])); print(array.sum()); array[:] = 9"
    assert run(script, pickle.dumps(array).hex()) == ["15"]
    assert is_there(array.shm.name)
    assert (array == 9).all()


def test_another_process_may_remove_it():
    metadata = SharedMemoryArray((4,)).metadata
    run("Array.from_metadata(pickle.loads(bytes.fromhex(sys.argv[1]))).unlink_on_del()", pickle.dumps(metadata).hex())
    assert not is_there(metadata.name)


ENDS = {
    "marked": "array = Array((9,)); array.unlink_on_del(); print(array.shm.name)",
    "not marked": "array = Array((9,)); print(array.shm.name)",
    "forgotten": "print(Array((9,)).shm.name)",
    "opened twice": "a = Array((9,)); b = Array.from_metadata(a.metadata); b.unlink_on_del(); print(a.shm.name)",
    "removed before": "a = Array((9,)); print(a.shm.name); a.metadata.close_and_unlink_shm()",
    "closed by threads": "Array.enable_async_del(2)\nfor _ in range(40):\n    a = Array((9,)); a.unlink_on_del()\n"
    "    print(a.shm.name)",
    "forked": "import os; a = Array((9,)); a.unlink_on_del(); print(a.shm.name, flush=True)\n"
    "if os.fork() == 0: sys.exit()\nos.wait(); a[:] = 1; Array.from_metadata(a.metadata)",
}


@pytest.mark.parametrize("script", ENDS.values(), ids=ENDS)
def test_nothing_stays_and_nothing_is_printed_at_the_end(script):
    names = run(script)
    assert names
    assert not any(map(is_there, names))


CHILDREN = """
import multiprocessing

def child(connection, array):
    array += 1
    made = Array((3,)); made[:] = 7
    connection.send((made.metadata, made.shm.name, array.shm.name))

if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        array = Array((3,)); array.unlink_on_del(); array[:] = 0
        here, there = context.Pipe()
        process = context.Process(target=child, args=(there, array))
        process.start()
        metadata, *names = here.recv()
        received = Array.from_metadata(metadata); received.unlink_on_del()
        process.join()
        assert array.tolist() == [1, 1, 1] and received.tolist() == [7, 7, 7]
        print(*names)
        del array, received
"""


def test_children_of_every_kind(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("from grain.multiprocessing import SharedMemoryArray as Array\n" + CHILDREN)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, timeout=120)
    assert (done.returncode, done.stderr.decode()) == (0, "")
    assert len(done.stdout.split()) == 6
    assert not any(is_there(name.decode()) for name in done.stdout.split())


def test_a_maker_that_is_killed_leaves_nothing():
    script = """
import sys
from grain.multiprocessing import SharedMemoryArray
array = SharedMemoryArray((9,))
print(array.shm.name, flush=True)
sys.stdin.read()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    name = process.stdout.readline().decode().strip()
    assert is_there(name)
    process.send_signal(signal.SIGKILL)
    process.communicate()  # the tracker has the same stderr: its end is met when that is done too
    assert not is_there(name)
