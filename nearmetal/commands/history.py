"""`nearmetal history`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from nearmetal import results
from nearmetal.commands import judging
from nearmetal.commands.common import newest_is_missing, of_each_system, sessions_of_system
from nearmetal.judge import confirm, history
from nearmetal.judge.baseline import BaselineError
from nearmetal.results import Database, Session


def run(arguments) -> int:
    several = len(arguments.system or ()) > 1
    return of_each_system(arguments, lambda one: _of_system(one, several))


def _of_system(arguments, several: bool) -> int:
    """Print the change points of one system; 2 if its newest session is missing.

    :arg several: whether other systems are printed too.
    """
    sessions = sessions_of_system(arguments)
    if several:
        print(f"system {sessions[-1].system}:")
    print(history.render(sessions, history.change_points(sessions)))
    lines = vanished(sessions, arguments.database)
    if lines:
        print("", *lines, sep="\n")
    return 2 if newest_is_missing(arguments.database, sessions[-1].system) else 0


def vanished(sessions: Sequence[Session], database: Database) -> list[str]:
    """What vanished when sessions of a system were measured again, by its present baseline."""
    confirming: dict[str, list[Session]] = {}
    for one in results.sessions(database, kinds=("confirmation",)):
        confirming.setdefault(one.confirms, []).append(one)
    again = [(one, confirming[one.uuid]) for one in sessions if one.uuid in confirming]
    if not again:
        return []
    system, count = again[0][0].system, len(again)
    unknown = (
        f"{count} session{'s were' if count > 1 else ' was'} measured again. Which changes "
        "vanished is unknown: "
    )
    try:
        known = judging.baseline_of(system)
    except BaselineError as error:
        return [f"{unknown}{error}"]
    if known is None:
        return [f"{unknown}{system} has no baseline"]
    lines, nodes = [], Counter[str]()
    for session, later in again:
        judge = judging.by_baseline(session, known, database)
        found = confirm.vanished(session, later, judge)
        nodes.update({node for one in found for node in one.nodes})
        where = f"session {session.uuid[:8]} of {results.date(session.started)}"
        lines += [f"vanished: {where}: {one.said}" for one in found]
    if nodes:
        lines.append(f"what vanished was seen on these nodes: {_counted(nodes)}")
    return lines


def _counted(nodes: Counter[str]) -> str:
    """`n3 (2 sessions), n1 (1 session)`, most first."""
    order = sorted(nodes.items(), key=lambda one: (-one[1], one[0]))
    return ", ".join(f"{name} ({count} session{'s' * (count != 1)})" for name, count in order)
