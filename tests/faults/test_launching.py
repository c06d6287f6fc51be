"""Starting worker processes: by a fork server, and by spawning where there is none."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pytest

from grain.runtime.workers import launching, slabs
from grain.runtime.workers.channel import Channel
from grain.runtime.workers.launching import ForkServer, Spawning
from grain.runtime.workers.parcels import Parcel, pickled_pieces
from support.programs import is_alive, program


def echo(channel):
    """What the processes of these tests do: send back what they get, or for kind 8 who they are; 9 ends them."""
    while True:
        message = channel.receive()
        if message.kind == 9:
            raise SystemExit(message.body[0])
        channel.send(message.kind, [str(os.getpid()).encode() if message.kind == 8 else message.body])


@pytest.fixture(params=[ForkServer, Spawning])
def launcher(request):
    made = request.param(echo)
    yield made
    made.close()


def answer(process, text):
    process.channel.send(1, [text])
    return process.channel.receive(60).body.tobytes()


def test_processes_answer_and_end(launcher):
    first, second = launcher.launch(), launcher.launch()
    assert (answer(first, b"a"), answer(second, b"b")) == (b"a", b"b")
    first.channel.send(9, [bytes([7])])
    assert first.wait(10)
    assert first.exit_code == 7
    assert answer(second, b"c") == b"c"
    second.signal(signal.SIGKILL)
    assert second.wait(10)
    assert second.exit_code == -signal.SIGKILL
    for process in (first, second):
        process.signal(signal.SIGTERM)  # too late, and no harm
        process.channel.close()


def test_closing_ends_all(launcher):
    process = launcher.launch()
    process.channel.send(8)
    pid = int(bytes(process.channel.receive(60).body))
    assert is_alive(pid)
    launcher.close()
    assert not is_alive(pid)
    process.channel.close()


def test_what_is_launched_by_a_server_that_is_gone_has_ended():
    server = ForkServer(echo)
    server._server.signal(signal.SIGKILL)
    assert server.has_ended(10)
    assert not server.is_usable
    process = server.launch()
    assert process.wait(10)
    assert (process.exit_code, process.refusal) == (None, None)
    with pytest.raises(EOFError):
        process.channel.receive(1)
    process.channel.close()
    server.close()


@pytest.mark.parametrize("refused", [[], [0]])
def test_server_that_cannot_receive_files_refuses(refused, monkeypatch):
    """Where it has no room for them, it gets none, or not all."""
    server = ForkServer(echo)
    monkeypatch.setattr(launching, "_SECONDS_TO_DIE", 0.1)
    order = server.order
    monkeypatch.setattr(server, "order", lambda *args: order(*args[:3], [args[3][index] for index in refused]))
    process = server.launch()
    assert process.wait(10)
    assert process.refusal == "Too many open files"
    process.channel.close()
    server.close()


def test_a_server_that_does_not_end_is_killed(monkeypatch):
    monkeypatch.setattr(launching, "_SECONDS_TO_END", 0.2)
    server = ForkServer(echo)
    process = server.launch()
    assert answer(process, b"a") == b"a"
    server._server.signal(signal.SIGSTOP)
    server.close()
    assert server.has_ended()
    process.channel.close()


def test_a_child_that_somebody_else_has_waited_for_has_ended():
    server = ForkServer(echo)
    server._control.close()
    os.waitpid(server._server._pid, 0)
    assert server.has_ended()
    server.close()


def test_exit_code_of_a_process_that_still_runs_is_not_known(launcher):
    process = launcher.launch()
    assert answer(process, b"a") == b"a"
    assert not process.wait(0)
    assert process.exit_code is None
    process.channel.close()


def test_server_with_other_limits_is_not_usable(monkeypatch):
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    server = ForkServer(echo)
    assert server.is_usable
    monkeypatch.setenv("MKL_NUM_THREADS", "4")
    assert not server.is_usable
    server.close()


SPAWNING = """
    import grain.runtime.workers.pool
    from grain.runtime.workers.launching import Spawning
    grain.runtime.workers.pool.launcher = Spawning

    import os, time
    import numpy as np
    import grain

    def record(x):
        time.sleep({pause})
        return {{"x": x, "pixels": np.full((100, 100), x), "parent": os.getppid()}}

    dataset = grain.MapDataset.range(12).map(record).to_iter_dataset().batch(2)
    dataset = dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=2))
    for batch in dataset:
        print(batch["x"].tolist(), set(batch["parent"].tolist()) == {{os.getpid()}}, flush=True)
"""


def test_program_whose_workers_are_spawned(tmp_path):
    running = program(SPAWNING.format(pause=0), folder=tmp_path)
    code, output, errors = running.finish()
    assert (code, errors) == (0, "")
    assert output.splitlines()[:2] == ["[0, 2] True", "[1, 3] True"]
    running.assert_nothing_left()


def test_spawned_workers_end_with_their_parent(tmp_path):
    running = program(SPAWNING.format(pause=0.3), folder=tmp_path)
    assert running.read_line() == "[0, 2] True"
    os.kill(running.pid, signal.SIGKILL)
    running.assert_nothing_left(seconds=3)


def test_files_without_a_name_where_there_is_no_memfd(monkeypatch):
    monkeypatch.delattr(os, "memfd_create")
    slab = slabs.Slab(0, 10_000)
    views = slabs.Views()
    views.add(0, slab.file, {0})
    array = slab.take()((100,), np.dtype(np.float64))
    array[:] = np.arange(100)
    (buffer,) = views.buffers([slab.place_of(array.view(np.uint8))])
    np.testing.assert_array_equal(np.frombuffer(buffer), np.arange(100))


@pytest.mark.parametrize("make", [lambda: Parcel(pickled_pieces([1, 2])), lambda: slabs.Slab(0, 1000)])
def test_what_is_forgotten_closes_its_file(make):
    made = make()
    file = made.file.fileno()
    os.fstat(file)
    del made
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(file)


# ---------------------------------------------------------------- channels


@pytest.fixture
def channels():
    here, there = Channel.pair()
    there = Channel(there)
    yield here, there
    here.close()
    there.close()


def test_messages_of_any_size_and_files(channels):
    here, there = channels
    parts = [b"abc", np.arange(5, dtype=np.int16), b""]
    file = slabs.anonymous_file(3)
    here.send(4, parts, file)
    here.send(5)
    message = there.receive(1)
    assert (message.kind, bytes(message.body)) == (4, b"abc" + np.arange(5, dtype=np.int16).tobytes())
    assert os.fstat(message.file.fileno()).st_ino == os.fstat(file.fileno()).st_ino
    assert there.receive(1) == (5, memoryview(b""), None)


def test_no_message_in_time(channels):
    start = time.monotonic()
    assert channels[0].receive(0.05) is None
    assert time.monotonic() - start >= 0.05


def test_the_other_side_is_gone(channels):
    here, there = channels
    there.send(1, [b"last words"])
    there.close()
    with pytest.raises(OSError, match="Broken pipe"):
        here.send(2, [b"x"])
    assert bytes(here.receive(1).body) == b"last words"
    with pytest.raises(EOFError):
        here.receive(1)


def test_a_message_cut_short_breaks_the_channel(channels):
    here, there = channels
    here._socket.send(b"\x10\0\0\0\0\0\0\0\1\0only a part")
    here.close()
    with pytest.raises(EOFError, match="in the middle of a message"):
        there.receive(1)
    assert there.broken
