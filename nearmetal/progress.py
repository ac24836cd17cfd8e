"""How far a campaign is, from ReFrame's own words: `reframe ... | nearmetal progress`. Pure but for `follow`."""

import re
import sys
import time
from collections.abc import Iterable, Sequence

from nearmetal import clean
from nearmetal.results import Session

ENDED = re.compile(r"\[ +(OK|FAIL|SKIP|XFAIL|XPASS|ABORT) *\] \( *(\d+)/(\d+)\) ")
RAN = re.compile(r"Ran (\d+)/(\d+) test case\(s\).*\((\d+) failure")


def profile(session: Session) -> list[float]:
    """Share of the session's time that had gone when its first, second, ... case ended; [] where it does not say."""
    ends = sorted(case.ended - session.time for case in session.cases)
    return [end / ends[-1] for end in ends] if ends and ends[0] > 0 else []


def left(done: int, total: int, elapsed: float, shares: Sequence[float]) -> float:
    """Seconds until the last of `total` cases ends, when `done` have after `elapsed` seconds.

    :arg shares: the profile of a session of as many cases; of any other number it is not used, and cases count alike.
    """
    gone = shares[done - 1] if len(shares) == total and shares[done - 1] > 0 else done / total
    return elapsed / gone - elapsed


def span(seconds: float) -> str:
    """`0:42`, `12:05`, `3:07:00`."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def follow(lines: Iterable[str], shares: Sequence[float], out=None, clock=time.monotonic) -> int:
    """Pass ReFrame's lines on, and say after each case how many are done and how long the others will take.

    Returns 0 where all passed, 2 where one failed, nothing ran, or ReFrame never came to its end.
    """
    out, started, failed, code = out or sys.stdout, clock(), 0, 2
    for line in lines:
        plain = clean.text(line)
        out.write(plain)
        if ended := ENDED.match(plain):
            failed += ended[1] in ("FAIL", "XPASS", "ABORT")
            done, total, elapsed = int(ended[2]), int(ended[3]), clock() - started
            more = (
                f", about {span(left(done, total, elapsed, shares))} left" if done < total else ""
            )
            out.write(
                f"campaign: {done} of {total} cases after {span(elapsed)}{more}{f'; {failed} failed' if failed else ''}\n"
            )
        elif ran := RAN.search(plain):
            passed = int(ran[2]) and not int(ran[3]) and not failed and ran[1] == ran[2]
            code = 0 if passed else 2
        out.flush()
    return code
