"""`nearmetal progress`."""

import sys

from nearmetal import progress, results


def run(arguments) -> int:
    # A job may print bytes that are not text.
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(errors="replace")
    try:
        profile = progress.profile(results.load_session(arguments.database, arguments.system))
    except results.ResultsError:
        profile = []  # the first campaign
    return progress.follow(sys.stdin, profile)
