"""`python -m smolder.cli` is the command `smolder`."""

import sys

from smolder.cli import main

sys.exit(main())
