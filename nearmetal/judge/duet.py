"""Judge a session's duets: what B costs against A, from pairs of repeats where noise is shared.

A duet (reframe_checks/duet) measures A and B interleaved in one allocation. For each variable `v`
it stores the samples of A as `v_a` and of B as `v_b`, in the order of the pairs.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tabulate import tabulate

from nearmetal.compare import published
from nearmetal.model import naming
from nearmetal.results import (
    Case,
    Database,
    ResultsError,
    Session,
    load_session,
    newest,
)
from nearmetal.results.find import stored
from nearmetal.stats.judge import JudgeError
from nearmetal.stats.pairs import LEAST_SHARED, PairDecision, judge_pairs
from nearmetal.stats.plan import PAIRS
from nearmetal.util import suggest
from nearmetal.util.sanitize import first_line
from nearmetal.util.text import number, percent

#: Facts that a table begins with.
FACTS = {"mpi_library": "MPI", "compiler": "compiler", "transport": "carried by"}
HEADERS = (
    *("variable", "unit", "A", "B", "B against A", "95 %", "pairs"),
    *("shared noise (95 %)", "judged", "p", "verdict"),
)
RUN = "reframe -c reframe_checks/duet -r"
#: Why sessions of checks of others have no duet, and what judges them.
OF_OTHERS = (
    "no duet: checks of others run A and B in jobs of their own, not interleaved in one job. "
    "Fix: `nearmetal compare` sets two partitions or two sessions side by side, and `nearmetal "
    f"gate` judges a session against earlier ones. `{RUN}` measures duets of the suite's own checks"
)


@dataclass(frozen=True)
class DuetVerdict:
    """The verdict on one variable of one duet."""

    case: Case
    variable: str
    unit: str
    #: median of the samples, in unit
    a: float
    b: float
    #: pairs; the decision used some of them
    measured: int
    decision: PairDecision


@dataclass(frozen=True)
class DuetReport:
    session: Session
    verdicts: tuple[DuetVerdict, ...]
    #: a sentence on each variable and case that was not judged
    missing: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """0: B is nowhere worse than A; 1: somewhere it is; 2: incomplete or inconclusive."""
        names = {verdict.decision.name for verdict in self.verdicts}
        if "regressed" in names:
            return 1
        if self.missing or not names or "inconclusive" in names:
            return 2
        return 0


def load(database: Path | Database, system: str | None = None, uuid: str | None = None) -> Session:
    """The session with that id, or the newest with a duet (on that system). Raises ResultsError."""
    database = Database.of(database)
    if uuid is not None:
        named = load_session(database, system, uuid)
        if holds_a_duet(named):
            return named
        if _of_others([named]):
            raise ResultsError(f"{database}: session {named.uuid}: {OF_OTHERS}")
        raise ResultsError(f"{database}: session {named.uuid} holds no duet; run `{RUN}` first")
    session = newest(database, system, ("campaign", "duet"), holds_a_duet)
    if session:
        return session
    systems, of_system = [], []
    for session in stored(database, ("campaign", "duet")):
        if system in (None, session.system):
            of_system.append(session)
        if holds_a_duet(session):
            systems.append(session.system)
    if _of_others(of_system):
        raise ResultsError(f"{database}: {OF_OTHERS}")
    if systems:
        known = suggest.unknown(system, systems, "the systems with one are")
        raise ResultsError(f"{database}: no duet on system {system}: {known}; run `{RUN}` first")
    raise ResultsError(f"{database}: no duet; run `{RUN}` first")


def holds_a_duet(session: Session) -> bool:
    return any(case.duet for case in session.cases)


def _of_others(sessions: Sequence[Session]) -> bool:
    """Whether checks of others stored all of these sessions; False without a session."""
    cases = list(itertools.chain.from_iterable(session.cases for session in sessions))
    return bool(cases) and all(case.foreign for case in cases)


def judge_session(session: Session) -> DuetReport:
    """Judge all variables of all duets of a session; they share one campaign's error rate."""
    verdicts, missing = [], []
    pairs: list[tuple[Case, str]] = []
    for case in session.cases:
        if not case.duet:
            continue
        if case.failure is not None:
            missing.append(f"{label(case)}: {first_line(case.failure)}")
            continue
        names = []
        for value in case.values:
            name, side = value.variable[:-2], value.variable[-2:]
            if side in ("_a", "_b") and name not in names:
                names.append(name)
                pairs.append((case, name))
        if not names:
            missing.append(f"{label(case)}: it measured nothing")
    for case, name in pairs:
        try:
            verdicts.append(_judge(case, name, len(pairs)))
        except JudgeError as error:
            missing.append(f"{label(case)}: {name}: {error}")
    for key in session.skipped:
        if key[0].split()[0].endswith("_duet"):
            reason = session.reasons.get(key, "no reason")
            missing.append(f"{' '.join(key)}: skipped, so not judged: {reason}")
    return DuetReport(session, tuple(verdicts), tuple(missing))


