"""The `nearmetal` command."""
import argparse
import sys
from pathlib import Path

from . import compare, results

EPILOG = """exit codes: 0 done; 2 incomplete (a case failed or a value is missing); 3 bad usage or unreadable input."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="nearmetal", description=__doc__ + " Reads the results that "
                                     "`reframe -c reframe_checks -r` stored.", epilog=EPILOG)
    commands = parser.add_subparsers(dest="command", required=True)
    sub = commands.add_parser(
        "compare", help="partitions side by side, with ratios to the first", epilog=EPILOG,
        description="One row a check, environment and variable; one column a partition; ratios to the first partition.")
    sub.add_argument("--system", help="take the newest session on this system (default: the newest of all)")
    sub.add_argument("--session", help="take this one: its id or the id's beginning")
    sub.add_argument("--columns", help="partitions, comma-separated; the first is the base (default: as they ran)")
    sub.add_argument("--spread", action="store_true", help="with the coefficient of variation over the launches")
    sub.add_argument("--database", type=Path, default=results.database(), help="default: %(default)s")
    try:
        arguments = parser.parse_args()
    except SystemExit as end:
        return 3 if end.code else 0
    try:
        session = results.load_session(arguments.database, arguments.system, arguments.session)
    except results.ResultsError as error:
        print(f"nearmetal: {error}", file=sys.stderr)
        return 3
    columns = arguments.columns.split(",") if arguments.columns else list(dict.fromkeys(v.partition for v in session.values))
    if not columns:
        print(f"nearmetal: session {session.uuid} holds no value: all of its cases failed:",
              *compare.failed(session), sep="\n", file=sys.stderr)
        return 2
    text, missing = compare.render(session, columns, arguments.spread)
    print(text)
    for line in missing:
        print(f"missing: {line}", file=sys.stderr)
    return 2 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
