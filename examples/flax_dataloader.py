"""Flax NNX fed by a DataLoader: the digits of scikit-learn, three epochs."""

import jax
import numpy as np
import optax
from flax import nnx
from sklearn.datasets import load_digits

import grain


class Digits:
    """A source is anything with a length and records by index; its `repr` is kept in checkpoints."""

    def __init__(self):
        self.images, self.labels = load_digits(return_X_y=True)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return {"image": self.images[index], "label": self.labels[index]}

    def __repr__(self):
        return "Digits()"


def normalize(digit):
    return {"image": np.float32(digit["image"] / 16), "label": np.int32(digit["label"])}


class Noise(grain.transforms.RandomMap):
    """Each record has a random generator of its own."""

    def random_map(self, digit, rng):
        return digit | {"image": digit["image"] + rng.normal(0, 0.05, 64).astype(np.float32)}


@nnx.jit
def train_step(model, optimizer, batch):
    def loss(model):
        return optax.softmax_cross_entropy_with_integer_labels(model(batch["image"]), batch["label"]).mean()

    value, gradients = nnx.value_and_grad(loss)(model)
    optimizer.update(model, gradients)
    return value


source = Digits()
loader = grain.DataLoader(
    data_source=source,
    # One shard of the records for each JAX process; with a single process that is all of them.
    sampler=grain.IndexSampler(len(source), grain.ShardByJaxProcess(), shuffle=True, num_epochs=3, seed=0),
    operations=[normalize, Noise(), grain.Batch(64, drop_remainder=True)],
    worker_count=1,
)

rngs = nnx.Rngs(0)
model = nnx.Sequential(nnx.Linear(64, 128, rngs=rngs), nnx.relu, nnx.Linear(128, 10, rngs=rngs))
optimizer = nnx.Optimizer(model, optax.adam(3e-3), wrt=nnx.Param)

for step, batch in enumerate(loader):
    loss = train_step(model, optimizer, jax.device_put(batch))
    if step % 20 == 0:
        print(f"step {step:3}  loss {loss:.3f}")

names = model(np.float32(source.images / 16)).argmax(axis=1)
print(f"accuracy {(names == source.labels).mean():.1%}")
