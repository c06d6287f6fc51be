"""The workloads that the webdataset package can also do."""

from __future__ import annotations

from typing import Any

import webdataset
from material import webdataset_shard


def shard(file_bytes: int) -> Any:
    return webdataset.WebDataset(webdataset_shard(file_bytes), shardshuffle=False)
