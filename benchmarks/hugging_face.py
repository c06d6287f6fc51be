"""Hugging Face's datasets over the same rows, asked for batches in the cheapest way it has: lists of each column."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from datasets import Dataset
from material import ROWS_BATCH, ROWS_LENGTH, SEED, rows_file


def parquet() -> Iterator[Any]:
    path = rows_file("parquet")
    dataset = Dataset.from_parquet(str(path), cache_dir=str(path.parent / "datasets"))
    order = np.random.default_rng(SEED).permutation(ROWS_LENGTH).tolist()
    while True:
        for start in range(0, ROWS_LENGTH, ROWS_BATCH):
            yield dataset[order[start : start + ROWS_BATCH]]


arrow = parquet
