"""`nearmetal compare`."""

from nearmetal import compare
from nearmetal.commands.common import print_missing, session_of
from nearmetal.errors import Incomplete


def run(arguments) -> int:
    session = session_of(arguments)
    columns = compare.columns(session, arguments.columns)
    if not columns:
        failed = "\n".join(compare.failed(session))
        raise Incomplete(
            f"session {session.uuid} holds no value: all of its cases failed:\n{failed}"
        )
    text, missing = compare.render(session, columns, arguments.spread)
    print(text)
    print_missing(missing)
    return 2 if missing else 0
