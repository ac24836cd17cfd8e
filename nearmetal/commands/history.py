"""`nearmetal history`."""

from nearmetal import history
from nearmetal.commands.common import newest_is_missing, sessions_of_system


def run(arguments) -> int:
    sessions = sessions_of_system(arguments)
    print(history.render(sessions, history.change_points(sessions)))
    return 2 if newest_is_missing(arguments.database, sessions[-1].system) else 0
