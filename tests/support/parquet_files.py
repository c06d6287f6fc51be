"""Parquet files of a few rows."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

TEN_ROWS = {"x": list(range(10)), "name": [f"row {i}" for i in range(10)]}


def write_parquet(folder, name, columns, rows=3, **options):
    """The path of a new file with `columns`, in row groups of `rows`."""
    path = str(folder / name)
    pq.write_table(pa.table(columns), path, row_group_size=rows, **options)
    return path
