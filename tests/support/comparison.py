"""Values as `==` compares them in full."""

from __future__ import annotations

from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """`value` as something that `==` compares in full: types, shapes and contents of arrays too."""
    if isinstance(value, np.ndarray):
        return ("array", str(value.dtype), value.shape, value.tolist())
    if isinstance(value, np.generic):
        return ("scalar", str(value.dtype), value.item())
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(plain, value))
    return value
