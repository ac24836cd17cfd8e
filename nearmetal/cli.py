"""The `nearmetal` command: its options. Each command's module is imported when it runs."""

import argparse
import gc
import importlib
import os
import re
import shlex
import sys
from pathlib import Path

from nearmetal import results
from nearmetal.checkout import CHECKOUT, other_checkout, version
from nearmetal.errors import NearmetalError, of_system
from nearmetal.judge.verdict import MEASURED_AGAIN
from nearmetal.stats import plan
from nearmetal.util import cli_errors, own, sanitize

EPILOG = """exit codes: 0 clean or done; 1 a regression or a deviation; 2 no verdict (a case, value,
repeat, baseline or the newest session is missing, disturbed or inconclusive); 3 bad usage,
unreadable input, or an unforeseen error.
A signal ends with 128 and its number: Ctrl-C with 130, SIGTERM with 143, a closed output pipe with
141."""

#: What most commands make of several databases.
ONE_HISTORY = "their sessions are one history, and copies of a session count once"
#: Whether an option may be repeated -> its action, and the end of its help.
REPEATED = {False: ("store", ""), True: ("append", "; may be repeated")}
#: Formats of the gate's report, and who reads them.
FORMATS = {
    "json": "for programs, by nearmetal/judge/gate-schema.yaml",
    "junit": "for a CI system",
    "markdown": "for a merge request",
    "openmetrics": "for a monitor",
}


class _Parser(argparse.ArgumentParser):
    """Refuses a second value of an option that takes one: argparse silently takes the last."""

    def __init__(self, **options):
        super().__init__(**options)
        for name in (None, "store"):
            self.register("action", name, _Once)


class _Once(argparse._StoreAction):
    def __call__(self, parser, namespace, values, option_string=None):
        if option_string is not None:
            given = vars(namespace).setdefault("given", {})
            if self.dest in given:
                parser.error(
                    f"argument {option_string}: {given[self.dest]} and {values} are given, but "
                    f"`{parser.prog}` takes one. Fix: run it once for each"
                )
            given[self.dest] = values
        super().__call__(parser, namespace, values, option_string)


def parser() -> argparse.ArgumentParser:
    top = _Parser(
        prog="nearmetal",
        epilog=EPILOG,
        description="Describes a cluster. Reads the results that `reframe -c reframe_checks -r` "
        "stored: compares, records baselines, judges, reports.",
    )
    top.add_argument("--version", action=_Version, help="print the version, and end")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _init(commands)
    _doctor(commands)
    _compare(commands)
    _expect(commands)
    _like(commands)
    _baseline(commands)
    _gate(commands)
    _explain(commands)
    _command(
        commands,
        "history",
        "history.run",
        "when medians changed over all sessions, and which facts changed with them",
        "Prints change points and creeps of every variable, with the facts that changed in the "
        "same session. Lists changes that vanished with --confirm. Apache Otava proposes a change "
        "point from the medians of the sessions, and a rank test confirms it.",
        systems=True,
    )
    _fleet(commands)
    _report(commands)
    _export(commands)
    _command(
        commands,
        "progress",
        "progress.run",
        "progress of a run: reframe ... | nearmetal progress",
        "Passes on ReFrame's output. After each case, prints how many are done and an estimate of "
        "the time left. The newest session refines it if it has as many cases. Ends with 2 if a "
        "case failed or nothing ran.",
    )
    duet = _command(
        commands,
        "duet",
        "duet.run",
        "judge B against A, interleaved in one job",
        "Prints what B costs against A in the newest session with a duet. It judges pairs of "
        "repeats; if A and B share little noise, it judges them as independent samples. Run it "
        "after `reframe -c reframe_checks/duet -r`. Ends with 1 if B is worse.",
    )
    duet.add_argument(
        "--sizes", action="store_true", help="print A and B for each message size as well"
    )
    _one_session(duet)
    return top


class _Version(argparse.Action):
    """Prints the version, which takes a while to read: not for `--help`."""

    def __init__(self, option_strings, dest, **options):
        super().__init__(option_strings, dest, nargs=0, **options)

    def __call__(self, parser, *_):
        print(f"nearmetal {version()}")
        parser.exit()


