"""`nearmetal history`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from nearmetal import results
from nearmetal.commands.common import newest_is_missing, of_each_system, sessions_of_system
from nearmetal.judge import confirm, history
from nearmetal.judge.baseline import BaselineError
from nearmetal.judge.campaign import Campaign, baseline_of
from nearmetal.results import Database, Session


def run(arguments) -> int:
    several = len(arguments.system or ()) > 1
    return of_each_system(arguments, lambda of_one: _of_system(of_one, several))


def _of_system(arguments, several: bool) -> int:
    """Print the change points of one system; 2 if its newest session is missing.

    :arg several: whether other systems are printed too.
    """
    sessions = sessions_of_system(arguments)
    if several:
        print(f"system {sessions[-1].system}:")
    print(history.render(sessions, history.change_points(sessions)))
    lines = _vanished(sessions, arguments.database)
    if lines:
        print("", *lines, sep="\n")
    return 2 if newest_is_missing(arguments.database, sessions[-1].system) else 0


def _vanished(sessions: Sequence[Session], database: Database) -> list[str]:
    """What vanished when sessions of a system were measured again, by its present baseline."""
    confirmations = confirm.by_confirmed(database)
    confirmed = [session for session in sessions if session.uuid in confirmations]
    if not confirmed:
        return []
    system, count = confirmed[0].system, len(confirmed)
    were = "session was"
    if count > 1:
        were = "sessions were"
    unknown = f"{count} {were} measured again. Which changes vanished is unknown: "
    try:
        baseline = baseline_of(system)
    except BaselineError as error:
        return [f"{unknown}{error}"]
    if baseline is None:
        return [f"{unknown}{system} has no baseline"]
    lines, nodes = [], Counter[str]()
    for session in confirmed:
        campaign = Campaign(session, baseline, database)
        where = f"session {session.uuid[:8]} of {results.date(session.started)}"
        seen: set[str] = set()
        for gone in campaign.vanished(confirmations[session.uuid]):
            seen.update(gone.nodes)
            lines.append(f"vanished: {where}: {gone}")
        nodes.update(seen)
    if nodes:
        lines.append(f"what vanished was seen on these nodes: {_counted(nodes)}")
    return lines


def _counted(nodes: Counter[str]) -> str:
    """`n3 (2 sessions), n1 (1 session)`, most first."""
    texts = []
    for name, count in sorted(nodes.items(), key=lambda item: (-item[1], item[0])):
        texts.append(f"{name} ({count} session{'s' * (count != 1)})")
    return ", ".join(texts)
