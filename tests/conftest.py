"""Settings for all tests."""

import signal

import pytest
from hypothesis import settings

from grain.runtime.local import threads
from grain.runtime.local.inline import InlineReader
from grain.runtime.local.pacing import Pacing
from support.pipelines import READ_OPTIONS

# The same examples every time: a test that fails only now and then tells nothing.
settings.register_profile("grain", derandomize=True, deadline=None)
settings.load_profile("grain")


def pytest_configure():
    """Let Ctrl-C interrupt where the tests were started in the background, which is to ignore it.

    Programs that tests start would inherit that; a handler they do not, and have that of every Python then.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class ForcedPacing(Pacing):
    """Lets the back end "threads" of the tests use all its threads: tiny pipelines would not do so by themselves."""

    def __init__(self, ceiling, *args):
        super().__init__(ceiling, *args)
        self.is_forced = ceiling == READ_OPTIONS["threads"].num_threads
        if self.is_forced:
            self.level = ceiling

    def took(self, *args, **kwargs):
        if not self.is_forced:
            super().took(*args, **kwargs)


@pytest.fixture(autouse=True)
def _forced_threads(monkeypatch):
    monkeypatch.setattr(threads, "Pacing", ForcedPacing)


@pytest.fixture
def inline(monkeypatch):
    """Nothing is read ahead."""
    monkeypatch.setattr("grain.streams.boundary.reader_of", InlineReader)
