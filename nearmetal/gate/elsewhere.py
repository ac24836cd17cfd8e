"""Is a node or the system the cause? Measures regressed cases on other nodes of their partition."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from nearmetal.again import Again
from nearmetal.choices import some
from nearmetal.compare import percent
from nearmetal.gate import rerun
from nearmetal.gate.baseline import Baseline
from nearmetal.gate.session import drifts
from nearmetal.gate.verdict import GateReport, Verdict, Where
from nearmetal.results import Case, Database, confirmations
from nearmetal.stats import judge

#: Repeats of a case on other nodes.
REPEATS = 5


def measure(
    report: GateReport,
    database: Database,
    reframe: list[str],
    nodes: Mapping[str, int],
    say: Callable[[str], None],
) -> None:
    """Measure regressed cases on nodes that their session did not use, where there are enough.

    :arg nodes: number of nodes by partition, of those that are known.
    """
    done = {case.where for case in _measured(report, database)}
    wanted: dict[Where, Again] = {}
    for case in report.session.cases:
        used = rerun.nodes_of(case)
        spare = nodes.get(case.partition, 0) - len(used)
        is_regressed = any(
            one.where == case.where and one.name == "regressed" for one in report.verdicts
        )
        if is_regressed and used and not case.node and spare >= len(used):
            wanted[case.where] = Again(REPEATS, (), used)
    wanted = {where: one for where, one in wanted.items() if where not in done}
    if not wanted:
        return
    say(f"confirm: on other nodes: {some([' | '.join(where) for where in wanted])}")
    try:
        rerun.measure(report.session, wanted, database, reframe, elsewhere=True)
    except rerun.ConfirmError as error:
        say(f"confirm: not measured on other nodes: {error}")


def notes(report: GateReport, baseline: Baseline, database: Database) -> list[str]:
    """What other nodes showed of each regressed variable."""
    cases = {case.where: case for case in report.session.cases}
    found: dict[tuple[str, ...], list[str]] = {}
    for again in _measured(report, database):
        for one in report.verdicts:
            if one.where != again.where or one.name != "regressed":
                continue
            seen = _judged(one, again, baseline)
            if seen:
                where = " | ".join(one.where)
                said = seen.said(rerun.nodes_of(cases[one.where]), rerun.nodes_of(again))
                found.setdefault((where, said), []).append(f"{one.variable} {seen.change}")
    return [f"{where}: {said}: {some(names)}" for (where, said), names in found.items()]


def _measured(report: GateReport, database: Database) -> Iterable[Case]:
    return [
        case
        for again in confirmations(database, report.session, elsewhere=True)
        for case in again.cases
        if case.measured
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


def _judged(one: Verdict, again: Case, baseline: Baseline) -> _Seen | None:
    """None if the baseline or the case lacks the variable, or its samples cannot be judged."""
    value = next((value for value in again.values if value.variable == one.variable), None)
    entry = baseline.entries.get(one.key)
    if value is None or entry is None or one.variable not in entry.samples or not one.change:
        return None
    try:
        decision = judge.judge(
            entry.by_day(one.variable),
            value.samples,
            bool(value.lower_is_better),
            drift=drifts(baseline)[one.key, one.variable],
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
