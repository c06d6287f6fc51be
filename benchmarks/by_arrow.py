"""Rows as one gets them from Arrow by hand: all in memory in one piece, each taken by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow.parquet
from material import ROWS_BATCH, ROWS_LENGTH, SEED, rows_file


def parquet() -> Iterator[Any]:
    table = pyarrow.parquet.read_table(rows_file("parquet")).combine_chunks()
    order = np.random.default_rng(SEED).permutation(ROWS_LENGTH).tolist()
    while True:
        for start in range(0, ROWS_LENGTH, ROWS_BATCH):
            yield [table.take([row]) for row in order[start : start + ROWS_BATCH]]


arrow = parquet
