"""Trains a small network on handwritten digits. Killed at any moment, it goes on exactly where it was.

The folder `--output` holds the checkpoints, each with the model and the position in the data; `losses.txt`, to which
every step adds a line; and in the end `result.json`.
"""

import argparse
import json
import time
from pathlib import Path

import jax
import optax
import orbax.checkpoint as ocp
from digits import BATCH_SIZE, batches, kept_back
from flax import nnx
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

import grain

SEED = 42


class Network(nnx.Module):
    """Two convolutions and a linear layer."""

    def __init__(self, rngs):
        self.first = nnx.Conv(1, 32, (3, 3), rngs=rngs)
        self.second = nnx.Conv(32, 64, (3, 3), rngs=rngs)
        self.last = nnx.Linear(4 * 4 * 64, 10, rngs=rngs)

    def __call__(self, images):
        hidden = nnx.relu(self.first(images[..., None]))
        hidden = nnx.max_pool(nnx.relu(self.second(hidden)), (2, 2), strides=(2, 2))
        return self.last(hidden.reshape(len(images), -1))


@nnx.jit
def new_model():
    model = Network(nnx.Rngs(SEED))
    return model, nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)


@nnx.jit
def train_step(model, optimizer, batch):
    def loss(model):
        return optax.softmax_cross_entropy_with_integer_labels(model(batch["image"]), batch["label"]).mean()

    value, gradients = nnx.value_and_grad(loss)(model)
    optimizer.update(model, gradients)
    return value


def accuracy(model, data):
    """The share of digits kept back from training that the network names rightly."""
    kept = kept_back(data)
    return float((model(kept["image"]).argmax(axis=1) == kept["label"]).mean())


class Training:
    """A model and a position in the data, which are saved and restored together."""

    def __init__(self, loader, data, workers, folder):
        device = jax.devices()[0]
        self.model, self.optimizer = new_model()
        # On the device by name, as the batches will be: or the second step would be compiled anew.
        nnx.update((self.model, self.optimizer), jax.device_put(self._state, device))
        stream = batches(loader, data, workers)
        if loader == "dataset":
            stream = stream.device_put(device)  # the next batches are always on their way
        self.iterator = iter(stream)
        self.checkpoints = ocp.CheckpointManager(folder.absolute() / "checkpoints")
        self.step = self.checkpoints.latest_step() or 0
        if self.step:
            self._restore()

    @property
    def _state(self):
        return nnx.state((self.model, self.optimizer))

    def _restore(self):
        wanted = {
            "model": ocp.args.StandardRestore(nnx.to_pure_dict(self._state)),
            "data": grain.checkpoint.CheckpointRestore(self.iterator),
        }
        state, restored = self._state, self.checkpoints.restore(self.step, args=ocp.args.Composite(**wanted))
        nnx.replace_by_pure_dict(state, restored.model)
        nnx.update((self.model, self.optimizer), state)

    def save(self):
        given = {
            "model": ocp.args.StandardSave(nnx.to_pure_dict(self._state)),
            "data": grain.checkpoint.CheckpointSave(self.iterator),
        }
        self.checkpoints.save(self.step, args=ocp.args.Composite(**given))

    def advance(self):
        """One step: its loss, and the seconds that it waited for data."""
        start = time.perf_counter()
        batch = next(self.iterator)
        waited = time.perf_counter() - start
        self.step += 1
        return float(train_step(self.model, self.optimizer, batch)), waited

    def close(self):
        self.iterator.close()
        self.checkpoints.close()


def train(training, steps, save_every, losses):
    """Train up to `steps`; the share of time spent waiting for data after the first step, which compiles."""
    columns = BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}")
    elapsed = waited = 0.0
    with Progress(*columns) as progress:
        task = progress.add_task("", total=steps, completed=training.step)
        first = training.step + 1
        while training.step < steps:
            start = time.perf_counter()
            loss, waiting = training.advance()
            losses.write(f"{training.step} {loss.hex()}\n")
            losses.flush()
            if training.step % save_every == 0:
                training.save()
            if training.step > first:
                elapsed, waited = elapsed + time.perf_counter() - start, waited + waiting
                rate = (training.step - first) * BATCH_SIZE / elapsed
                told = f"loss {loss:.3f}  {rate:,.0f} examples/s  {waited / elapsed:.1%} waiting for data"
                progress.update(task, completed=training.step, description=told)
    return waited / elapsed if elapsed else 0.0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--workers", type=int, default=2, help="processes that make batches (default: 2)")
    parser.add_argument("--loader", choices=["dataset", "dataloader"], default="dataset")
    parser.add_argument("--save-every", type=int, default=50, metavar="STEPS")
    parser.add_argument("--data", type=Path, default=Path("digits-data"), metavar="FOLDER", help="written if missing")
    parser.add_argument("--output", type=Path, default=Path("digits-run"), metavar="FOLDER")
    options = parser.parse_args()

    options.output.mkdir(parents=True, exist_ok=True)
    training = Training(options.loader, options.data, options.workers, options.output)
    print(f"resumed after step {training.step}" if training.step else "from the start")
    with open(options.output / "losses.txt", "a") as losses:
        waiting = train(training, options.steps, options.save_every, losses)
    result = {"accuracy": accuracy(training.model, options.data), "waiting": waiting}
    (options.output / "result.json").write_text(json.dumps(result))
    print(f"accuracy {result['accuracy']:.1%}")
    training.close()


if __name__ == "__main__":
    main()
