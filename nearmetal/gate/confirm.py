"""Measures suspicious cases of a session again, by ReFrame in new jobs.

By then, a short disturbance of a node or switch is over. An inconclusive variable gets the repeats
that it lacks.
"""

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

from nearmetal import naming
from nearmetal.checkout import CHECKOUT
from nearmetal.command import CommandError, parse
from nearmetal.errors import NearmetalError
from nearmetal.gate import relative
from nearmetal.gate.baseline import Baseline
from nearmetal.gate.selection import CHOOSING
from nearmetal.gate.session import Fresh, judge_session
from nearmetal.gate.verdict import CHANGED, MEASURED_AGAIN, GateReport, Verdict, Where
from nearmetal.results import CONFIRMS, Case, Database, Session, confirmations
from nearmetal.stats.plan import CONFIRMATION_ANALYSES

#: Topology of this checkout's lab, a virtual cluster on this host.
TOPOLOGY = CHECKOUT / "site-config" / "lab" / "topology.toml"
#: Environment variables that are passed to the lab.
PASSED = ("RFM_PREFIX", "RFM_REFERENCE_PREFIX", "NEARMETAL_SYSTEMS_PATH", "NEARMETAL_IMAGES")


class ConfirmError(NearmetalError):
    """A case was not measured again. The message has its name and ReFrame's output."""

    exit_code = 2


def measure_again(
    report: GateReport,
    baseline: Baseline,
    fresh: Fresh,
    database: Path | Database,
    reframe: list[str],
    most: int,
    say: Callable[[str], None],
    which: str = "all",
) -> GateReport:
    """Measure suspicious cases until none is left, or `most` repeats are used; returns the report.

    :arg fresh: fresh samples that the session has already (`fresh_samples`); new ones are added.
    :arg reframe: the command that starts ReFrame.
    :arg most: most fresh repeats of a case.
    :arg say: receives a line about each case that is measured.
    :arg which: a key of MEASURED_AGAIN.
    :raises ConfirmError: a case was not measured again.
    """
    database = Database.of(database)
    wanted = suspicious(report, fresh, most, which)
    if wanted:
        started = f"confirm: ReFrame is started by `{shlex.join(reframe)}`"
        say(f"{started} (--reframe sets another command)")
    while wanted:
        for number, (where, repeats) in enumerate(wanted.items(), 1):
            say(
                f"confirm: {' | '.join(where)}: {repeats} fresh repeats "
                f"({number} of {len(wanted)} cases)"
            )
            samples = measure(report.session, where, repeats, database, reframe)
            samples |= relative.fresh_ratios(report.session, where, samples)
            for name, values in samples.items():
                fresh.setdefault((*where, name), []).extend(values)
        report = judge_session(report.session, baseline, fresh)
        wanted = suspicious(report, fresh, most, which)
    return report


def fresh_samples(session: Session, database: Path | Database) -> Fresh:
    """The stored samples of the session's confirmations. Raises ResultsError."""
    fresh: Fresh = {}
    for again in confirmations(database, session):
        for case in filter(_is_measured, again.cases):
            samples = {value.variable: list(value.samples) for value in case.values}
            samples |= relative.fresh_ratios(session, case.where, samples)
            for name, values in samples.items():
                fresh.setdefault((*case.where, name), []).extend(values)
    return fresh


def _is_measured(case: Case) -> bool:
    return case.measured


def suspicious(report: GateReport, fresh: Fresh, most: int, which: str = "all") -> dict[Where, int]:
    """Repeats to measure next by case: as many as any of its variables needs, up to `most`.

    A change must show again in fresh samples alone.
    """
    wanted: dict[Where, int] = {}
    for one in report.verdicts:
        taken = len(fresh.get((*one.where, one.variable), ()))
        target = _target(one)
        if not _is_suspicious(one, taken, which) or not target or taken >= most:
            continue
        repeats = min(max(1, target - one.repeats), most - taken)
        wanted[one.where] = max(wanted.get(one.where, 0), repeats)
    return wanted


def _target(one: Verdict) -> int | None:
    """Number of repeats of both stages at which the variable is judged next."""
    if one.name == "inconclusive":
        return one.wanted
    return one.repeats + CONFIRMATION_ANALYSES[0]


