"""The gate's report on a session, by whichever rungs its system has (judge/no_baseline.py)."""

from __future__ import annotations

import itertools
import os
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from nearmetal import results
from nearmetal.commands import expect
from nearmetal.commands.common import of_each_system
from nearmetal.compare import limits
from nearmetal.errors import NearmetalError
from nearmetal.expectations.entries import ExpectationError
from nearmetal.judge import baseline, confirm, no_baseline, other_nodes, pooled
from nearmetal.judge.explain import prior_state, ranking, rules, symptoms
from nearmetal.judge.session import Fresh, day_of, judge_session
from nearmetal.judge.verdict import GateReport, Verdict
from nearmetal.model import naming
from nearmetal.results import Database, Session
from nearmetal.site.system import NotDescribed
from nearmetal.util.suggest import shorten

#: Sessions among which the one to compare with is looked for, where there is no baseline.
LOOK_BACK = 20


def baseline_of(system: str) -> baseline.Baseline | None:
    """The system's baseline; None if it has none. Raises BaselineError for one that is damaged."""
    if naming.stem(system) != system or not os.path.lexists(baseline.path_of(system)):
        return None  # a name that is none of a file has no baseline
    return baseline.load(system)


def judged(
    session: Session, known: baseline.Baseline | None, database: Database, fresh=None
) -> GateReport:
    """The report on a session, against its baseline or the session before, and expectations.

    :arg fresh: samples of its confirmations; default: those in the database.
    """
    expected = expectations_of(session.system)
    if known is not None:
        fresh = confirm.fresh_samples(session, database) if fresh is None else fresh
        return expected.held(by_baseline(session, known, database)(fresh))
    before = session_before(session, database)
    bounded: no_baseline.Bounded = {}
    try:
        bounded = expect.bounded(session, expected.partitions)
    except ExpectationError as error:
        expected = Expected(broken=str(error))
    return expected.held(no_baseline.judge_without_baseline(session, before, bounded))


def not_judged(system: str, error: Exception) -> GateReport:
    """The report on a system without a session that can be judged."""
    unknown = Verdict.incomplete(str(error) or repr(error))
    return GateReport(Session("", "", system, ()), (unknown,))


def of_each(
    arguments,
    reports: list[GateReport],
    judge: Callable[[Namespace], int],
    write: Callable[[int], None],
    failed: Callable[[int], None] = lambda code: None,
) -> int:
    """The worst exit code of a command that judges the systems of --system.

    :arg reports: receives the report on each system, also on one with an error.
    :arg judge: the command for one system. It adds its report before it prints.
    :arg write: writes the files of the reports, with the exit code: also after an error, as files
        of yesterday would say what is not known today.
    :arg failed: called with the exit code of an error that ends the command.
    """
    code = 3  # that of an interruption
    try:
        code = of_each_system(
            arguments,
            judge,
            lambda system, error: reports.append(not_judged(system, error)),
        )
    except BrokenPipeError:  # nobody reads the tables, and nothing is wrong
        raise
    except Exception as error:
        code = getattr(error, "exit_code", 3)
        if not reports:
            reports.append(not_judged((arguments.system or [""])[0], error))
        failed(code)
        raise
    finally:  # also if nobody reads the tables
        if reports:
            write(code)
    return code


def by_baseline(
    session: Session, known: baseline.Baseline, database: Database
) -> Callable[[Fresh], GateReport]:
    """Function: fresh samples -> the report against the baseline.

    What the session alone leaves undecided is judged by all sessions since the baseline.
    """
    later = since_baseline(session, known, database)
    earlier = [one for one in later if one.uuid != session.uuid]
    day = day_of(session, known)

    def judge(fresh: Fresh) -> GateReport:
        report = judge_session(session, known, fresh, day)
        return pooled.watched(report, known, earlier, fresh, day.drifts)

    return judge


def since_baseline(session: Session, known: baseline.Baseline, database: Database) -> list[Session]:
    """The system's sessions after the baseline's, up to this one, oldest first.

    Cases that were measured again have their fresh samples alone.
    """
    past = [
        one
        for one in results.sessions(database)
        if one.system == session.system and one.order <= session.order
    ]
    return confirm.with_confirmations(pooled.since(known, past), database)


@dataclass(frozen=True)
class Expected:
    """The expectations of a system's partitions, or why there are none."""

    partitions: dict[str, expect.Partition] = field(default_factory=dict)
    note: str = ""  #: no file describes the system
    broken: str = ""  #: the file, or one of the expectations, cannot be used

    def held(self, report: GateReport) -> GateReport:
        """The report with what of its session deviates; incomplete if that cannot be known."""
        found = expect.deviations(report.session, self.partitions)
        report = no_baseline.held_against(report, found, self.broken)
        notes = [self.note] if self.note else list(self._not_described(report.session))
        return replace(report, notes=(*report.notes, *notes))

    def _not_described(self, session: Session) -> Iterator[str]:
        """A note on the measured partitions and environments that the file does not describe."""
        measured = {(case.partition, case.environ) for case in session.cases if case.measured}
        missing = sorted(
            f"{partition} with {environ}"
            for partition, environ in measured
            if self.partitions
            and not (partition in self.partitions and environ in self.partitions[partition].places)
        )
        if missing:
            yield (
                f"not held against expectations: {shorten(missing)}, which the file of "
                f"{session.system} does not describe now"
            )


def expectations_of(system: str) -> Expected:
    """The expectations of a system's partitions."""
    try:
        return Expected(expect.read_partitions(system))
    except NotDescribed as error:
        return Expected(note=f"not held against expectations: {error}")
    except NearmetalError as error:
        return Expected(broken=str(error))


def explained(
    report: GateReport, known: baseline.Baseline | None, database: Database
) -> GateReport:
    """The report with the likely causes of what got worse. Raises RulesError."""
    if not any(map(symptoms.calls, report.verdicts)):
        return report
    found, session = rules.load(), report.session
    earlier = (one for one in results.sessions(database) if one.precedes(session))
    then = prior_state.before(session, known, earlier)
    shown = other_nodes.signs(report, known, database) if known is not None else {}
    seen = symptoms.observe(report, then, found, shown)
    return replace(report, causes=ranking.likely_causes(seen, found))


def explained_if_possible(
    report: GateReport, known: baseline.Baseline | None, database: Database
) -> GateReport:
    """`explained`; the report with a note if the rules cannot be read, which costs no verdict."""
    try:
        return explained(report, known, database)
    except rules.RulesError as error:
        return replace(report, notes=(*report.notes, f"not explained: {error}"))


def numbers_of(system: str) -> limits.Numbers:
    """Extras that are numbers, by partition; none if the system's file cannot be read."""
    try:
        return expect.extras_of(system)
    except NearmetalError:
        return {}


def session_before(session: Session, database: Database) -> Session | None:
    """Of the last sessions before this one, on its system: the newest with most of its cases."""
    cases = {case.where for case in session.cases if case.measured}
    earlier = (
        one for one in results.sessions(database, newest_first=True) if one.precedes(session)
    )
    found, most = None, 0
    for one in itertools.islice(earlier, LOOK_BACK):
        shared = len(cases.intersection(case.where for case in one.cases if case.counts))
        if shared > most:
            found, most = one, shared
        if most == len(cases):
            break
    return found
