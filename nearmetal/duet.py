"""A session's duets judged: what B costs against A, by pairs of launches where their noise is shared.

A duet (reframe_checks/duet) measures A and B by turns in one allocation and stores for each variable `v` the launches of A
as `v_a` and of B as `v_b`, in the order of the pairs.
"""

import statistics
from dataclasses import dataclass
from pathlib import Path

from tabulate import tabulate

from nearmetal import choices, published
from nearmetal.compare import gist, number, percent, plain
from nearmetal.results import (
    Case,
    Database,
    ResultsError,
    Session,
    Value,
    load_session,
    newest,
    parameters,
    sessions,
)
from nearmetal.stats.judge import JudgeError
from nearmetal.stats.pairs import LEAST_SHARED, PairVerdict, judge_pairs
from nearmetal.stats.sequential import LOOKS

#: Facts that a table begins with.
SAID = {"mpi_library": "MPI", "transport": "carried by"}
RUN = "reframe -c reframe_checks/duet -r"


@dataclass(frozen=True)
class Judged:
    """The verdict on one variable of one duet."""

    case: Case
    variable: str
    unit: str
    a: float  #: median over the launches, in unit
    b: float
    measured: int  #: pairs; the verdict says how many of them it used
    verdict: PairVerdict


@dataclass(frozen=True)
class Report:
    session: Session
    judged: tuple[Judged, ...]
    missing: tuple[str, ...]  #: a sentence for all that could not be judged

    @property
    def exit_code(self) -> int:
        """0: B is nowhere worse than A; 1: somewhere it is; 2: incomplete or inconclusive."""
        words = {one.verdict.word for one in self.judged}
        if "regressed" in words:
            return 1
        return 2 if self.missing or not words or "inconclusive" in words else 0


def load(database: Path, system: str | None = None, uuid: str | None = None) -> Session:
    """The session of that id, or the newest (on that system) that holds a duet. Raises ResultsError."""
    if uuid is not None:
        named = load_session(database, system, uuid)
        if holds_a_duet(named):
            return named
        raise ResultsError(f"{database}: no duet session {named.uuid} holds; run `{RUN}` first")
    session = newest(database, system, ("campaign", "duet"), holds_a_duet)
    if session:
        return session
    kinds = ("campaign", "duet")
    stored = sessions(Database(Database.of(database).path), True, kinds)
    others = [session.system for session in stored if holds_a_duet(session)]
    if others:
        known = choices.unknown(system or "", others, "the systems with one are")
        raise ResultsError(
            f"{database}: no duet there is on system {system}: {known}; run `{RUN}` first"
        )
    raise ResultsError(f"{database}: no duet there is; run `{RUN}` first")


def holds_a_duet(session: Session) -> bool:
    return any(case.duet for case in session.cases)


def judge_session(session: Session) -> Report:
    """All variables of all duets of a session, which share one campaign's rate of error."""
    duets, judged, missing = [case for case in session.cases if case.duet], [], []
    pairs = []
    for case in duets:
        if case.failure is not None:
            missing.append(f"{label(case)}: {gist(case.failure)}")
            continue
        found = {value.variable: value for value in case.values}
        names = list(dict.fromkeys(name[:-2] for name in found if name.endswith(("_a", "_b"))))
        if not names:
            missing.append(f"{label(case)}: it measured nothing")
        pairs += [(case, name, found.get(f"{name}_a"), found.get(f"{name}_b")) for name in names]
    for case, name, a, b in pairs:
        try:
            judged.append(_judge(case, name, a, b, len(pairs)))
        except JudgeError as error:
            missing.append(f"{label(case)}: {name}: {error}")
    missing += [
        f"{' '.join(key)}: skipped, so not judged"
        for key in session.skipped
        if key[0].split()[0].endswith("_duet")
    ]
    return Report(session, tuple(judged), tuple(missing))


