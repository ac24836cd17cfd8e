"""Judges undecided variables by the sessions since the baseline together (stats/pooled.py).

A variable that this session alone cannot decide is `watched`, if the sessions together show no
change. It is `regressed` or `improved` if they show one, and stays `inconclusive` if they make it
suspicious.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from nearmetal.judge import native_ratio
from nearmetal.judge.baseline import Baseline, time_of
from nearmetal.judge.by_baseline import Fresh, Terms
from nearmetal.judge.verdict import RECORDED, GateReport, Verdict, Where, worst_first
from nearmetal.results import Case, Session
from nearmetal.stats import plan, pooled
from nearmetal.stats.judge import JudgeError

#: Cases of a session by their identity.
Cases = Mapping[Where, Case]
#: Start of a session, and a variable's samples in it.
Dated = tuple[str, list[float]]


def since(baseline: Baseline, past: Iterable[Session]) -> list[Session]:
    """The sessions after the baseline's last one, oldest first.

    :arg past: the system's sessions up to the judged one, oldest first.
    """
    known, recorded = list(past), baseline.sessions
    for at in reversed(range(len(known))):
        if known[at].uuid in recorded:
            return known[at + 1 :]
    # The baseline is of another database.
    times = [time for time in map(time_of, recorded.values()) if time is not None]
    before = max(times, default=-math.inf)
    return [session for session in known if session.time > before]


def judge_pooled(
    report: GateReport, terms: Terms, earlier: Sequence[Session], fresh: Fresh
) -> GateReport:
    """The report, with its undecided variables judged by the sessions since the baseline.

    :arg earlier: sessions between the baseline and the judged one, oldest first.
    :arg fresh: samples of the judged session's confirmations.
    """
    if not any(map(_is_undecided, report.verdicts)):
        return report
    # Older sessions than the longest window say nothing of today.
    past = [native_ratio.with_ratios(session) for session in earlier[1 - max(pooled.WINDOWS) :]]
    sessions: list[tuple[str, Cases]] = []
    for session in (*past, report.session):
        day = datetime.fromtimestamp(session.time, UTC)
        cases = {case.where: case for case in session.cases if case.counts and not case.varied}
        sessions.append((f"{day:%Y-%m-%d}", cases))
    verdicts = []
    for verdict in report.verdicts:
        if _is_undecided(verdict):
            verdict = _judged(verdict, terms, _samples(verdict, sessions, fresh))
        verdicts.append(verdict)
    return replace(report, verdicts=worst_first(verdicts)).noting(_summary(verdicts))


def _is_undecided(verdict: Verdict) -> bool:
    return verdict.name == "inconclusive" and verdict.reference in RECORDED


def _samples(verdict: Verdict, sessions: list[tuple[str, Cases]], fresh: Fresh) -> list[Dated]:
    """Start and samples of each session that has the variable, oldest first."""
    found: list[Dated] = []
    for start, cases in sessions:
        case = cases.get(verdict.where)
        for value in case.values if case else ():
            if value.variable != verdict.variable or value.unit != verdict.unit:
                continue
            # An earlier session with a value that is not positive says nothing of later ones.
            is_last = cases is sessions[-1][1]
            if value.samples and (is_last or min(value.samples) > 0):
                found.append((start, list(value.samples)))
    again = fresh.get((*verdict.where, verdict.variable), [])
    if found:
        start, samples = found[-1]
        # The session's own samples were selected for a large change.
        found[-1] = start, [*([] if verdict.set_aside else samples), *again]
    return found


def _judged(verdict: Verdict, terms: Terms, samples: list[Dated]) -> Verdict:
    """The verdict by all of these samples, if they decide more than the session's own do."""
    entry = terms.baseline.entries[verdict.key]
    recorded, better = entry.by_day(verdict.variable), entry.lower_is_better(verdict.variable)
    # Neither direction would be a regression.
    if better is None:
        return verdict
    dates, values = [date for date, _ in samples], [of_one for _, of_one in samples]
    variables = terms.variables(verdict.check, verdict.variable)
    drift = terms.day.drifts[verdict.key, verdict.variable]
    try:
        decision = pooled.judge_pooled(recorded, values, better, variables, drift, dates)
    except JudgeError:
        return verdict
    if decision.name == "watched" and decision.finds is None:
        # No change of a sensible size would be seen.
        return verdict
    count = "this session"
    if decision.sessions > 1:
        count = f"{decision.sessions} sessions since {samples[-decision.sessions][0]}"
    found = {"watched": "no change ", "inconclusive": "suspicious "}.get(decision.name, "")
    pool = list(itertools.chain(*values[-decision.sessions :]))
    return replace(
        verdict,
        name=decision.name,
        value=statistics.median(pool),
        pooled=len(pool),
        change=decision.change,
        interval=decision.interval,
        p=decision.p,
        finds=decision.finds,
        reason=f"{found}over {count}",
    )


def _summary(verdicts: list[Verdict]) -> str:
    """A note on what would have been seen of the watched variables; '' without any."""
    finds = sorted(one.finds for one in verdicts if one.name == "watched" and one.finds)
    if not finds:
        return ""
    count = "1 variable" if len(finds) == 1 else f"{len(finds)} variables"
    changes = dict.fromkeys(f"{100 * one:.0f}" for one in (finds[0], finds[-1]))
    return (
        f"watched: {count} that this session alone does not decide. Changes of "
        f"{' to '.join(changes)} % (--all prints each under `finds`) would "
        f"have been seen with {100 * plan.POWER:.0f} % probability. An unchanged session raises "
        f"an alarm here with at most {100 * pooled.POOLED_ERROR:.0f} %"
    )