def _command(
    parents,
    name: str,
    run: str,
    text: str,
    description: str,
    systems: bool = False,
    databases: str = ONE_HISTORY,
    default: str = "the system of the newest session",
) -> argparse.ArgumentParser:
    """A command with the options that all have.

    :arg run: module and function below nearmetal.commands.
    :arg systems: whether several systems may be given.
    :arg databases: what becomes of several databases.
    :arg default: the system without --system, for its help.
    """
    sub = parents.add_parser(name, help=text, description=description, epilog=EPILOG)
    sub.set_defaults(run=run)
    action, again = REPEATED[systems]
    sub.add_argument(
        "--system",
        action=action,
        help=f"this system (default: {default}){again}",
    )
    _database(sub, databases)
    sub.add_argument(cli_errors.OPTION, action="store_true", help=cli_errors.HELP)
    return sub


def _database(sub: argparse.ArgumentParser, several: str = ONE_HISTORY) -> None:
    """The option that names the databases.

    :arg several: what becomes of several.
    """
    sub.add_argument(
        "--database",
        type=Path,
        action="append",
        help=f"ReFrame's results (default: {results.default_database()}); may be repeated: "
        f"{several}",
    )


def _one_session(sub: argparse.ArgumentParser, several: bool = False) -> None:
    action, again = REPEATED[several]
    sub.add_argument(
        "--session",
        metavar="ID",
        action=action,
        help=f"this session: its id, or its beginning (default: the newest){again}",
    )
    sub.add_argument(
        "--since",
        metavar="TIME",
        help="end with 2 if the session started earlier: seconds since 1970 (`date +%%s`), or an "
        "ISO date and time. ReFrame stores no session if it selected nothing.",
    )


def _init(commands) -> None:
    init = commands.add_parser(
        "init",
        help="describe this cluster: write its file, on a login node",
        epilog="exit codes: 0 written; 2 written, but something could not be read; 3 nothing "
        "written (bad usage, no Slurm, or the file is there).",
        description="Asks Slurm and the modules system, inspects one node of each partition with "
        "a job, and writes NAME.yaml, where ReFrame finds it. Each line has a comment on its "
        "origin. Asks before it submits. Overwrites nothing.",
    )
    init.set_defaults(run="init.run", reads=False)
    init.add_argument("name", nargs="?", metavar="NAME", help="default: Slurm's ClusterName")
    init.add_argument(
        "--directory",
        type=Path,
        help="where the file goes (default: the first of NEARMETAL_SYSTEMS_PATH, else systems/ in "
        "RFM_CONFIG_PATH, else site-config/systems of this checkout)",
    )
    jobs = init.add_mutually_exclusive_group()
    jobs.add_argument("--yes", action="store_true", help="submit the jobs without a question")
    jobs.add_argument(
        "--no-jobs", action="store_true", help="submit no job; guess from the login node's facts"
    )
    init.add_argument(
        "--partition",
        action="append",
        default=[],
        metavar="NAME",
        help="describe only this one; may be repeated (default: all that you may use)",
    )
    init.add_argument(
        "--access",
        action="append",
        default=[],
        metavar="OPTION",
        help="further option of each job, such as --access=--account=NAME; may be repeated",
    )
    init.add_argument(
        "--wait",
        type=_seconds,
        default=300,
        metavar="TIME",
        help="give up a job that waits longer in the queue (default: 5m)",
    )
    init.add_argument(cli_errors.OPTION, action="store_true", help=cli_errors.HELP)


