"""The suspicious cases of a session measured again, through ReFrame, in jobs of their own: a change that was a bad moment
of the node or the switch is gone by then, and what was undecided gets the launches that it lacked."""

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

from nearmetal import naming
from nearmetal.checkout import CHECKOUT
from nearmetal.command import CommandError, parse
from nearmetal.gate.baseline import Baseline
from nearmetal.gate.selection import CHOOSING
from nearmetal.gate.session import Fresh, Report, Where, judge_session
from nearmetal.results import CONFIRMS, Database, Session, confirmations
from nearmetal.stats.sequential import CONFIRM_LOOKS

#: Words of the verdicts that a second look may change, by what is asked for.
WORDS = {"changed": ("regressed", "improved"), "all": ("regressed", "improved", "inconclusive")}


#: The lab of this checkout, a cluster of its own on this host.
TOPOLOGY = CHECKOUT / "site-config" / "lab" / "topology.toml"
#: Settings that hold in the lab as they do here.
PASSED = ("RFM_PREFIX", "RFM_REFERENCE_PREFIX", "NEARMETAL_SYSTEMS_PATH", "NEARMETAL_IMAGES")


class ConfirmError(RuntimeError):
    """A case could not be measured again; the message says which and where to look."""


def confirm(
    report: Report,
    baseline: Baseline,
    fresh: Fresh,
    database: Path,
    reframe: list[str],
    most: int,
    say,
    which: str = "all",
) -> Report:
    """The report once nothing in it is suspicious any more, or nothing can be done about it.

    :arg fresh: what confirms it already (`known_fresh`), with which it was judged; grows.
    :arg reframe: the words that start ReFrame.
    :arg most: launches of a case that are measured again, at most.
    :arg say: called with a line on each case that is measured.
    :arg which: a key of WORDS: `changed`, or `all` that is undecided too.
    :raises ConfirmError: a case could not be measured again.
    """
    if undecided(report, fresh, most, which):
        say(f"confirm: ReFrame is started by `{shlex.join(reframe)}` (--reframe gives another way)")
    while wanted := undecided(report, fresh, most, which):
        for number, (where, launches) in enumerate(wanted.items(), 1):
            say(
                f"confirm: {' | '.join(where)}: {launches} fresh launches ({number} of {len(wanted)} cases)"
            )
            for name, values in measure(report.session, where, launches, database, reframe).items():
                fresh.setdefault((*where, name), []).extend(values)
        report = judge_session(report.session, baseline, fresh)
    return report


def known_fresh(session: Session, database: Path) -> Fresh:
    """The launches that already confirm a session, as they are stored. Raises ResultsError."""
    fresh: Fresh = {}
    for again in confirmations(database, session):
        for case in again.cases:
            for value in case.values if case.measured else ():
                fresh.setdefault((*case.where, value.variable), []).extend(value.samples)
    return fresh


def undecided(report: Report, fresh: Fresh, most: int, which: str = "all") -> dict[Where, int]:
    """Launches to measure next by case: those that the most demanding of its variables wants, as far as `most` allows.
    A change must show once more, in launches of its own."""
    wanted: dict[Where, int] = {}
    for one in report.judged:
        taken = len(fresh.get((*one.where, one.variable), ()))
        target = one.wanted if one.word == "inconclusive" else one.launches + CONFIRM_LOOKS[0]
        settled = one.word in WORDS["changed"] and taken
        # What was changed at first and is open after fresh launches goes on, whatever was asked for.
        open_ = one.word in WORDS[which] or (one.word == "inconclusive" and taken)
        if settled or not open_ or not target or taken >= most:
            continue
        wanted[one.where] = max(
            wanted.get(one.where, 0), min(max(1, target - one.launches), most - taken)
        )
    return wanted


def reframe_of(session: Session, database: Path) -> list[str]:
    """The words that start ReFrame where the session ran: on this host, or from this host in the lab."""
    if not ran_in_lab(session):
        return ["reframe"]
    settings = {name: os.environ[name] for name in PASSED if name in os.environ}
    settings["RFM_SQLITE_DB_FILE"] = str(Database.of(database).path.resolve())
    where = [f"--chdir={session.directory}"] if session.directory else []
    words = [f"{name}={value}" for name, value in settings.items()]
    return [sys.executable, "-m", "nearmetal.lab", "exec", "env", *where, *words, "reframe"]


def ran_in_lab(session: Session) -> bool:
    """Whether the session ran on the lab's login node and this is another host, without Slurm."""
    try:
        login = tomllib.loads(TOPOLOGY.read_text())["cluster"]["controller"]
    except (OSError, ValueError, KeyError):
        return False
    return session.host == login != socket.gethostname() and not shutil.which("sbatch")


def measure(
    session: Session, where: Where, launches: int, database: Path, reframe: list[str]
) -> dict[str, list[float]]:
    """The values of so many fresh launches of one case by variable. Raises ConfirmError."""
    command = [*reframe, *arguments(session, where, launches)]
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
            f"{command[0]} cannot be started: {error.strerror}. Fix: activate the virtual environment, or say "
            f"with --reframe how ReFrame is started on {session.host or 'the login node'}, where the session ran"
        ) from error
    after = confirmations(database, session)[before:]
    cases = [case for again in after for case in again.cases if case.where == where]
    if not cases or not cases[0].measured:
        raise ConfirmError(
            f"{' | '.join(where)} could not be measured again: "
            f"{cases[0].failure if cases else _last_words(done, reframe)}"
        )
    return {value.variable: list(value.samples) for value in cases[0].values}


def _last_words(done: subprocess.CompletedProcess, reframe: list[str]) -> str:
    said = done.stdout[-400:].strip() or f"ReFrame ended with {done.returncode}"
    return f"{said}. It was started by `{shlex.join(reframe)}`; --reframe gives another way"


def arguments(session: Session, where: Where, launches: int) -> list[str]:
    """ReFrame's arguments for one case of the session with so many launches: its command's own but for what it selects."""
    case = next(case for case in session.cases if case.where == where)
    try:
        command = parse(session.command)
    except CommandError as error:
        raise ConfirmError(
            f"the command of session {session.uuid} can't be read ({error}), so that its options can't "
            f"be given again: {session.command}"
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
        f"{name.partition('%')[0]}.repeats={launches}",
        "--session-extras",
        f"{CONFIRMS}={session.uuid}",
    ]


def _chooses_nodes(word: str) -> bool:
    """Whether an option of ReFrame hands the scheduler one that chooses nodes."""
    return re.match(r"--job-option=(--nodelist|nodelist|-w|w)\b", word) is not None
