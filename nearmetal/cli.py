"""The `nearmetal` command."""

import argparse
import gc
import shlex
import sys
from pathlib import Path

from nearmetal import clean, commands, results, unforeseen
from nearmetal.gate import confirm
from nearmetal.gate.baseline import BaselineError
from nearmetal.gate.record import SESSIONS
from nearmetal.published import PublishedError
from nearmetal.report.page import ReportError
from nearmetal.stats import judge

EPILOG = """exit codes: 0 clean or done; 1 a regression; 2 incomplete (a case, value, launch or baseline is missing, or the
newest session); 3 bad usage, unreadable input, or an unforeseen error. Nothing but a regression ends with 1; Ctrl-C ends
with 130, and output that nobody reads any more with 141."""


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="nearmetal",
        epilog=EPILOG,
        description="Reads the results that `reframe -c reframe_checks -r` stored: compares, records baselines, judges, reports.",
    )
    subs = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(
        name: str, run, text: str, description: str, parents=subs
    ) -> argparse.ArgumentParser:
        sub = parents.add_parser(name, help=text, description=description, epilog=EPILOG)
        sub.set_defaults(run=run)
        sub.add_argument("--system", help="of the newest session on this system (default: of all)")
        sub.add_argument(
            "--database",
            type=Path,
            default=results.database(),
            help="ReFrame's results (default: %(default)s)",
        )
        sub.add_argument(unforeseen.OPTION, action="store_true", help=unforeseen.HELP)
        return sub

    compare = command(
        "compare",
        commands.compare_partitions,
        "partitions side by side, with ratios to the first",
        "One row a check, environment and variable; one column a partition, or a node of --distribute; ratios to the first.",
    )
    one_session(compare)
    compare.add_argument(
        "--columns",
        help="partitions, comma-separated, each once; the first is the base (default: as they ran). A node of "
        "--distribute is PARTITION@NODE; its partition stands for all of them. One that the session lacks is bad usage.",
    )
    compare.add_argument(
        "--spread", action="store_true", help="with the coefficient of variation over the launches"
    )

    baseline = subs.add_parser(
        "baseline",
        help="record, show or check what a system's variables are when it is well",
        epilog=EPILOG,
    ).add_subparsers(dest="action", required=True, metavar="ACTION")
    record = command(
        "record",
        commands.record_baseline,
        "write the baseline from some sessions",
        "Writes SYSTEM.yaml and SYSTEM.launches.json (see --directory), of which `git diff` shows what changed. "
        "Names the keys `no_baseline` that excuse nothing from then on. "
        "Refuses sessions that failed (but for want of a reference), lack a case, were measured on different states of the system, or hold a "
        "variable too noisy to be judged.",
        baseline,
    )
    record.add_argument(
        "--session",
        action="append",
        metavar="ID",
        help=f"from this one; may be repeated (default: the last {SESSIONS} with the newest one's cases)",
    )
    record.add_argument(
        "--leave-out-noisy",
        action="store_true",
        help="let variables that are too noisy stay unjudged",
    )
    record.add_argument(
        "--only-bounds",
        action="store_true",
        help="take no session: write the bounds of the recorded references anew, as after an upgrade",
    )
    show = command(
        "show",
        commands.show_baseline,
        "print it: value, spread, launches, and what the gate finds in it",
        "One row a variable of the baseline.",
        baseline,
    )
    check = command(
        "check",
        commands.check_baseline,
        "is it valid, young enough, and of the system as it is?",
        "Checks both files against their schema and digest, the age of each entry, and the facts of the newest "
        "session against those it was recorded on. Ends with 2 where the baseline should be recorded anew.",
        baseline,
    )
    check.add_argument(
        "--days", type=int, default=180, help="older entries are stale (default: %(default)s)"
    )
    for sub in (record, show, check):
        sub.add_argument(
            "--directory",
            type=Path,
            help="where baselines are (default: RFM_REFERENCE_PREFIX, else results/baselines on a "
            "machine with a lab, else this checkout's reframe_checks/references/baselines)",
        )

    gate = command(
        "gate",
        commands.gate_session,
        "judge a session against the baseline",
        "Each variable is ok, regressed, improved, inconclusive (too few launches), incomplete or not judged; the "
        f"campaign's chance of any false alarm is {100 * judge.CAMPAIGN_ERROR:.0f} % in all. Run it after "
        "`reframe -c reframe_checks -r`.",
    )
    one_session(gate)
    gate.add_argument(
        "--confirm",
        nargs="?",
        const="all",
        choices=list(confirm.WORDS),
        help="measure suspicious cases again, with ReFrame: what changed, or all that is undecided too (default)",
    )
    gate.add_argument(
        "--most",
        type=int,
        default=32,
        metavar="N",
        help="launches of a case with --confirm (default: %(default)s)",
    )
    gate.add_argument(
        "--reframe",
        type=shlex.split,
        metavar="COMMAND",
        help="how --confirm starts ReFrame (default: reframe; where the session ran in this checkout's lab "
        "and this is its host: in the lab)",
    )
    gate.add_argument("--all", action="store_true", help="print what is ok as well")
    for kind, text in (
        ("json", "for programs, by nearmetal/gate/gate-schema.yaml"),
        ("junit", "for a CI system"),
        ("markdown", "for a merge request"),
        ("openmetrics", "for a monitor"),
    ):
        gate.add_argument(f"--{kind}", type=Path, metavar="FILE", help=f"write the verdicts {text}")
    command(
        "history",
        commands.show_history,
        "where levels moved over all sessions, and what changed with them",
        "Change points of every variable by Apache Otava on the median of each session's launches, each borne out by a rank "
        "test, with the facts of the system that changed in the session where the level moved.",
    )
    page = command(
        "report",
        commands.write_report,
        "all of it as one HTML page",
        "One self-contained page: verdicts, network, kernels, memory, history with change points, provenance. Needs no "
        "network to be read. Ends with 0 whatever the verdict, which is `nearmetal gate`'s; with 2 where the newest session is "
        "missing.",
    )
    page.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        default=results.database().with_name("report.html"),
        help="default: %(default)s",
    )
    command(
        "progress",
        commands.show_progress,
        "how far a campaign is: reframe ... | nearmetal progress",
        "Passes on what ReFrame says, and after each case how many are done and about how long the others will take, by the "
        "newest session of as many cases on the system. Ends with 2 if a case failed or nothing ran.",
    )
    duet = command(
        "duet",
        commands.judge_duet,
        "judge A against B, measured by turns",
        "What B costs against A in the newest session with a duet, by pairs of launches where they share their noise. "
        "Run it after `reframe -c reframe_checks/duet -r`. Ends with 1 where B is worse.",
    )
    one_session(duet)
    return top