def _doctor(commands) -> None:
    doctor = commands.add_parser(
        "doctor",
        help="what a system lacks to run the checks, each with its fix",
        epilog="exit codes: 0 nothing is missing; 2 something is missing; 3 bad usage, or an "
        "unreadable system's file.",
        description="First without a job: commands, versions, Slurm's partitions and accounting, "
        "srun's MPI types, modules, images. Then a case of some seconds on each partition with "
        "each environment, by ReFrame. No other command reads their results.",
    )
    doctor.set_defaults(run="doctor.run", reads=False)
    doctor.add_argument(
        "system",
        nargs="?",
        metavar="SYSTEM[:PARTITION]",
        help="default: RFM_SYSTEM, else the system whose hostnames match this host",
    )
    doctor.add_argument("--no-jobs", action="store_true", help="submit no job")
    doctor.add_argument(
        "--wait",
        type=_seconds,
        default=300,
        metavar="TIME",
        help="give up a job that waits longer in the queue (default: 5m)",
    )
    doctor.add_argument(
        "--directory",
        type=Path,
        help="where the jobs' files go, on a file system that all nodes mount (default: doctor/ "
        "beside the results)",
    )
    doctor.add_argument(cli_errors.OPTION, action="store_true", help=cli_errors.HELP)


def _compare(commands) -> None:
    compare = _command(
        commands,
        "compare",
        "compare.run",
        "partitions side by side, with ratios to the first",
        "Begins with the nearness of each partition to bare metal, by aspect. Then one row for "
        "each check, environment and variable; one column for each partition, or node of "
        "--distribute; overheads over the first. Several sessions, systems or databases stand "
        "side by side. Ends with 1 if a case failed by its reference, or with 2 if a value is "
        "missing.",
        systems=True,
        databases="they stand side by side",
    )
    compare.set_defaults(apart=True)
    _one_session(compare, several=True)
    compare.add_argument(
        "--columns",
        help="partitions, comma-separated, each once; the first is the base (default: as they "
        "ran). PARTITION@NODE is a node of --distribute, PARTITION all of its nodes. With several "
        "sessions, write SYSTEM:PARTITION@ID. A partition that the session lacks is bad usage.",
    )
    compare.add_argument(
        "--spread",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="print the coefficient of variation of the samples (default: yes)",
    )


def _expect(commands) -> None:
    expect = commands.add_parser(
        "expect",
        help="list what is expected of a partition, and why",
        epilog=EPILOG,
        description="Lists the bounds that ship with the suite, and the site's own, for each "
        "partition: number, reason and source. With --judge, compares a session "
        "with them, also by rules over several cases. Ends with 1 if a value deviates.",
    )
    expect.set_defaults(run="expect.run", system=None)
    expect.add_argument("place", metavar="SYSTEM[:PARTITION]", help="a system, or one partition")
    expect.add_argument("--judge", action="store_true", help="compare the newest session with it")
    expect.add_argument("--session", metavar="ID", help="this session: its id, or its beginning")
    _database(expect)
    expect.add_argument(cli_errors.OPTION, action="store_true", help=cli_errors.HELP)


def _like(commands) -> None:
    like = commands.add_parser(
        "like",
        help="a partition beside published figures of machines like it",
        epilog=EPILOG,
        description="Prints what repositories published of the same instance type, else of the "
        "same processor and NIC, else of the same link: the range, the interval that holds 95 % "
        "of further machines, and the sources. The newest session's values stand beside them; "
        "without a session, these are others' figures alone.",
    )
    like.set_defaults(run="like.run", system=None)
    like.add_argument("place", metavar="SYSTEM[:PARTITION]", help="a system, or one partition")
    like.add_argument("--session", metavar="ID", help="this session: its id, or its beginning")
    like.add_argument("--json", type=Path, metavar="FILE", help="write the table for programs")
    _database(like)
    like.add_argument(cli_errors.OPTION, action="store_true", help=cli_errors.HELP)


