"""Users see their own frames, unless they ask for all of them."""

import traceback
import types
from pathlib import Path

import pytest

import grain
from grain.tracebacks import UnfilteredStackTraceError, shorten_traceback

PACKAGE = Path(grain.__file__).parent


@pytest.fixture
def filtering():
    yield lambda mode: grain.config.update("py_traceback_filtering", mode)
    grain.config.update("py_traceback_filtering", "auto")


def fail(x):
    raise KeyError(x)


def pull(iterator):
    return next(iterator)


def failure():
    pipeline = grain.MapDataset.range(3).map(fail).to_iter_dataset().map(lambda x: x).batch(2)
    with pytest.raises(KeyError) as caught:
        pull(iter(pipeline))
    return caught.value


def own_frames(error):
    frames = traceback.extract_tb(error.__traceback__)
    assert frames[-1].name == "fail"
    return [frame.name for frame in frames if PACKAGE in Path(frame.filename).parents]


@pytest.mark.parametrize("mode", ["auto", "quiet_remove_frames", "remove_frames"])
def test_the_library_s_frames_are_left_out(filtering, mode):
    filtering(mode)
    error = failure()
    assert own_frames(error) == []
    assert isinstance(error.__cause__, UnfilteredStackTraceError) == (mode == "remove_frames")


def test_all_frames_are_there_on_request(filtering):
    filtering("off")
    assert len(own_frames(failure())) > 3


def test_frames_are_marked_for_pytest_and_notebooks(filtering):
    filtering("tracebackhide")
    error = failure()
    assert len(own_frames(error)) > 3


def test_the_cause_has_the_whole_traceback(filtering):
    filtering("remove_frames")
    error = failure()
    assert len(own_frames(error.__cause__)) > 3


def test_a_user_s_own_cause_and_notes_stay():
    def fail_for_a_reason(x):
        raise ValueError("outer") from LookupError("inner")

    with pytest.raises(ValueError, match="outer") as caught:
        pull(iter(grain.MapDataset.range(1).map(fail_for_a_reason)))
    assert isinstance(caught.value.__cause__, LookupError)
    assert "fail_for_a_reason" in caught.value.__notes__[0]


def test_a_frame_that_is_at_no_line():
    """As one that was interrupted between two lines."""
    error = failure()
    nowhere = types.CodeType.replace(fail.__code__, co_linetable=b"")
    with pytest.raises(KeyError) as caught:
        types.FunctionType(nowhere, globals())(error)
    assert caught.value.__traceback__.tb_next.tb_lineno is None
    caught.value.__traceback__.tb_next.tb_next = error.__traceback__
    shorten_traceback(caught.value)
    lines = [line for frame, line in traceback.walk_tb(caught.value.__traceback__) if frame.f_code.co_name == "fail"]
    assert lines == [fail.__code__.co_firstlineno, fail.__code__.co_firstlineno + 1]
