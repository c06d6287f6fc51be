"""Every pipeline of the table, in worker processes: the elements and states are those of the same parts run here."""

from __future__ import annotations

import pytest

from grain import MultiprocessingOptions
from grain.experimental import multithread_prefetch
from support.comparison import plain, recorded
from support.pipelines import NAMES, iter_pipeline

ROWS = [name for name in NAMES if "mp_prefetch" not in name]


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("name", ROWS)
def test_processes_give_what_the_same_parts_give_here(name, count):
    dataset = iter_pipeline(name, "inline")
    remote = dataset.mp_prefetch(MultiprocessingOptions(num_workers=count))
    try:
        expected = recorded(multithread_prefetch(dataset, count, 0))
    except ValueError:  # it cannot be divided
        with pytest.raises(ValueError, match="Cannot slice"):
            list(remote)
        return
    assert recorded(remote) == expected
    if count == 1:
        assert expected[0] == recorded(dataset)[0]
    elements, states = expected
    iterator = iter(remote)
    for position, state in enumerate(states):
        iterator.set_state(state)
        assert [plain(element) for element in iterator] == elements[position:], f"resumed after {position} elements"
