"""A dataset of Hugging Face as a source: it is read by index, a batch in one call."""

import datasets
import numpy as np

import grain

# With a network: datasets.load_dataset("imdb", split="train")
reviews = datasets.Dataset.from_dict(
    {
        "text": [f"review number {i} is {'good' if i % 3 else 'bad'}" for i in range(1_000)],
        "label": [i % 3 > 0 for i in range(1_000)],
    }
)


def tokenize(review):
    """The numbers of its letters, as long for every review."""
    letters = np.frombuffer(review["text"].encode()[:32], np.uint8)
    return {"tokens": np.pad(letters, (0, 32 - len(letters))), "label": review["label"]}


dataset = grain.MapDataset.source(reviews).shuffle(seed=0).map(tokenize).batch(64, drop_remainder=True)

for batch in dataset[:3]:
    print(batch["tokens"].shape, batch["tokens"].dtype, f"{batch['label'].mean():.0%} good")
print(len(dataset), "batches")