def _judge(case: Case, name: str, variables: int) -> DuetVerdict:
    """The verdict on a variable, by its values `NAME_a` and `NAME_b`. Raises JudgeError."""
    a, b = case.value(f"{name}_a"), case.value(f"{name}_b")
    if a is None:
        raise JudgeError("only B has a value")
    if b is None:
        raise JudgeError("only A has a value")
    if a.unit != b.unit or a.lower_is_better is None:
        raise JudgeError(
            f"the units {a.unit!r} of A and {b.unit!r} of B do not say whether less is better"
        )
    decision = judge_pairs(a.samples, b.samples, a.lower_is_better, variables)
    return DuetVerdict(
        case,
        name,
        a.unit,
        statistics.median(a.samples),
        statistics.median(b.samples),
        len(a.samples),
        decision,
    )


def label(case: Case) -> str:
    """The duet on one line: `pingpong_duet on native with openmpi: environs A openmpi, B mpich`."""
    facts, text = case.facts, f"{naming.plain(case.check)} on {case.place} with {case.environ}"
    if "duet.a" in facts:
        text += f": {facts['duet']} A {facts['duet.a']}, B {facts['duet.b']}"
    return text


def span(interval: tuple[float, float], text) -> str:
    return " .. ".join(map(text, interval))


def row(verdict: DuetVerdict) -> list[str]:
    decision = verdict.decision
    # Fewer pairs than the first analysis needs give no 95 % interval and no shared part.
    interval = shared = "-"
    if decision.pairs >= PAIRS[0]:
        interval = span(decision.interval, percent)
    if decision.shared is not None:
        shared = f"{decision.shared:.2f} ({span(decision.shared_interval, '{:.2f}'.format)})"
    name = decision.name
    if decision.wanted:  # a duet takes an even number of pairs
        name += f" (asks for {decision.wanted + decision.wanted % 2} pairs)"
    return [
        verdict.variable,
        verdict.unit,
        number(verdict.a),
        number(verdict.b),
        percent(decision.change),
        interval,
        f"{decision.pairs} of {verdict.measured}",
        shared,
        decision.method,
        f"{decision.p:.1g}",
        name,
    ]


def context(verdict: DuetVerdict, figures: list[published.Figure]) -> list[str]:
    """Lines with published figures of A and B: context that no verdict depends on."""
    facts, check = verdict.case.facts, naming.base_name(verdict.case.check).removesuffix("_duet")
    if facts.get("duet") != "environs":
        return []
    pairs = published.pairs(
        figures,
        check,
        dict(naming.parameters(verdict.case.check)),
        verdict.variable,
        facts["duet.a"],
        facts["duet.b"],
        verdict.case.workload,
    )
    return [_published(verdict.variable, a, b) for a, b in pairs]


