"""`grain.experimental`, for programs that import it from here."""

import sys

from grain.experimental import *  # noqa: F403
from grain.experimental import FOUND_LATER
from grain.experimental import __all__ as __all__
from grain.public_names import complete

complete(sys.modules[__name__], FOUND_LATER)
