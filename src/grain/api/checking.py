"""Checks that users can run on their own pipelines."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np

from grain.elements.trees import map_structure, spec_like

if TYPE_CHECKING:
    from grain.api.iter_dataset import IterDataset
    from grain.api.map_dataset import MapDataset


def assert_equal_output_after_checkpoint(dataset: MapDataset[object] | IterDataset[object]) -> None:
    """Check that `dataset`, resumed at any element on a fresh iterator, goes on with the same elements.

    >>> import grain
    >>> assert_equal_output_after_checkpoint(grain.MapDataset.range(5).shuffle(seed=1))
    """
    iterator = dataset.__iter__()
    states, elements = [copy.deepcopy(iterator.get_state())], []
    for element in iterator:
        elements.append(element)
        states.append(copy.deepcopy(iterator.get_state()))
    assert elements, "The dataset has no elements, so nothing was checked."
    for position, state in enumerate(states[:-1]):
        assert spec_like(state) == spec_like(states[0]), (
            f"The state changed its shape after {position} elements: {states[0]} became {state}."
        )
        resumed = dataset.__iter__()
        resumed.set_state(copy.deepcopy(state))
        assert resumed.get_state() == state, f"get_state() gave {resumed.get_state()} after set_state({state})."
        rest = list(resumed)
        expected = elements[position:]
        assert len(rest) == len(expected), (
            f"{len(rest)} elements instead of {len(expected)} after resuming at {position}."
        )
        for offset, (got, wanted) in enumerate(zip(rest, expected, strict=True)):
            try:
                map_structure(np.testing.assert_array_equal, got, wanted)
            except (AssertionError, ValueError) as error:
                raise AssertionError(
                    f"Element {position + offset} differs after resuming at {position}: {error}"
                ) from error