def _published(variable: str, a: published.Figure, b: published.Figure) -> str:
    text = f"  published: {variable} {a.text} and {b.text} {a.unit}"
    if ratio := published.ratio(a, b):
        text += f", B/A {ratio}"
    place = f"{a.system} {a.partition or a.population}"
    return f"{text} ({a.software} and {b.software} on {place}; {a.document}, {a.where})"


def of_compilers(case: Case, figures: list[published.Figure]) -> list[str]:
    """Lines with published differences between compilers, if A and B differ in the compiler.

    None if they differ in the MPI library too.
    """
    facts, check = case.facts, naming.base_name(case.check).removesuffix("_duet")
    differ = [facts.get(name, "").startswith("A: ") for name in ("compiler", "mpi_library")]
    if differ != [True, False]:
        return []
    lines = []
    for figure in figures:
        if (figure.check, figure.variable) == (check, published.COMPILERS):
            source = f"{figure.software}; {figure.document}, {figure.where}"
            lines.append(f"  published: {figure.text} % between two compilers ({source})")
    return lines


def sizes(session: Session) -> str:
    """Tables of A and B by message size, one for each curve of each duet. No verdict depends on
    them. Raises ResultsError if no duet has a curve."""
    tables = []
    for case in session.cases:
        if not case.duet or case.failure is not None:
            continue
        for name, curve in case.curves.items():
            plain = name.removesuffix("_a")
            if plain != name and f"{plain}_b" in case.curves:
                table = _sizes(curve, case.curves[f"{plain}_b"])
                tables.append(f"{label(case)}: {plain}\n{table}")
    if not tables:
        raise ResultsError(
            f"session {session.uuid}: no duet has values by message size; pingpong_duet and "
            f"collectives_duet have: run `{RUN} -n pingpong_duet`"
        )
    return "\n\n".join(tables)


def _sizes(a: Mapping[int, Sequence[float]], b: Mapping[int, Sequence[float]]) -> str:
    rows = []
    for size in sorted(set(a) & set(b)):
        try:
            decision = judge_pairs(a[size], b[size], lower_is_better=True)
        except JudgeError as error:
            rows.append([size, "-", "-", str(error), "-"])
            continue
        interval = "-"
        if len(a[size]) >= PAIRS[0]:
            interval = span(decision.interval, percent)
        medians = number(statistics.median(a[size])), number(statistics.median(b[size]))
        rows.append([size, *medians, percent(decision.change), interval])
    return tabulate(
        rows,
        ["bytes", "A", "B", "B against A", "95 %"],
        disable_numparse=True,
        colalign=["right"] * 5,
    )


def render(report: DuetReport, figures: list[published.Figure]) -> str:
    """For a terminal: a table a duet, with its A and B, the verdicts, and published figures."""
    session = report.session
    blocks = [f"session {session.uuid} on {session.system}, {session.started}"]
    by_case: dict[tuple, list[DuetVerdict]] = {}
    for verdict in report.verdicts:
        by_case.setdefault(verdict.case.where, []).append(verdict)
    alignment = ["left"] * 2 + ["right"] * 6 + ["left", "right", "left"]
    for verdicts in by_case.values():
        case = verdicts[0].case
        lines = [label(case)]
        for key, what in FACTS.items():
            if case.facts.get(key):
                lines.append(f"  {what}: {case.facts[key]}")
        rows = list(map(row, verdicts))
        lines.append(tabulate(rows, HEADERS, disable_numparse=True, colalign=alignment))
        for verdict in verdicts:
            lines += context(verdict, figures)
        lines += of_compilers(case, figures)
        blocks.append("\n".join(lines))
    if any(verdict.decision.method == "unpaired" for verdict in report.verdicts):
        blocks.append(
            f"unpaired: A and B share less than {LEAST_SHARED:.0%} of their noise there, so that "
            "two independent samples are more precise than pairs."
        )
    return "\n\n".join(blocks)
