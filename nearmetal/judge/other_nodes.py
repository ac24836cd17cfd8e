"""Is a node or the system the cause? Measures regressed cases on other nodes of their partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from nearmetal.compare.side_by_side import percent
from nearmetal.judge import rerun
from nearmetal.judge.baseline import Baseline
from nearmetal.judge.session import Drifts, drifts
from nearmetal.judge.verdict import GateReport, Verdict, Where
from nearmetal.model.remeasure import Remeasure
from nearmetal.results import Case, Database, confirmations
from nearmetal.stats import judge
from nearmetal.util.suggest import shorten

#: Repeats of a case on other nodes.
REPEATS = 5


def measure(
    report: GateReport,
    database: Database,
    reframe: list[str],
    nodes: Mapping[str, int],
    say: Callable[[str], None],
    seconds: float | None = None,
) -> None:
    """Measure regressed cases on nodes that their session did not use, where there are enough.

    :arg nodes: number of nodes by partition, of those that are known.
    :arg seconds: that are left for it; None: any number.
    """
    done = {case.where for case in _measured(report, database)}
    wanted: dict[Where, Remeasure] = {}
    for case in report.session.cases:
        used = rerun.nodes_of(case)
        spare = nodes.get(case.partition, 0) - len(used)
        is_regressed = any(
            one.where == case.where and one.name == "regressed" for one in report.verdicts
        )
        pinned = case.node or case.foreign  # a check of others takes no list of nodes
        if is_regressed and used and not pinned and spare >= len(used):
            wanted[case.where] = Remeasure(REPEATS, (), used)
    wanted = {where: one for where, one in wanted.items() if where not in done}
    if not wanted:
        return
    if seconds is not None and seconds <= 0:
        say("confirm: not measured on other nodes: no time is left (--within)")
        return
    say(f"confirm: on other nodes: {shorten([' | '.join(where) for where in wanted])}")
    try:
        rerun.measure(report.session, wanted, database, reframe, seconds, other_nodes=True)
    except rerun.ConfirmError as error:
        say(f"confirm: not measured on other nodes: {error}")


def notes(report: GateReport, baseline: Baseline, database: Database) -> list[str]:
    """What other nodes showed of each regressed variable."""
    found: dict[tuple[str, ...], list[str]] = {}
    for one, seen, said in _seen(report, baseline, database):
        found.setdefault((" | ".join(one.where), said), []).append(f"{one.variable} {seen.change}")
    return [f"{where}: {said}: {shorten(names)}" for (where, said), names in found.items()]


def signs(report: GateReport, baseline: Baseline, database: Database) -> dict[str, dict[str, str]]:
    """By partition, what other nodes showed of all of its regressed variables, in words.

    The key is `all nodes` or `these nodes alone`; a partition is left out where they disagree.
    """
    found: dict[str, dict[str, str]] = {}
    for one, seen, said in _seen(report, baseline, database):
        sign = {"system": "all nodes", "node": "these nodes alone"}.get(seen.word)
        if sign:
            found.setdefault(one.partition, {}).setdefault(sign, said)
    return {partition: words for partition, words in found.items() if len(words) == 1}


def _seen(
    report: GateReport, baseline: Baseline, database: Database
) -> Iterable[tuple[Verdict, _Seen, str]]:
    """Each regressed variable that was measured on other nodes, with what these showed.

    One that regressed and is beyond an expectation is called `deviates`.
    """
    cases = {case.where: case for case in report.session.cases}
    measured = list(_measured(report, database))
    drifting = drifts(baseline) if measured else {}
    for again in measured:
        for one in report.verdicts:
            if one.where != again.where or one.name not in ("regressed", "deviates"):
                continue
            seen = _judged(one, again, baseline, drifting)
            if seen:
                used, other = rerun.nodes_of(cases[one.where]), rerun.nodes_of(again)
                yield one, seen, seen.said(used, other)


def _measured(report: GateReport, database: Database) -> Iterable[Case]:
    return [
        case
        for again in confirmations(database, report.session, other_nodes=True)
        for case in again.cases
        if case.counts
    ]


@dataclass(frozen=True)
class _Seen:
    """What other nodes showed of a regressed variable."""

    word: str  #: system, node or unknown
    change: str

    def said(self, used: tuple[str, ...], other: tuple[str, ...]) -> str:
        """The finding in words."""
        here, there = ", ".join(used), ", ".join(other)
        return {
            "system": f"{there} show it too, so {here} are not its cause",
            "node": f"{there} do not show it, so look at {here}",
            "unknown": f"{REPEATS} repeats on {there} do not decide whether {here} are its cause",
        }[self.word]


def _judged(one: Verdict, again: Case, baseline: Baseline, drifting: Drifts) -> _Seen | None:
    """None if the baseline or the case lacks the variable, or its samples cannot be judged."""
    value = next((value for value in again.values if value.variable == one.variable), None)
    entry = baseline.entries.get(one.key)
    if value is None or entry is None or one.variable not in entry.samples or not one.change:
        return None
    try:
        decision = judge.judge(
            entry.by_day(one.variable),
            value.samples,
            bool(entry.lower_is_better(one.variable)),
            drift=drifting[one.key, one.variable],
        )
    except judge.JudgeError:
        return None
    # Half of the change is in the middle of "none" and "all of it".
    half = one.change / 2
    low, high = decision.interval
    if decision.name == "regressed":
        word = "system"
    elif (high < half) if half > 0 else (low > half):
        word = "node"
    else:
        word = "unknown"
    return _Seen(word, percent(decision.change))
