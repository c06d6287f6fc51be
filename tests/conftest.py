"""Settings for all tests."""

from hypothesis import settings

# The same examples every time: a test that fails only now and then tells nothing.
settings.register_profile("grain", derandomize=True, deadline=None)
settings.load_profile("grain")
