"""Numbers of workers and buffer sizes that fit into a given memory."""

import logging

import numpy as np
import pytest

import grain
from grain.experimental import PerformanceConfig, ZipIterDataset, pick_performance_config


def mebibytes(count=1, length=100):
    return grain.MapDataset.range(length).map(lambda x: np.zeros(count << 20, np.uint8)).to_iter_dataset()


def pick(dataset, ram_budget_mb=100, max_workers=50, max_buffer_size=None, **kwargs):
    config = pick_performance_config(
        dataset, ram_budget_mb=ram_budget_mb, max_workers=max_workers, max_buffer_size=max_buffer_size, **kwargs
    )
    return config.multiprocessing_options.num_workers, config.read_options.prefetch_buffer_size


# What Grain 0.2.18 picks.
@pytest.mark.parametrize(
    ("dataset", "options", "expected"),
    [
        (mebibytes(), {"ram_budget_mb": 20}, (20, 20)),
        (mebibytes(), {"ram_budget_mb": 1000}, (50, 1000)),
        (mebibytes(), {"ram_budget_mb": 2000}, (50, 1000)),
        (mebibytes(), {"max_workers": 2, "max_buffer_size": 30}, (2, 30)),
        (mebibytes(), {"max_workers": 0, "max_buffer_size": 0}, (0, 0)),
        (mebibytes(), {"ram_budget_mb": 0.5}, (0, 0)),
        (mebibytes().batch(2), {}, (50, 100)),
        (mebibytes().map(lambda x: {"a": [x, x], "b": (x,)}), {}, (33, 100)),
        (ZipIterDataset([mebibytes(1), mebibytes(3)]), {}, (25, 25)),
    ],
)
def test_what_fits(dataset, options, expected):
    assert pick(dataset, **options) == expected


def test_too_few_elements_to_judge_by(caplog):
    with caplog.at_level(logging.WARNING, "grain"):
        assert pick(mebibytes(length=3)) == (50, 1000)
    assert "has 3 elements, fewer than the 5" in caplog.text
    assert pick(mebibytes(length=3), samples_to_check=3) == (50, 100)


def test_one_worker_for_each_cpu_at_most():
    assert 1 <= pick(mebibytes(), ram_budget_mb=10_000, max_workers=None)[0] < 10_000


def test_threads_are_left_alone():
    config = pick_performance_config(mebibytes(), ram_budget_mb=20, max_workers=1, max_buffer_size=None)
    assert config == PerformanceConfig(grain.MultiprocessingOptions(1), grain.ReadOptions(16, 20))
    assert PerformanceConfig() == PerformanceConfig(None, None)


def test_no_budget():
    with pytest.raises(TypeError, match="ram_budget_mb"):
        pick(mebibytes(), ram_budget_mb=None)
