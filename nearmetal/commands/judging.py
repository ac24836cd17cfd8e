"""The gate's report on a session, by whichever rungs its system has (gate/ladder.py)."""

from collections.abc import Callable
from dataclasses import replace

from nearmetal import limits, results
from nearmetal.commands import expect
from nearmetal.errors import NearmetalError
from nearmetal.gate import baseline, confirm, ladder, watch
from nearmetal.gate.session import Fresh, judge_session
from nearmetal.gate.verdict import GateReport
from nearmetal.results import Database, Session


def baseline_of(system: str) -> baseline.Baseline | None:
    """The system's baseline; None if it has none. Raises BaselineError for one that is damaged."""
    if not (baseline.directory() / f"{system}.yaml").exists():
        return None
    return baseline.load(system)


def judged(
    session: Session, known: baseline.Baseline | None, database: Database, fresh=None
) -> GateReport:
    """The report on a session, against its baseline or the session before, and expectations.

    :arg fresh: samples of its confirmations; default: those in the database.
    """
    partitions, note = partitions_of(session.system)
    if known is not None:
        fresh = confirm.fresh_samples(session, database) if fresh is None else fresh
        report = by_baseline(session, known, database)(fresh)
    else:
        before = session_before(session, database)
        report = ladder.judge_without_baseline(session, before, expect.bounded(session, partitions))
    report = held(report, partitions)
    return replace(report, notes=(*report.notes, *filter(None, [note])))


def by_baseline(
    session: Session, known: baseline.Baseline, database: Database
) -> Callable[[Fresh], GateReport]:
    """Function: fresh samples -> the report against the baseline.

    What the session alone leaves undecided is judged by all sessions since the baseline.
    """
    later = since_baseline(session, known, database)
    earlier = [one for one in later if one.uuid != session.uuid]
    return lambda fresh: watch.watched(judge_session(session, known, fresh), known, earlier, fresh)


def since_baseline(session: Session, known: baseline.Baseline, database: Database) -> list[Session]:
    """The system's sessions after the baseline's, up to this one, oldest first."""
    return watch.since(
        known,
        (
            one
            for one in results.sessions(database)
            if one.system == session.system and one.order <= session.order
        ),
    )


def partitions_of(system: str) -> tuple[dict[str, expect.Partition], str]:
    """The partitions of a system's file; none, and a note, if it cannot be read."""
    try:
        return expect.read_partitions(system), ""
    except NearmetalError as error:
        return {}, f"not held against expectations: {error}"


def numbers_of(system: str) -> limits.Numbers:
    """Extras that are numbers, by partition; none if the system's file cannot be read."""
    partitions, _ = partitions_of(system)
    return {name: one.names.numbers for name, one in partitions.items()}


def held(report: GateReport, partitions: dict[str, expect.Partition]) -> GateReport:
    """The report with what of its session deviates from expectations."""
    return ladder.held_against(report, expect.deviations(report.session, partitions))


def session_before(session: Session, database: Database) -> Session | None:
    """The newest session before this one, of its system, that shares a case with it."""
    cases = {case.where for case in session.cases if case.measured}
    for one in results.sessions(database, newest_first=True):
        earlier = one.system == session.system and one.order < session.order
        if earlier and any(case.where in cases and case.measured for case in one.cases):
            return one
    return None
