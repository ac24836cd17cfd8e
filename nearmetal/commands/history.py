"""`nearmetal history`."""

from nearmetal import history
from nearmetal.commands.common import newest_is_missing, of_each_system, sessions_of_system


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
    return 2 if newest_is_missing(arguments.database, sessions[-1].system) else 0
