"""A PyTorch training loop fed by grain: tensors without a copy, and the position saved beside the model."""

import io

import numpy as np
import torch

import grain

WEIGHTS = np.random.default_rng(0).normal(size=(8, 1)).astype(np.float32)


def example(index, rng):
    x = rng.normal(size=8).astype(np.float32)
    return {"x": x, "y": x @ WEIGHTS}


dataset = (
    grain.MapDataset.range(2_000)
    .seed(0)
    .shuffle()
    .repeat()
    .random_map(example)
    .batch(50)
    .to_iter_dataset()
    .mp_prefetch(grain.MultiprocessingOptions(num_workers=1))
    .map(lambda batch: {name: torch.from_numpy(array) for name, array in batch.items()})  # shares their memory
)


def new_training():
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1)
    return {"model": model, "optimizer": torch.optim.Adam(model.parameters(), lr=0.05), "data": iter(dataset)}


def train(training, steps):
    """The loss of each step."""
    model, optimizer = training["model"], training["optimizer"]
    losses = []
    for _ in range(steps):
        batch = next(training["data"])
        loss = torch.nn.functional.mse_loss(model(batch["x"]), batch["y"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


training = new_training()
print(f"loss {train(training, 40)[-1]:.4f} after 40 steps")

# The iterator has state_dict and load_state_dict like a model, so all is saved and restored in the same way.
checkpoint = io.BytesIO()
torch.save({name: part.state_dict() for name, part in training.items()}, checkpoint)
expected = train(training, 40)

checkpoint.seek(0)
resumed = new_training()
for name, state in torch.load(checkpoint).items():
    resumed[name].load_state_dict(state)
losses = train(resumed, 40)
print(f"loss {losses[-1]:.4f} after 80 steps, resumed exactly: {losses == expected}")
