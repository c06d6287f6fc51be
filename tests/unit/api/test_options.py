"""Options for reading, workers and whole pipelines, grain.config, and warnings about filters that drop too much."""

import dataclasses
import itertools

import pytest

import grain
from grain import IterDataset, MapDataset, MultiprocessingOptions, ReadOptions
from grain.config import Config
from grain.experimental import DatasetOptions, ExecutionTrackingMode, WithOptionsIterDataset
from grain.ops import sourcing as reading


def test_read_options():
    assert repr(ReadOptions()) == "ReadOptions(num_threads=16, prefetch_buffer_size=500)"
    assert ReadOptions(1, 2) == ReadOptions(num_threads=1, prefetch_buffer_size=2) != ReadOptions(1, 3)
    options = ReadOptions()
    options.num_threads = 3  # not frozen
    assert options == ReadOptions(3, 500)
    with pytest.raises(AttributeError):
        options.num_thread = 3


@pytest.mark.parametrize("name", ["num_threads", "prefetch_buffer_size"])
def test_negative_read_options(name):
    with pytest.raises(ValueError, match=f"{name} must be non-negative, got -2"):
        ReadOptions(**{name: -2})


@pytest.mark.parametrize(("threads", "buffer", "warns"), [(4, 3, True), (4, 4, False), (4, 0, False), (0, 0, False)])
def test_buffer_smaller_than_the_number_of_threads(caplog, threads, buffer, warns):
    ReadOptions(threads, buffer)
    assert bool(caplog.records) == warns
    if warns:
        assert "prefetch_buffer_size=3" in caplog.text
        assert "num_threads=4" in caplog.text


def test_multiprocessing_options():
    options = MultiprocessingOptions()
    assert repr(options) == "MultiprocessingOptions(num_workers=0, per_worker_buffer_size=1, enable_profiling=False)"
    assert MultiprocessingOptions(2, 3, True) == MultiprocessingOptions(
        num_workers=2, per_worker_buffer_size=3, enable_profiling=True
    )
    with pytest.raises(AttributeError):
        options.num_worker = 3


