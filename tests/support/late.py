"""When it is too late to begin a long test.

A run that is ended by others says nothing of what it left out.
"""

import os

#: Environment variable: seconds since 1970 from which on no test marked `whole` begins.
UNTIL = "NEARMETAL_TEST_UNTIL"


def until() -> float:
    return float(os.environ.get(UNTIL, "inf"))
