"""`python -m grain` is the command `grain`."""

import sys

from grain.command_line import main

sys.exit(main())
