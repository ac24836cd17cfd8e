"""`nearmetal progress`: progress of a campaign, from ReFrame's output."""

import re
import sys
import time
from collections.abc import Iterable, Sequence

from nearmetal import results
from nearmetal.util import sanitize

ENDED = re.compile(r"\[ +(OK|FAIL|SKIP|XFAIL|XPASS|ABORT) *\] \( *(\d+)/(\d+)\) ")
RAN = re.compile(r"Ran (\d+)/(\d+) test case\(s\).*\((\d+) failure")
FAILURES = ("FAIL", "XPASS", "ABORT")


def run(arguments) -> int:
    # A job may print bytes that are not text.
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(errors="replace")
    try:
        ends = profile(results.load_session(arguments.database, arguments.system))
    except results.ResultsError:
        ends = []  # the first campaign
    return follow(sys.stdin, ends)


def profile(session: results.Session) -> list[float]:
    """Fraction of the session's time at the end of its first, second, ... case; []: unknown."""
    ends = sorted(case.ended - session.time for case in session.cases)
    if not ends or ends[0] <= 0:
        return []
    return [end / ends[-1] for end in ends]


def left(done: int, total: int, elapsed: float, profile: Sequence[float]) -> float:
    """Seconds until the last of `total` cases ends, when `done` have after `elapsed` seconds.

    :arg profile: of a session with as many cases; with another number, all cases count alike.
    """
    gone = done / total
    if len(profile) == total and profile[done - 1] > 0:
        gone = profile[done - 1]
    return elapsed / gone - elapsed


def span(seconds: float) -> str:
    """`0:42`, `12:05`, `3:07:00`."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if not hours:
        return f"{minutes}:{seconds:02}"
    return f"{hours}:{minutes:02}:{seconds:02}"


def follow(lines: Iterable[str], profile: Sequence[float], out=None, clock=time.monotonic) -> int:
    """Pass ReFrame's lines on. After each case, print how many are done and the time left.

    Returns 0 if all passed; 2 if one failed, nothing ran, or ReFrame did not end.
    """
    out, started, failed, code = out or sys.stdout, clock(), 0, 2
    for line in lines:
        plain = sanitize.text(line)
        out.write(plain)
        ended, ran = ENDED.match(plain), RAN.search(plain)
        if ended:
            failed += ended[1] in FAILURES
            out.write(_status(int(ended[2]), int(ended[3]), clock() - started, profile, failed))
        elif ran:
            code = 2
            if int(ran[2]) and not int(ran[3]) and not failed and ran[1] == ran[2]:
                code = 0
        out.flush()
    return code


def _status(done: int, total: int, elapsed: float, profile: Sequence[float], failed: int) -> str:
    """`campaign: 3 of 12 cases after 0:42, about 2:10 left; 1 failed`."""
    text = f"campaign: {done} of {total} cases after {span(elapsed)}"
    if done < total:
        text += f", about {span(left(done, total, elapsed, profile))} left"
    if failed:
        text += f"; {failed} failed"
    return f"{text}\n"