def test_dataset_options():
    options = DatasetOptions()
    assert options.filter_warn_threshold_ratio == 0.9
    assert options.filter_raise_threshold_ratio is None
    assert options.execution_tracking_mode is ExecutionTrackingMode.DISABLED
    assert options.min_shm_size == 0
    assert [mode.name for mode in ExecutionTrackingMode] == ["DISABLED", "STAGE_TIMING"]
    with pytest.raises(TypeError):
        DatasetOptions(0.5)
    with pytest.raises(TypeError, match="unknown"):
        DatasetOptions(unknown=1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        options.min_shm_size = 1
    with pytest.raises(TypeError, match="unhashable"):
        hash(options)


def test_explicit_fields_count():
    assert DatasetOptions() == DatasetOptions()
    assert DatasetOptions(min_shm_size=0) != DatasetOptions()  # the default, but set
    assert DatasetOptions(min_shm_size=0) == DatasetOptions(min_shm_size=0)
    text = repr(DatasetOptions(min_shm_size=3))
    assert text.startswith(
        "DatasetOptions(filter_warn_threshold_ratio=0.9, filter_raise_threshold_ratio=None, "
        "execution_tracking_mode=<ExecutionTrackingMode.DISABLED: 1>, min_shm_size=3, _user_set_fields="
    )
    assert text.rstrip(")").endswith("{'min_shm_size'}")


MERGES = {
    "nothing set": ({}, {}, {}),
    "first wins": ({"min_shm_size": 1}, {"min_shm_size": 2}, {"min_shm_size": 1}),
    "second completes": (
        {"min_shm_size": 1},
        {"filter_warn_threshold_ratio": None},
        {"min_shm_size": 1, "filter_warn_threshold_ratio": None},
    ),
    "a default that was set wins": ({"min_shm_size": 0}, {"min_shm_size": 2}, {"min_shm_size": 0}),
    "only second": ({}, {"filter_raise_threshold_ratio": 0.5}, {"filter_raise_threshold_ratio": 0.5}),
}


@pytest.mark.parametrize(("first", "second", "merged"), MERGES.values(), ids=MERGES)
def test_merge(first, second, merged):
    assert DatasetOptions(**first).merge(DatasetOptions(**second)) == DatasetOptions(**merged)


def test_merge_with_nothing():
    options = DatasetOptions(min_shm_size=1)
    assert options.merge(None) is options


CONFIG = {
    "py_debug_mode": False,
    "py_dataset_visualization_output_dir": None,
    "py_relay_sigterm_to_main": False,
    "py_traceback_filtering": "auto",
    "tf_interleaved_shuffle": False,
    "tf_interleaved_shuffle_block_size": 10,
    "tf_interleaved_shuffle_parallel_blocks": 10,
    "tf_lookup_batch_size": 100,
    "tf_lookup_num_parallel_calls": -1,
    "tf_lookup_fast_warmup": False,
    "tf_optimized_sequential_read": False,
    "tf_prefetch_buffer_size": -1,
}


@pytest.mark.parametrize(("name", "value"), CONFIG.items())
def test_config_defaults(name, value):
    assert getattr(Config(), name) == Config().get_or_default(name) == value
    assert name in dir(Config())


def test_config_update_holds_at_once():
    config = Config()
    config.update("py_debug_mode", True)
    assert config.py_debug_mode is True
    assert config.get_or_default("py_debug_mode") is True
    assert Config().py_debug_mode is False


def test_config_of_the_process():
    assert isinstance(grain.config, Config)
    assert grain.config.py_traceback_filtering == "auto"


@pytest.mark.parametrize(
    "use",
    [
        lambda config: config.py_debug,
        lambda config: config.get_or_default("py_debug"),
        lambda config: config.update("py_debug", True),
    ],
)
def test_unknown_config_option(use):
    with pytest.raises(ValueError, match=r"Unrecognized config option: py_debug.*py_debug_mode") as raised:
        use(Config())
    assert isinstance(raised.value, AttributeError)
    assert not hasattr(Config(), "py_debug")


def test_config_is_changed_with_update_only():
    with pytest.raises(ValueError, match=r"Please use update\(\).*py_debug_mode"):
        Config().py_debug_mode = True
    with pytest.raises(ValueError, match=r"py_traceback_filtering.*'quiet_remove_frames'.*'loud'"):
        Config().update("py_traceback_filtering", "loud")
    for value in ("auto", "off", "tracebackhide", "quiet_remove_frames", "remove_frames"):
        Config().update("py_traceback_filtering", value)


@pytest.fixture(autouse=True)
def _no_warning_yet(monkeypatch):
    """Warnings are at least a minute apart: forget those of other tests."""
    monkeypatch.setattr(reading, "_last_warning", -float("inf"))


def map_filter(length, keep):
    return MapDataset.range(length).filter(keep).to_iter_dataset()


def iter_filter(length, keep):
    return MapDataset.range(length).to_iter_dataset().filter(keep)


both = pytest.mark.parametrize("filtered", [map_filter, iter_filter])


# name -> (length, which elements are kept, whether it is too few)
DROPS = {
    "90 %": (1000, lambda x: x < 100, True),
    "89.9 %": (1000, lambda x: x < 101, False),
    "all": (1000, lambda x: False, True),
    "window not full": (999, lambda x: False, False),
    "the second window": (2000, lambda x: x < 1050, True),
    "windows do not overlap": (2000, lambda x: x < 500 or x >= 1500, False),
    "nothing": (3000, lambda x: True, False),
}


@both
@pytest.mark.parametrize(("length", "keep", "is_told"), DROPS.values(), ids=DROPS)
def test_warning_about_dropped_elements(caplog, filtered, length, keep, is_told):
    assert list(filtered(length, keep)) == [x for x in range(length) if keep(x)]
    assert [record.levelname for record in caplog.records] == ["WARNING"] * is_told
    if is_told:
        assert caplog.records[0].name == "grain"
        assert " % of the last seen 1000 elements." in caplog.text
        assert "filter_warn_threshold_ratio" in caplog.text


@both
@pytest.mark.parametrize(("length", "keep", "is_told"), DROPS.values(), ids=DROPS)
def test_error_about_dropped_elements(caplog, filtered, length, keep, is_told):
    dataset = filtered(length, keep).with_options(DatasetOptions(filter_raise_threshold_ratio=0.9))
    if is_told:
        name = "FilterDataset|FilterIter" if filtered is iter_filter else "Prefetch"
        message = (
            rf"Transformation ({name}).* skipped \d+\.\d\d % of the last seen 1000 elements.*filter_raise_threshold"
        )
        with pytest.raises(ValueError, match=message):
            list(dataset)
    else:
        assert list(dataset) == [x for x in range(length) if keep(x)]
    assert not caplog.records


@both
def test_message_says_how_many(filtered):
    dataset = filtered(1000, lambda x: x < 25).with_options(DatasetOptions(filter_raise_threshold_ratio=0.5))
    with pytest.raises(ValueError, match=r"skipped 97\.50 % of the last seen 1000 elements"):
        list(dataset)


@both
@pytest.mark.parametrize("threshold", [None, 0])
def test_no_threshold(caplog, filtered, threshold):
    options = DatasetOptions(filter_warn_threshold_ratio=threshold, filter_raise_threshold_ratio=threshold)
    assert list(filtered(3000, lambda x: x == 5).with_options(options)) == [5]
    assert not caplog.records


def test_gaps_that_are_wanted_are_not_counted(caplog):
    dataset = MapDataset.range(2000).filter(lambda x: False).to_iter_dataset(allow_nones=True)
    assert list(dataset) == [None] * 2000
    assert not caplog.records


@both
def test_one_warning_a_minute(caplog, monkeypatch, filtered):
    times = itertools.chain([10_000.0, 10_059.0, 10_061.0], itertools.repeat(10_062.0))
    monkeypatch.setattr(reading.time, "monotonic", times.__next__)
    list(filtered(2000, lambda x: False))
    assert len(caplog.records) == 1
    list(filtered(2000, lambda x: False))
    assert len(caplog.records) == 2


def drop_all(length=1000):
    return MapDataset.range(length).to_iter_dataset().filter(lambda x: False)


def raising(ratio):
    return DatasetOptions(filter_raise_threshold_ratio=ratio)


QUIET = DatasetOptions(filter_warn_threshold_ratio=None)
# pipeline, whether it raises
PIPELINES = {
    "after": (drop_all().with_options(raising(0.5)), True),
    "before": (
        MapDataset.range(1000).to_iter_dataset().with_options(raising(0.5)).filter(lambda x: False),
        True,
    ),
    "far after": (drop_all().map(abs).batch(2).limit(3).with_options(raising(0.5)).map(abs), True),
    "the last wins": (drop_all().with_options(raising(0.5)).map(abs).with_options(raising(None)), False),
    "the last wins again": (drop_all().with_options(raising(None)).map(abs).with_options(raising(0.5)), True),
    "a default that is set wins": (drop_all().with_options(raising(0.5)).with_options(raising(None)), False),
    "other options": (drop_all().with_options(raising(0.5)).with_options(DatasetOptions(min_shm_size=1)), True),
    "class": (WithOptionsIterDataset(drop_all(), raising(0.5)), True),
    "mix": (IterDataset.mix([drop_all(), MapDataset.range(3)]).with_options(raising(0.5)), True),
    "one component of a mix": (IterDataset.mix([drop_all(), drop_all().with_options(raising(0.5))]), True),
    "first component wins": (
        IterDataset.mix([drop_all().with_options(raising(None)), drop_all().with_options(raising(0.5))]),
        False,
    ),
    "zip": (IterDataset.zip([drop_all(), drop_all()]).with_options(raising(0.5)), True),
    "interleave": (IterDataset.interleave([drop_all()], cycle_length=1).with_options(raising(0.5)), True),
    "in an interleave": (IterDataset.interleave([drop_all().with_options(raising(0.5))], cycle_length=1), True),
    "repeat": (drop_all(400).repeat(3).with_options(raising(0.5)), True),  # windows go on in the next epoch
}


@pytest.mark.parametrize(("dataset", "is_told"), PIPELINES.values(), ids=PIPELINES)
def test_options_hold_for_the_whole_pipeline(dataset, is_told):
    dataset = dataset.with_options(QUIET)
    if is_told:
        with pytest.raises(ValueError, match=r"skipped 100\.00 %"):
            list(dataset)
    else:
        assert list(dataset) == []


def test_iteration_goes_on_after_the_complaint():
    dataset = MapDataset.range(1005).to_iter_dataset().filter(lambda x: x >= 1000).with_options(raising(0.9))
    iterator = iter(dataset)
    with pytest.raises(ValueError, match="skipped"):
        next(iterator)
    assert iterator.get_state() == {"next_index": 1000}
    assert list(iterator) == [1000, 1001, 1002, 1003, 1004]


def test_every_window_of_a_thousand_is_looked_at():
    dataset = MapDataset.range(3500).filter(lambda x: x % 2).to_iter_dataset().with_options(raising(0.5))
    iterator, told_at, elements = iter(dataset), [], []
    while True:
        try:
            elements.append(next(iterator))
        except StopIteration:
            break
        except ValueError:
            told_at.append(iterator.get_state()["next_index"])
    assert told_at == [1000, 2000, 3000]
    assert elements == [x for x in range(1, 3500, 2) if x not in (999, 1999, 2999)]