def _baseline(commands) -> None:
    actions = commands.add_parser(
        "baseline",
        help="record, show or check a healthy system's values",
        epilog=EPILOG,
    ).add_subparsers(dest="action", required=True, metavar="ACTION")
    record = _command(
        actions,
        "record",
        "baseline.record",
        "write the baseline from some sessions",
        "Writes SYSTEM.yaml and SYSTEM.launches.json (see --directory); `git diff` shows what "
        "changed. Names the keys `no_baseline` that are obsolete from then on. Refuses sessions "
        "with a failed case, unless only its reference is missing. Refuses sessions that lack a "
        "case, measured different states of the system, or hold a variable too noisy to be judged.",
    )
    record.add_argument(
        "--session",
        action="append",
        metavar="ID",
        help=f"from this one; may be repeated (default: at most the last {plan.BASELINE_SESSIONS} "
        "with the newest one's cases)",
    )
    record.add_argument(
        "--since",
        metavar="TIME",
        help="from all sessions since then: seconds since 1970, or an ISO date and time",
    )
    record.add_argument(
        "--as",
        dest="form",
        choices=["baseline", "reframe"],
        default="baseline",
        help="reframe: write no baseline, but ReFrame's references from these sessions (default: "
        "all)",
    )
    record.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="file of --as reframe: a `$ref` file, or Python dictionaries if its name ends with "
        ".py (default: SYSTEM.references.yaml where baselines are)",
    )
    record.add_argument(
        "--add",
        action="store_true",
        help="keep what the baseline has, and add the sessions after it that are ok",
    )
    record.add_argument(
        "--leave-out-noisy",
        action="store_true",
        help="leave variables that are too noisy unjudged",
    )
    record.add_argument(
        "--only-bounds",
        action="store_true",
        help="take no session: write the bounds of the recorded references anew, as "
        "after an upgrade",
    )
    show = _command(
        actions,
        "show",
        "baseline.show",
        "print the baseline: value, spread, repeats, and the minimum detectable change",
        "One row for each variable of the baseline.",
    )
    check = _command(
        actions,
        "check",
        "baseline.check",
        "check the baseline: is it valid, young enough, and of the present system?",
        "Checks both files against their schema and digest, the age of each entry, and its facts "
        "against those of the newest session. Ends with 2 if the baseline should be recorded anew.",
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


def _gate(commands) -> None:
    gate = _command(
        commands,
        "gate",
        "gate.run",
        "judge a session by the baseline, or else by the session before and expectations",
        "Each variable is ok, watched (by several sessions), regressed, improved, deviates, "
        "disturbed, inconclusive (too few repeats), xfail, incomplete or not judged. From "
        f"{plan.LEAST_DAYS} days on, at most {100 * plan.ANY_ALARM:.0f} % of the sessions of an "
        "unchanged system have a regressed variable after --confirm. Run it "
        "after `reframe -c reframe_checks -r`. Several systems have a verdict each; the exit code "
        "is the worst.",
        systems=True,
    )
    _one_session(gate)
    gate.add_argument(
        "--confirm",
        nargs="?",
        const="suspicious",
        choices=list(MEASURED_AGAIN),
        help="measure cases again, with ReFrame: changed (regressed or improved); suspicious "
        "(changed, inconclusive or slightly worse; the default); all (suspicious or watched)",
    )
    gate.add_argument(
        "--most",
        type=_repeats,
        default=32,
        metavar="N",
        help="most fresh repeats of a case with --confirm (default: %(default)s)",
    )
    gate.add_argument(
        "--rounds",
        type=_positive,
        default=4,
        metavar="N",
        help="most runs of ReFrame with --confirm; each measures all open cases (default: "
        "%(default)s)",
    )
    _reframe(gate)
    gate.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="CHECK[:VARIABLE]",
        help="judge only these, with shell wildcards; they share alpha; may be repeated. Choose "
        "before you see the values",
    )
    gate.add_argument(
        "--weight",
        action="append",
        default=[],
        metavar="CHECK[:VARIABLE]=NUMBER",
        help="share of alpha that each of these gets, relative to 1 for the others, such as "
        "'hpcc=0.1'; may be repeated",
    )
    gate.add_argument(
        "--all",
        action="store_true",
        help="print what is ok or not judged as well; also in JUnit and Markdown",
    )
    gate.add_argument(
        "--alert",
        type=shlex.split,
        metavar="COMMAND",
        help="run this at the end unless all is clean; it gets the document of --json on stdin. "
        "For a webhook: 'curl --fail --json @- URL'",
    )
    for name, reader in FORMATS.items():
        gate.add_argument(
            f"--{name}", type=Path, metavar="FILE", help=f"write the verdicts {reader}"
        )


