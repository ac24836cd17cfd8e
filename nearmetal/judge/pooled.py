"""Judges undecided variables by the sessions since the baseline together (stats/pooled.py).

A variable that this session alone cannot decide is `watched`, if the sessions together show no
change. It is `regressed` or `improved` if they show one, and stays `inconclusive` if they make it
suspicious.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from nearmetal.judge import native_ratio
from nearmetal.judge.baseline import Baseline, Entry, time_of
from nearmetal.judge.session import Drifts, Fresh, drifts, weight_of
from nearmetal.judge.verdict import REFERENCES, VERDICT_NAMES, GateReport, Verdict
from nearmetal.results import Case, Session
from nearmetal.stats import plan, pooled
from nearmetal.stats.judge import JudgeError

#: Rungs whose baseline has the noise of a variable.
RECORDED = REFERENCES[-2:]


def since(baseline: Baseline, past: Iterable[Session]) -> list[Session]:
    """The sessions after the baseline's last one, oldest first.

    :arg past: the system's sessions up to the judged one, oldest first.
    """
    known = list(past)
    recorded = baseline.sessions
    last = max((at for at, one in enumerate(known) if one.uuid in recorded), default=-1)
    if last >= 0:
        return known[last + 1 :]
    times = map(time_of, recorded.values())  # the baseline is of another database
    before = max((one for one in times if one is not None), default=-math.inf)
    return [one for one in known if one.time > before]


def watched(
    report: GateReport,
    baseline: Baseline,
    earlier: Sequence[Session],
    fresh: Fresh,
    drifting: Drifts | None = None,
) -> GateReport:
    """The report, with its undecided variables judged by the sessions since the baseline.

    :arg earlier: sessions between the baseline and the judged one, oldest first.
    :arg fresh: samples of the judged session's confirmations.
    :arg drifting: `drifts` of the baseline, for a caller that has them.
    """
    undecided = {one.where for one in report.verdicts if _is_undecided(one)}
    if not undecided:
        return report
    past = [native_ratio.with_ratios(session) for session in earlier[1 - max(pooled.WINDOWS) :]]
    cases = [
        {case.where: case for case in session.cases if _counts(case)}
        for session in (*past, report.session)
    ]
    starts = [f"{day(session):%Y-%m-%d}" for session in (*past, report.session)]
    drifting = drifts(baseline) if drifting is None else drifting
    weight = weight_of(report.session, baseline)
    verdicts = []
    for one in report.verdicts:
        if _is_undecided(one):
            entry = baseline.entries[one.key]
            samples = _samples(one, cases, starts, fresh)
            variables = max(1.0, weight / baseline.weigh(one.check, one.variable))
            drift = drifting[one.key, one.variable]
            verdicts.append(_judged(one, entry, samples, variables, drift))
        else:
            verdicts.append(one)
    verdicts.sort(key=lambda one: (VERDICT_NAMES.index(one.name), one.where))
    return replace(report, verdicts=tuple(verdicts), notes=(*report.notes, *_summary(verdicts)))


def day(session: Session) -> datetime:
    """The session's start in UTC."""
    return datetime.fromtimestamp(session.time, UTC)


def _is_undecided(one: Verdict) -> bool:
    return one.name == "inconclusive" and one.reference in RECORDED


def _counts(case: Case) -> bool:
    return case.counts and not case.varied


def _samples(
    one: Verdict, cases: list[dict], starts: list[str], fresh: Fresh
) -> list[tuple[str, list[float]]]:
    """Start and samples of each session that has the variable, oldest first.

    An earlier session with a value that is not positive says nothing of later ones.
    """
    found = [
        (start, list(value.samples))
        for start, by_place in zip(starts, cases)
        for value in (by_place[one.where].values if one.where in by_place else ())
        if value.variable == one.variable and value.unit == one.unit and value.samples
        if by_place is cases[-1] or min(value.samples) > 0
    ]
    again = fresh.get((*one.where, one.variable), ())
    if found and one.set_aside:
        found[-1] = (found[-1][0], list(again))  # the others were selected for a large change
    elif found:
        found[-1][1].extend(again)
    return found


def _judged(
    one: Verdict,
    entry: Entry,
    samples: list[tuple[str, list[float]]],
    variables: float,
    drift: float,
) -> Verdict:
    recorded, better = entry.by_day(one.variable), entry.lower_is_better(one.variable)
    if better is None:
        return one
    try:
        dates, values = [date for date, _ in samples], [of for _, of in samples]
        found = pooled.watch(recorded, values, better, variables, drift, dates)
    except JudgeError:
        return one
    if found.name == "watched" and found.finds is None:
        return one  # no change of a sensible size would be seen
    start = samples[-found.sessions][0]
    pool = [value for of in values[-found.sessions :] for value in of]
    count = "this session" if found.sessions == 1 else f"{found.sessions} sessions since {start}"
    reason = {
        "watched": f"no change over {count}",
        "inconclusive": f"suspicious over {count}",
    }.get(found.name, f"over {count}")
    return replace(
        one,
        name=found.name,
        value=statistics.median(pool),
        pooled=len(pool),
        change=found.change,
        interval=found.interval,
        p=found.p,
        finds=found.finds,
        reason=reason,
    )


def _summary(verdicts: list[Verdict]) -> list[str]:
    """A note on what would have been seen of the watched variables."""
    finds = sorted(one.finds for one in verdicts if one.name == "watched" and one.finds)
    if not finds:
        return []
    count = "1 variable" if len(finds) == 1 else f"{len(finds)} variables"
    least, most = (f"{100 * one:.0f}" for one in (finds[0], finds[-1]))
    changes = least if least == most else f"{least} to {most}"
    said = (
        f"watched: {count} that this session alone does not decide. Changes of "
        f"{changes} % (--all prints each under `finds`) would "
        f"have been seen with {100 * plan.POWER:.0f} % probability. An unchanged session raises "
        f"an alarm here with at most {100 * pooled.NIGHT_ERROR:.0f} %"
    )
    return [said]
