"""Two processes of one training run: each reads its shard, both are killed, and both go on where they were."""

import json
import socket

import pytest

from support.programs import Program

STEPS, SAVED_AT, KILLED_AT, BATCH = 10, 3, 5, 2

TRAINING = """
import json, sys, threading
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import grain

index, port, folder, stop_at = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
jax.distributed.initialize(f"localhost:{port}", 2, index)
mesh = Mesh(np.array(jax.devices()), "data")
divided, everywhere = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in (("data",), ()))

shard = grain.ShardByJaxProcess()
if KIND == "dataset":
    dataset = grain.MapDataset.range(40).shuffle(seed=1)[shard.shard_index :: shard.shard_count].batch(2)
    iterator = iter(dataset.to_iter_dataset())
else:
    source = grain.RangeDataSource(0, 40, 1)
    sampler = grain.IndexSampler(40, shard, shuffle=True, num_epochs=1, seed=1)
    iterator = iter(grain.DataLoader(data_source=source, sampler=sampler, operations=[grain.Batch(2)], worker_count=1))

@jax.jit
def trained(model, batch):
    return jax.tree.map(lambda w, g: w - 1e-4 * g, model, jax.grad(lambda m: ((m["w"] - batch) ** 2).sum())(model))

model = jax.device_put({"w": jnp.zeros(())}, everywhere)
with ocp.CheckpointManager(folder) as manager:
    step = manager.latest_step() or 0
    if step:
        wanted = {"data": grain.checkpoint.CheckpointRestore(iterator), "model": ocp.args.StandardRestore(model)}
        model = manager.restore(step, args=ocp.args.Composite(**wanted)).model
    for batch in iterator:
        model = trained(model, jax.make_array_from_process_local_data(divided, batch))
        step += 1
        if step == SAVED_AT:
            given = {"data": grain.checkpoint.CheckpointSave(iterator), "model": ocp.args.StandardSave(model)}
            manager.save(step, args=ocp.args.Composite(**given))
            manager.wait_until_finished()
        print(json.dumps({"step": step, "batch": batch.tolist(), "weight": float(model["w"])}), flush=True)
        if step == stop_at:
            threading.Event().wait()
"""


def start(tmp_path, kind, stop_at):
    """Both processes, on a port that was free a moment ago."""
    script = tmp_path / "training.py"
    script.write_text(TRAINING.replace("SAVED_AT", str(SAVED_AT)).replace("KIND", repr(kind)))
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        port = listener.getsockname()[1]
    arguments = [str(port), str(tmp_path / "checkpoints"), str(stop_at)]
    return [Program([str(script), str(index), *arguments], JAX_PLATFORMS="cpu") for index in range(2)]


def records(lines):
    """What it said; other libraries speak too."""
    return [json.loads(line) for line in lines if line.startswith("{")]


def first_records(program, count):
    found = []
    while len(found) < count:
        line = program.process.stdout.readline()
        assert line, program.finish()
        found += records([line])
    return found


@pytest.fixture(params=["dataset", "loader"])
def run(request, tmp_path):
    started = []

    def both(stop_at):
        programs = start(tmp_path, request.param, stop_at)
        started.extend(programs)
        return programs

    yield both
    for program in started:
        program.kill_all()


def test_shards_survive_a_kill(run, tmp_path):
    killed = run(stop_at=KILLED_AT)
    before = [first_records(program, KILLED_AT) for program in killed]
    for program in killed:
        program.process.kill()
    for program in killed:
        program.finish()
    after = []
    for program in run(stop_at=STEPS + 1):
        code, output, errors = program.finish()
        assert code == 0, errors
        after.append(records(output.splitlines()))

    assert sorted(path.name for path in tmp_path.rglob("process_*.json")) == [
        "process_0-of-2.json",
        "process_1-of-2.json",
    ]
    seen = []
    for first, second in zip(before, after, strict=True):
        assert [record["step"] for record in second] == list(range(SAVED_AT + 1, STEPS + 1))
        assert second[: KILLED_AT - SAVED_AT] == first[SAVED_AT:]
        seen += [element for record in first[:SAVED_AT] + second for element in record["batch"]]
    assert sorted(seen) == list(range(2 * STEPS * BATCH))
