"""Values as `==` compares them in full."""

from __future__ import annotations

import copy
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


def recorded(dataset):
    """All elements, and a copy of the state before each of them and after the last."""
    iterator = iter(dataset)
    elements, states = [], [copy.deepcopy(iterator.get_state())]
    for element in iterator:
        elements.append(plain(element))
        states.append(copy.deepcopy(iterator.get_state()))
    return elements, states