def _is_suspicious(one: Verdict, taken: int, which: str) -> bool:
    """Whether the variable needs fresh samples, after those taken."""
    if one.name in CHANGED and taken:
        return False  # confirmed
    # A change that fresh samples left undecided is measured again, whatever `which` is.
    return one.name in MEASURED_AGAIN[which] or (one.name == "inconclusive" and taken > 0)


def reframe_of(session: Session, database: Path | Database) -> list[str]:
    """The command that starts ReFrame where the session ran: here, or in this host's lab."""
    if not ran_in_lab(session):
        return ["reframe"]
    settings = {name: os.environ[name] for name in PASSED if name in os.environ}
    settings["RFM_SQLITE_DB_FILE"] = str(Database.of(database).path.resolve())
    where = [f"--chdir={session.directory}"] if session.directory else []
    words = [f"{name}={value}" for name, value in settings.items()]
    return [sys.executable, "-m", "nearmetal.lab", "exec", "env", *where, *words, "reframe"]


def ran_in_lab(session: Session) -> bool:
    """Whether the session ran on the lab's login node, and this is another host without Slurm."""
    try:
        login = tomllib.loads(TOPOLOGY.read_text())["cluster"]["controller"]
    except (OSError, ValueError, KeyError):
        return False
    return session.host == login != socket.gethostname() and not shutil.which("sbatch")


def measure(
    session: Session, where: Where, repeats: int, database: Path | Database, reframe: list[str]
) -> dict[str, list[float]]:
    """Fresh samples of one case, by variable. Raises ConfirmError."""
    command = [*reframe, *arguments(session, where, repeats)]
    database = Database.of(database)
    before = len(confirmations(database, session))
    known = session.directory and Path(session.directory).is_dir()
    try:
        done = subprocess.run(
            command,
            cwd=session.directory if known else None,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except OSError as error:
        raise ConfirmError(
            f"{command[0]} cannot be started: {error.strerror}. Fix: activate the virtual "
            "environment, or give with --reframe the command that starts ReFrame on "
            f"{session.host or 'the login node'}, where the session ran"
        ) from error
    database.refresh()
    after = confirmations(database, session)[before:]
    cases = [case for again in after for case in again.cases if case.where == where]
    if not cases or not cases[0].measured:
        reason = cases[0].failure if cases else _ending(done, reframe)
        raise ConfirmError(f"{' | '.join(where)} could not be measured again: {reason}")
    return {value.variable: list(value.samples) for value in cases[0].values}


def _ending(done: subprocess.CompletedProcess, reframe: list[str]) -> str:
    said = done.stdout[-400:].strip() or f"ReFrame ended with {done.returncode}"
    return f"{said}. It was started by `{shlex.join(reframe)}`; --reframe sets another command"


def arguments(session: Session, where: Where, repeats: int) -> list[str]:
    """ReFrame's arguments for fresh repeats of one case: those of the session's command, with the
    selection replaced."""
    case = next(case for case in session.cases if case.where == where)
    try:
        command = parse(session.command)
    except CommandError as error:
        raise ConfirmError(
            f"the command of session {session.uuid} cannot be read ({error}), so its options "
            f"cannot be used again: {session.command}"
        ) from None
    words = [
        word
        for word in command.words(leave_out=CHOOSING)
        if not re.match(r"--setvar=(.+\.)?repeats=", word)
    ]
    name = naming.parse(case.check).plain.replace(" ", "")
    return [
        *(word for word in words if not (case.node and _chooses_nodes(word))),
        "--system",
        f"{session.system}:{case.partition}",
        "-p",
        f"^{re.escape(case.environ)}$",
        "-n",
        f"^{re.escape(name)}$",
        *(["--distribute=all", "-J", f"nodelist={case.node}"] if case.node else []),
        "-S",
        f"{name.partition('%')[0]}.repeats={repeats}",
        "--session-extras",
        f"{CONFIRMS}={session.uuid}",
    ]


def _chooses_nodes(word: str) -> bool:
    """Whether an option of ReFrame passes the scheduler an option that chooses nodes."""
    return re.match(r"--job-option=(--nodelist|nodelist|-w|w)\b", word) is not None
