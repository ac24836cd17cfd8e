"""`python -m nearmetal`."""

import sys

from nearmetal.cli import main

sys.exit(main())