def _reframe(command) -> None:
    """The options of --confirm that say how and how long ReFrame may run."""
    command.add_argument(
        "--within",
        type=_seconds,
        metavar="TIME",
        help="end --confirm after this time, such as 90m or 2h, and name the open cases",
    )
    command.add_argument(
        "--reframe",
        type=shlex.split,
        metavar="COMMAND",
        help="how --confirm starts ReFrame (default: reframe; on the host of this checkout's lab, "
        "for a session of the lab: in the lab)",
    )


def _explain(commands) -> None:
    explain = _command(
        commands,
        "explain",
        "explain.run",
        "likely causes of what got worse, in order, each with its evidence",
        "Judges a session as `nearmetal gate` does. For what regressed, deviates, is disturbed or "
        "failed, lists the likely causes by the rules of reframe_checks/references/causes.yaml: "
        "facts that changed, counters that grew, layers that got worse together. Prints `don't "
        "know` if no rule has enough support. The exit code equals the one of `nearmetal gate` "
        "without --confirm.",
        systems=True,
    )
    _one_session(explain)
    explain.add_argument("--json", type=Path, metavar="FILE", help="write the causes for programs")


def _fleet(commands) -> None:
    fleet = _command(
        commands,
        "fleet",
        "fleet.run",
        "which node, switch or link is slower than the others of a partition",
        "Reads the sweeps of all nodes that `fleet_nodes` and `fleet_links` stored, and prints "
        "what traffic does to the nodes of `fleet_congestion`. Compares the metrics of each node "
        "with the other nodes. A robust fit splits the logarithms of latencies and bandwidths into "
        "effects of nodes and of links. The fleet is its own reference: most nodes count as "
        "healthy. Names the sweep since which each is slow, and facts that differ from most nodes. "
        "Changes nothing: it prints the command that takes a node out of service. Ends with 1 if "
        "something is slow or failed, with 2 if that cannot be judged.",
    )
    _one_session(fleet)
    fleet.add_argument(
        "--confirm",
        action="store_true",
        help="if something is slow, run the sweep again with ReFrame, and name what both show",
    )
    _reframe(fleet)
    for name, reader in {
        "json": "what was found, for programs",
        "openmetrics": "what was found, for a monitor",
        "nhc": "lines for Node Health Check that name the slow nodes",
    }.items():
        fleet.add_argument(f"--{name}", type=Path, metavar="FILE", help=f"write {reader}")