def one_session(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--session", metavar="ID", help="this one: its id or the id's beginning")
    sub.add_argument(
        "--since",
        metavar="TIME",
        help="incomplete unless the session started later: seconds since 1970, as "
        "`date +%%s` prints, or an ISO date and time. ReFrame stores no session where it selected nothing.",
    )


@clean.terminal
def main() -> int:
    try:
        arguments = parser().parse_args()
    except SystemExit as end:
        return 3 if end.code else 0
    # Sessions are millions of small objects in no circle, which the collector would visit again and again.
    gc.disable()
    return unforeseen.guarded(lambda: run(arguments), "nearmetal")


def run(arguments) -> int:
    """The exit code of a command. What was skipped in the database is named on stderr, whatever else happened."""
    arguments.database = results.Database(arguments.database)
    try:
        return arguments.run(arguments)
    except BrokenPipeError:
        raise
    except (commands.Incomplete, results.NewestError) as error:
        print(f"nearmetal: incomplete: {error}", file=sys.stderr)
        return 2
    except (BaselineError, confirm.ConfirmError) as error:
        print(f"nearmetal: {error}", file=sys.stderr)
        return 2
    except (results.ResultsError, ReportError, PublishedError, OSError) as error:
        print(f"nearmetal: {error}", file=sys.stderr)
        return 3
    finally:
        for note in arguments.database.notes():
            print(f"nearmetal: {note}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
