"""Two JAX processes, as on two hosts: each reads its shard of the records, and both train one model on whole batches.

Without arguments it starts both processes on this machine.
"""

import socket
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import grain

PROCESSES, BATCH_SIZE, STEPS = 2, 16, 50
WEIGHTS = np.array([2.0, -3.0], np.float32)


def example(index):
    x = np.random.default_rng(index).normal(size=2).astype(np.float32)
    return {"x": x, "y": x @ WEIGHTS}


def batches():
    """The part of each batch that this process reads; shuffling before slicing mixes the records of all."""
    shard = grain.ShardByJaxProcess()
    return (
        grain.MapDataset.range(1_000)
        .shuffle(seed=1)
        .slice(slice(shard.shard_index, None, shard.shard_count))
        .repeat()
        .map(example)
        .batch(BATCH_SIZE // shard.shard_count)
        .to_iter_dataset()
    )


@jax.jit
def train_step(weights, batch):
    def loss(weights):
        return ((batch["x"] @ weights - batch["y"]) ** 2).mean()

    value, gradient = jax.value_and_grad(loss)(weights)
    return weights - 0.1 * gradient, value


def train(process, address):
    jax.distributed.initialize(address, PROCESSES, process)
    mesh = Mesh(np.array(jax.devices()), "data")
    divided = NamedSharding(mesh, PartitionSpec("data"))
    weights = jax.device_put(jnp.zeros(2), NamedSharding(mesh, PartitionSpec()))
    for _, local in zip(range(STEPS), batches(), strict=False):
        batch = jax.tree.map(lambda part: jax.make_array_from_process_local_data(divided, part), local)
        weights, loss = train_step(weights, batch)
    print(f"process {process}: loss {loss:.4f}, weights {np.asarray(weights).round(2)}, batches of {batch['x'].shape}")


def start_all():
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        address = f"localhost:{listener.getsockname()[1]}"
    started = [subprocess.Popen([sys.executable, __file__, str(i), address]) for i in range(PROCESSES)]
    sys.exit(max(process.wait() for process in started))


if __name__ == "__main__":
    train(int(sys.argv[1]), sys.argv[2]) if len(sys.argv) > 1 else start_all()