def _judge(case: Case, name: str, a: Value | None, b: Value | None, variables: int) -> Judged:
    """Raises JudgeError."""
    if a is None or b is None:
        raise JudgeError(f"only {'B' if a is None else 'A'} has a value")
    if a.unit != b.unit or a.lower_is_better is None:
        raise JudgeError(
            f"the units {a.unit!r} of A and {b.unit!r} of B do not say whether less is better"
        )
    verdict = judge_pairs(a.samples, b.samples, a.lower_is_better, variables)
    return Judged(
        case,
        name,
        a.unit,
        statistics.median(a.samples),
        statistics.median(b.samples),
        len(a.samples),
        verdict,
    )


def label(case: Case) -> str:
    """The duet on one line: `pingpong_duet placement=internode on native with openmpi: environs A openmpi, B mpich`."""
    facts = case.facts
    who = f": {facts['duet']} A {facts['duet.a']}, B {facts['duet.b']}" if "duet.a" in facts else ""
    return f"{plain(case.check)} on {case.place} with {case.environ}{who}"


def span(interval: tuple[float, float], text) -> str:
    return " .. ".join(map(text, interval))


def row(one: Judged) -> list[str]:
    verdict = one.verdict
    # From fewer than the first look's pairs no 95 % interval follows, nor what they share.
    interval = span(verdict.interval, percent) if verdict.pairs >= LOOKS[0] else "-"
    shared = (
        "-"
        if verdict.shared is None
        else f"{verdict.shared:.2f} ({span(verdict.shared_interval, '{:.2f}'.format)})"
    )
    # A duet takes an even number of pairs.
    word = verdict.word + (
        f" (asks for {verdict.wanted + verdict.wanted % 2} pairs)" if verdict.wanted else ""
    )
    return [
        one.variable,
        one.unit,
        number(one.a),
        number(one.b),
        percent(verdict.change),
        interval,
        f"{verdict.pairs} of {one.measured}",
        shared,
        verdict.method,
        f"{verdict.p:.1g}",
        word,
    ]


def context(one: Judged, figures: list[published.Figure]) -> list[str]:
    """Lines that tell what documents say of A and B: for a look, never judged by."""
    facts, check = one.case.facts, one.case.check.split()[0].removesuffix("_duet")
    if facts.get("duet") != "environs":
        return []
    found = published.pairs(
        figures,
        check,
        dict(parameters(one.case.check)),
        one.variable,
        facts["duet.a"],
        facts["duet.b"],
        one.case.workload,
    )
    return [
        f"  published: {one.variable} {a.text} and {b.text} {a.unit}"
        + (f", B/A {of}" if (of := published.ratio(a, b)) else "")
        + f" ({a.software} and {b.software} on {a.system} "
        f"{a.partition or a.population}; {a.document}, {a.where})"
        for a, b in found
    ]


def render(report: Report) -> str:
    """For a terminal: a table a duet, with what A and B are, and how each variable was judged."""
    session, figures = report.session, published.load()
    blocks = [f"session {session.uuid} on {session.system}, {session.started}"]
    for case in dict.fromkeys(one.case.where for one in report.judged):
        rows = [one for one in report.judged if one.case.where == case]
        facts = rows[0].case.facts
        blocks.append(
            "\n".join(
                [
                    label(rows[0].case),
                    *(f"  {what}: {facts[key]}" for key, what in SAID.items() if facts.get(key)),
                    tabulate(
                        [row(one) for one in rows],
                        [
                            "variable",
                            "unit",
                            "A",
                            "B",
                            "B against A",
                            "95 %",
                            "pairs",
                            "shared noise (95 %)",
                            "judged",
                            "p",
                            "verdict",
                        ],
                        disable_numparse=True,
                        colalign=["left"] * 2 + ["right"] * 6 + ["left", "right", "left"],
                    ),
                    *(line for one in rows for line in context(one, figures)),
                ]
            )
        )
    if any(one.verdict.method == "unpaired" for one in report.judged):
        blocks.append(
            f"unpaired: A and B share less than {LEAST_SHARED:.0%} of their noise there, so that pairs would tell "
            "less than two samples."
        )
    return "\n\n".join(blocks)


def run(session: Session) -> tuple[str, tuple[str, ...], int]:
    """What `nearmetal duet` prints of a session, what it complains of, and its exit code."""
    report = judge_session(session)
    return render(report), report.missing, report.exit_code
