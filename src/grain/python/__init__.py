"""`import grain.python as grain`: the whole API under the names that older programs use."""

# ruff: noqa: F403
import sys

from grain import *
from grain import FOUND_LATER
from grain import __all__ as __all__

# These are in `grain` too, but type checkers do not see what it imports with a star.
from grain.checkpoint import *
from grain.constants import *
from grain.experimental import *
from grain.multiprocessing import *
from grain.ops.operations import *
from grain.public_names import complete
from grain.samplers import *
from grain.sharding import *
from grain.sources import *
from grain.transforms import *

complete(sys.modules[__name__], FOUND_LATER)
# So that `import grain.python.sharding` works as well as `grain.python.sharding`.
for _name in ("checkpoint", "constants", "multiprocessing", "samplers", "sharding", "sources", "transforms"):
    sys.modules[f"{__name__}.{_name}"] = sys.modules[f"grain.{_name}"]
