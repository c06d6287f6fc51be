"""`grain.experimental`, for programs that import it from here."""

from grain.experimental import *  # noqa: F403
