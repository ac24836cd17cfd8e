"""The sweeps of a session with what they show, and a second sweep (`nearmetal fleet --confirm`)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from nearmetal import results
from nearmetal.fleet import fabric, findings, node_history
from nearmetal.fleet.findings import AnySweep
from nearmetal.fleet.render import Swept
from nearmetal.fleet.sweep import SweepError
from nearmetal.judge import rerun
from nearmetal.judge.verdict import Where
from nearmetal.model.remeasure import Remeasure
from nearmetal.results import Case, Database, Session

#: Case and sweep, by the case's identity.
Sweeps = dict[Where, tuple[Case, AnySweep]]
#: Most nodes of a sweep whose history is shown.
LISTED = 10
#: Most sessions in which earlier sweeps are looked for.
MOST_SESSIONS = 1000
#: Receives a sentence on what is left out or begins.
Warn = Callable[[str], None]


def sweeps_of(session: Session) -> Sweeps:
    """The cases of a session that hold a sweep. Raises SweepError."""
    sweeps: Sweeps = {}
    for case in session.cases:
        sweep = findings.read(case)
        if sweep:
            sweeps[case.where] = case, sweep
    return sweeps


def suspected(sweeps: Sweeps) -> dict[Where, Remeasure]:
    """The sweeps that show something, with their repeats for a second sweep."""
    error = findings.error_of(sweep for _, sweep in sweeps.values())
    wanted = {}
    for where, (_, sweep) in sweeps.items():
        if findings.of(sweep, error):
            wanted[where] = Remeasure(sweep.repeats)
    return wanted


def sweep_again(
    session: Session,
    wanted: Mapping[Where, Remeasure],
    database: Database,
    reframe: list[str],
    within: float | None,
) -> None:
    """Run sweeps again. Raises ConfirmError if one is not stored.

    :arg within: seconds; None: any number.
    """
    found = rerun.measure(session, wanted, database, reframe, within)
    newest = results.confirmations(database, session)[-1]
    for where in wanted:
        stored = newest.case(where)
        if not stored or not stored.of_fleet:
            raise rerun.ConfirmError(
                f"{' | '.join(where)} has no second sweep, so nothing is confirmed: "
                f"{found.get(where, 'ReFrame stored no result of it')}"
            )


def swept(database: Database, session: Session, sweeps: Sweeps, warn: Warn) -> list[Swept]:
    """The sweeps of a session, with what they show and since when. Raises SweepError.

    After a second sweep it is what both show.
    """
    second: Sweeps = {}
    for confirmation in results.confirmations(database, session):
        # Of a case that was swept several times, the newest.
        second |= sweeps_of(confirmation)
    error = findings.error_of(sweep for _, sweep in sweeps.values())
    found = []
    for where, (case, first) in sweeps.items():
        seen = findings.of(first, error)
        after = findings.Compared(seen, [])
        if where in second:
            after = findings.compared(first, second[where][1], error)
        earlier = earlier_sweeps(database, session, [where], warn)
        past = ((started, sweep) for _, started, sweep in earlier)
        dated = findings.dated(after.found, session.started, past, error)
        gone = findings.vanished(seen, after)
        shown = Swept(case, first, dated, where in second, gone, after.unknown)
        found.append(replace(shown, fabric=fabric.beside(case, sweeps)))
    return found


def earlier_sweeps(
    database: Database,
    session: Session,
    wanted: Collection[Where],
    warn: Warn,
    left_out: str = "session {} is left out",
    most: int | None = None,
) -> Iterator[tuple[Where, str, AnySweep]]:
    """Case, start and sweep of each sweep before this session, the newest first.

    :arg wanted: identities of the cases. The search ends once the caller has emptied it.
    :arg warn: receives `left_out` on each session with a sweep that cannot be read.
    :arg most: sessions that are looked at; None: all.
    """
    for past in itertools.islice(results.sessions(database, newest_first=True), most):
        if not wanted:
            return
        if not past.precedes(session):
            continue
        for where in sorted(wanted):
            case = past.case(where)
            if case is None:
                continue
            try:
                sweep = findings.read(case)
            except SweepError as error:
                warn(f"{left_out.format(past.uuid)}: {error}")
                continue
            if sweep:
                yield where, past.started, sweep


def watched(swept: Swept) -> list[str]:
    """The nodes whose history is shown: those that are named, then the slowest."""
    sweep = swept.sweep
    named = list(itertools.chain.from_iterable(finding.nodes for finding in swept.found))[:LISTED]
    if sweep.measures:
        slowest = node_history.slowest(node_history.ways(sweep), LISTED)
        named += [sweep.nodes[node] for node in slowest]
    known = set(sweep.nodes)
    return [name for name in dict.fromkeys(named) if name in known]


def newest_sweeps(
    database: Database, sessions: Sequence[Session], warn: Warn
) -> dict[str, list[Swept]]:
    """The sweeps of the newest session that has any, by its id; {} if they cannot be read.

    :arg warn: receives what cannot be read.
    """
    for session in reversed(sessions):
        if any(case.of_fleet for case in session.cases):
            try:
                shown = swept(database, session, sweeps_of(session), warn)
                return {session.uuid: _with_past(database, session, shown, warn)}
            except SweepError as error:
                warn(f"the page of the fleet is left out: {error}")
                return {}
    return {}


def _with_past(database: Database, session: Session, shown: list[Swept], warn: Warn) -> list[Swept]:
    """The sweeps, with what their watched nodes added in them and in earlier ones."""
    collectors = {}
    for own in shown:
        collector = node_history.Collector(watched(own))
        collector.add(session.started, own.sweep)
        collectors[own.case.where] = collector
    wanted = {where for where, collector in collectors.items() if not collector.full}
    left_out = "the history of nodes is without session {}"
    earlier = earlier_sweeps(database, session, wanted, warn, left_out, MOST_SESSIONS)
    for where, started, sweep in earlier:
        collectors[where].add(started, sweep)
        if collectors[where].full:
            wanted.discard(where)
    return [replace(own, past=collectors[own.case.where].found) for own in shown]
