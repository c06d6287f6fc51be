"""`import grain.python as grain`: the whole API under the names that older programs use."""

from grain import *  # noqa: F403
from grain import experimental as experimental
