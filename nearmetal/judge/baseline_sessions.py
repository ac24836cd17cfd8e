"""The sessions that a baseline is recorded from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from pathlib import Path

from nearmetal import results
from nearmetal.errors import NearmetalError
from nearmetal.judge.against_baseline import since as sessions_since
from nearmetal.judge.baseline import Baseline, BaselineError, Key
from nearmetal.judge.campaign import Campaign
from nearmetal.judge.expected import Expectations, displayed, read_partitions
from nearmetal.results import Database, Session
from nearmetal.stats import plan
from nearmetal.util.sanitize import first_line

#: Verdicts of a session that `--add` takes.
ADDED = {"ok", "watched", "xfail", "not judged"}


def choose(
    database: Path | Database, system: str, named: list[str] | None, since: float | None = None
) -> list[Session]:
    """The sessions to record from, oldest first: the named ones, or the last ones with the same
    cases as the newest. Sessions of few repeats are more than BASELINE_SESSIONS.

    :arg since: all of those that started since this time, in seconds since 1970.
    :raises ResultsError: there is none.
    """
    database = Database.of(database)
    if named:
        loaded: dict[str, Session] = {}
        for name in named:
            session = results.load_session(database, uuid=name)
            # Two names may be of one session.
            loaded[session.uuid] = session
        return sorted(loaded.values(), key=lambda session: session.order)
    # It raises if the newest one is not readable: no older one replaces it.
    results.newest(database, system)
    keys: Set[Key] = set()
    chosen: list[Session] = []
    for session in results.sessions(database, newest_first=True):
        if session.system != system or unfit(session):
            continue
        if since is not None and session.time < since:
            continue
        keys = keys or session.by_key.keys()
        if session.by_key.keys() == keys:
            chosen.append(session)
        if (
            since is None
            and len(chosen) >= plan.BASELINE_SESSIONS
            and least_samples(chosen) >= plan.LEAST_BASELINE
        ):
            break
    if not chosen:
        # It raises, and names the known systems.
        results.load_session(database, system)
        if since is not None:
            raise BaselineError("no session since then. Fix: give an earlier --since")
    return chosen[::-1]


def to_add(
    database: Database, before: Baseline, named: list[str] | None
) -> tuple[list[Session], list[str]]:
    """The sessions that `--add` adds, oldest first, and notes on those that are left out.

    Each must be clean by the gate.

    :arg named: their ids; else those after the baseline's.
    :raises BaselineError: there is none.
    """
    if named:
        sessions = choose(database, before.system, named)
    else:
        stored = results.sessions(database)
        past = [session for session in stored if session.system == before.system]
        sessions = sessions_since(before.sessions, past)
    expectations = Expectations.of(before.system)
    chosen, notes = [], []
    for session in sessions:
        campaign = Campaign(session, before, database, expectations)
        if why := _not_added(campaign):
            notes.append(f"session {session.uuid} is left out: it {why}")
        else:
            chosen.append(session)
    if not chosen:
        raise BaselineError(
            f"{'; '.join([f'{before.path}: no session to add', *notes])}. "
            f"Fix: run `reframe -c reframe_checks -r --system {before.system}` again"
        )
    return chosen, notes


def _not_added(campaign: Campaign) -> str:
    """Why a session is not added to its campaign's baseline; '' if it is."""
    session = campaign.session
    if campaign.baseline and session.uuid in campaign.baseline.sessions:
        return "is in the baseline already"
    if why := unfit(session):
        return why
    names = {verdict.name for verdict in campaign.verdicts().verdicts} - ADDED
    if names:
        return f"is not ok: {', '.join(sorted(names))}"
    return failed(session)


def sick(system: str, sessions: list[Session]) -> list[str]:
    """Sentences on what the baseline would bless though it is beyond expectations."""
    try:
        expectations = Expectations(read_partitions(system))
    except NearmetalError as error:
        return [f"the sessions are not held against expectations: {error}"]
    texts: dict[tuple[str, str, str], list[str]] = {}
    for session in sessions:
        for deviation in expectations.deviations(session):
            case, name = deviation.case, deviation.expectation.name
            where = f"{displayed(case)} | {case.partition} | {case.environ}"
            texts.setdefault((where, deviation.variable, name), []).append(str(deviation))
    warnings = []
    for (where, _, name), deviations in texts.items():
        warnings.append(
            f"the baseline blesses what may be a sick system: {where}: {deviations[-1]}; so in "
            f"{len(deviations)} of {len(sessions)} sessions. Fix: repair it and record anew, or "
            f"give the site's own bound of {name} (`expected` in the partition's extras)"
        )
    return warnings


def least_samples(sessions: list[Session]) -> int:
    """The least number of undisturbed samples that a variable has in all sessions together."""
    counts: Counter[tuple] = Counter()
    for session in sessions:
        for case in session.cases:
            if not case.measured:
                continue
            for value in case.values:
                # A variable that was always disturbed counts with 0.
                key = value.check, value.place, value.environ, value.variable
                counts[key] += case.counts * len(value.samples)
    return min(counts.values(), default=plan.LEAST_BASELINE)


def unfit(session: Session) -> str:
    """Why a session cannot be recorded; '' if it can."""
    for case in session.cases:
        if case.node:
            return "was distributed over nodes (--distribute), but a baseline is of a partition"
        if case.varied:
            return "set variables of its checks by -P, but a baseline is of the checks as they are"
    return ""


def failed(session: Session) -> str:
    """Which case of a session failed, and why; '' if none did."""
    for case in session.failures:
        # A case that the baseline lacks fails, and belongs into the next one. A case beyond an
        # expectation does too: `nearmetal baseline record` warns of it.
        if not case.measured or not (case.unreferenced or case.unexpected):
            where = f"{case.check} on {case.partition} with {case.environ}"
            return f"failed: {where}: {first_line(case.failure or '').rstrip('.')}"
    return ""