def _positive(text: str) -> int:
    """A number of 1 or more. Raises ArgumentTypeError."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r}: give a number of 1 or more")
    return int(text)


def _repeats(text: str) -> int:
    """A number of repeats that an analysis needs, or more. Raises ArgumentTypeError."""
    least = plan.CONFIRMATION_ANALYSES[0]
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r}: fewer than {least} repeats decide nothing")
    return int(text)


def _seconds(text: str) -> float:
    """The seconds of a text such as `2h`. Raises ArgumentTypeError."""
    match = re.fullmatch(r"(\d+)([smh])", text)
    if not match or not int(match[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no time: give one such as 90m or 2h")
    return int(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2]]


def _report(commands) -> None:
    report = _command(
        commands,
        "report",
        "report.run",
        "write all results as one HTML page",
        "One self-contained page: verdicts, network, kernels, memory, history with change points, "
        "provenance. A browser shows it without a network. Several systems need --all. Ends with 0 "
        "whatever the verdict, with 2 if the newest session is missing.",
        systems=True,
    )
    report.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        default=results.default_database().with_name("report.html"),
        help="default: %(default)s",
    )
    report.add_argument(
        "--all",
        type=Path,
        metavar="DIRECTORY",
        help="write a page for each system there (those of --system, else all), and index.html "
        "with their verdicts and sessions",
    )


def _export(commands) -> None:
    export = _command(
        commands,
        "export",
        "export.run",
        "stored results for other programs: CSV, Parquet, OpenMetrics",
        "Writes all stored sessions except the fresh repeats of --confirm. The tables have one row "
        "for each sample, OpenMetrics one series for each variable. docs/export.md has the "
        "columns, and the way into Prometheus and Grafana.",
        systems=True,
        default="all systems",
    )
    export.add_argument("--csv", type=Path, metavar="FILE", help="a table as text")
    export.add_argument("--parquet", type=Path, metavar="FILE", help="the same table, compressed")
    export.add_argument(
        "--openmetrics",
        type=Path,
        metavar="FILE",
        help="all values with their times, which promtool puts into Prometheus",
    )
    export.add_argument(
        "--since",
        metavar="TIME",
        help="sessions that started since then: seconds since 1970, or an ISO date and time",
    )
    export.add_argument(
        "--fact",
        action="append",
        default=[],
        metavar="NAME",
        help="a column of the tables with this fact, such as kernel; may be repeated",
    )


@sanitize.terminal
def main() -> int:
    try:
        arguments = parser().parse_args()
    except SystemExit as end:
        if end.code:
            return 3
        return 0
    # Sessions are millions of small objects in no circle, which the collector would visit
    # repeatedly.
    gc.disable()
    cli_errors.end_by_signals()
    return cli_errors.guarded(lambda: run(arguments), "nearmetal")


def _directions(arguments) -> results.Directions:
    """The site's directions of variables, beside its baselines. Raises DirectionsError."""
    from nearmetal.judge import baseline  # not at the top: jsonschema, which `--help` does not use

    directory = getattr(arguments, "directory", None) or baseline.directory()
    return results.Directions.read(directory / results.FILE_OF_DIRECTIONS)


def _open_databases(arguments) -> None:
    """Put the databases into the arguments: as one history, but for a command that keeps them
    apart. Raises DirectionsError."""
    paths = arguments.database or [results.default_database()]
    histories = [paths]
    if getattr(arguments, "apart", False):
        histories = paths
    directions = _directions(arguments)
    arguments.databases = [results.Database(history, directions) for history in histories]
    arguments.database = arguments.databases[0]


def _places(arguments) -> list[Path]:
    """The places of the results that the command reads or writes."""
    if getattr(arguments, "reads", True):
        return arguments.database or [results.default_database()]
    if arguments.directory:
        return [arguments.directory]
    if arguments.command == "doctor":
        return [results.default_database()]
    from nearmetal.site import system  # not at the top: YAML, which `--help` does not use

    return system.directories()[:1]


def _become_owner(arguments) -> None:
    """Let root go on as the owner of the results, before anything of them is read.

    With --confirm this may end here: the lab runs the whole command, as nobody else may enter it
    later.
    """
    if os.geteuid() != 0:
        return
    user = own.owner_of(_places(arguments))
    if user is None:
        return
    if getattr(arguments, "confirm", None) and not arguments.reframe:
        from nearmetal.commands import in_lab

        in_lab.run_there(arguments, user)
    own.become(user)


def _refuse_in_another_checkout() -> None:
    """Raise NearmetalError where this command would read another checkout's results."""
    other = other_checkout()
    if other:
        raise NearmetalError(
            f"this command is of the checkout {CHECKOUT}, but {other} is another one, with results "
            f"of its own. Fix: use the virtual environment of {other}, or run "
            f"`pip install --no-deps --no-build-isolation -e {other}` in this one"
        )


def run(arguments) -> int:
    """The exit code of a command. The database's notes are printed on stderr in any case."""
    module, function = arguments.run.split(".")
    command = getattr(importlib.import_module(f"nearmetal.commands.{module}"), function)
    arguments.databases = []
    try:
        _refuse_in_another_checkout()
        _become_owner(arguments)
        if getattr(arguments, "reads", True):
            _open_databases(arguments)
        return command(arguments)
    except BrokenPipeError:
        raise
    except NearmetalError as error:
        print(f"nearmetal: {error.prefix}{error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"nearmetal: {of_system(error)}", file=sys.stderr)
        return 3
    finally:
        for database in arguments.databases:
            for note in database.notes():
                print(f"nearmetal: {note}", file=sys.stderr)
