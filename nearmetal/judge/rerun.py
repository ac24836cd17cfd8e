"""Runs ReFrame again for some cases of a session, each with its own number of repeats."""

from __future__ import annotations

import os
import pwd
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nearmetal.checkout import CHECKOUT
from nearmetal.errors import NearmetalError
from nearmetal.judge.verdict import Where
from nearmetal.model import naming, remeasure
from nearmetal.model.remeasure import Remeasure
from nearmetal.results import CONFIRMS, OTHER_NODES, Case, Database, Session, confirmations
from nearmetal.util.command import CommandError, how_to_give, parse, rebuild
from nearmetal.util.sanitize import first_line
from nearmetal.util.suggest import shorten

#: Topology of this checkout's lab, a virtual cluster on this host.
TOPOLOGY = CHECKOUT / "site-config" / "lab" / "topology.toml"
#: The command that runs others in the lab. -P keeps modules of the working directory out.
LAB_EXEC = (sys.executable, "-P", "-m", "nearmetal.lab", "exec")
#: Environment variables that are passed to the lab.
PASSED = ("RFM_PREFIX", "RFM_REFERENCE_PREFIX", "NEARMETAL_SYSTEMS_PATH", "NEARMETAL_IMAGES")
#: Processes of this host.
PROCESSES = Path("/proc")
#: Seconds for which an interrupted ReFrame may cancel its jobs.
PATIENCE = 60
#: Name of a node as Slurm allows it.
NODE = re.compile(r"\w[\w.-]*", re.ASCII)
#: An option of ReFrame that passes the scheduler one that chooses nodes.
CHOOSES_NODES = re.compile(r"--job-option=(--nodelist|nodelist|-w|w)\b")


class ConfirmError(NearmetalError):
    """Nothing was measured again. The message has the reason and ReFrame's output."""

    exit_code = 2


def reframe_of(session: Session, database: Database) -> list[str]:
    """The command that starts ReFrame where the session ran: here, or in this host's lab.

    In the lab, ReFrame runs as the lab's user, to whom the results belong.

    :raises ConfirmError: the database is of another user.
    """
    file = database.file_of(session).path
    if not ran_in_lab(session):
        _refuse_of_another_user(file)
        return ["reframe"]
    settings = {name: os.environ[name] for name in PASSED if name in os.environ}
    settings |= _beside(file)
    words = [f"{name}={value}" for name, value in settings.items()]
    return [*LAB_EXEC, "env", *words, "reframe"]


def _refuse_of_another_user(file: Path) -> None:
    """Raise ConfirmError if somebody else could choose what ReFrame would run."""
    try:
        owner = file.stat().st_uid
    except OSError:  # the reader of the database names it
        return
    if owner != os.geteuid():
        raise ConfirmError(
            f"{file} belongs to {user(owner)}, and a database says what ReFrame runs. "
            f"Fix: let {user(owner)} run this command, or say with --reframe which "
            "command starts ReFrame, as which user"
        )


def _beside(file: Path) -> dict[str, str]:
    """ReFrame's settings that store a run in this database, with its report beside it."""
    file = file.resolve()
    return {
        "RFM_SQLITE_DB_FILE": str(file),
        "RFM_REPORT_FILE": str(file.parent / "reports" / "run-report-{sessionid}.json"),
    }


def ran_in_lab(session: Session) -> bool:
    """Whether the session ran on the lab's login node, and this is another host without Slurm."""
    try:
        login = tomllib.loads(TOPOLOGY.read_text())["cluster"]["controller"]
    except (OSError, ValueError, KeyError):
        return False
    return session.host == login != socket.gethostname() and not shutil.which("sbatch")


def measure(
    session: Session,
    wanted: Mapping[Where, Remeasure],
    database: Database,
    reframe: list[str],
    seconds: float | None = None,
    other_nodes: bool = False,
) -> dict[Where, Case | str]:
    """Measure cases in one run of ReFrame; what it stored of each, or why it did not.

    Cases of nodes that `--distribute` chose are a run of their own, and so are those of checks of
    others. If one of these runs stores nothing, the others count.

    :arg seconds: after which ReFrame is interrupted; None: never.
    :arg other_nodes: whether the result is stored as one of other nodes, which confirms nothing.
    :raises ConfirmError: ReFrame cannot be started, or no run stored anything.
    """
    cases = session.by_where
    parts: dict[tuple[bool, bool], dict[Where, Remeasure]] = {}
    for where, repeats in wanted.items():
        kind = bool(cases[where].node), cases[where].foreign
        parts.setdefault(kind, {})[where] = repeats
    measured: dict[Where, Case | str] = {}
    runs, faults = 0, []
    began = time.monotonic()
    for _, part in sorted(parts.items()):
        left = None
        if seconds is not None:
            left = seconds - (time.monotonic() - began)
            if left <= 0:
                measured |= dict.fromkeys(part, "no time was left (--within)")
                continue
        runs += 1
        try:
            measured |= _measured(session, part, database, reframe, left, other_nodes)
        except ConfirmError as error:
            faults.append(error)
            measured |= dict.fromkeys(part, str(error))
    if faults and len(faults) == runs:
        raise faults[0]
    return measured


def _measured(
    session: Session,
    wanted: Mapping[Where, Remeasure],
    database: Database,
    reframe: list[str],
    seconds: float | None,
    other_nodes: bool,
) -> dict[Where, Case | str]:
    """What one run of ReFrame stored of the cases."""
    before = len(confirmations(database, session, other_nodes))
    words = arguments(session, wanted, OTHER_NODES if other_nodes else "", reframe)
    _refuse_beside_another(session)
    # Stored beside the session's, or the gate would not find it.
    settings = _beside(database.file_of(session).path)
    code, output = _start(session, [*reframe, *words], seconds, settings)
    database.refresh()
    after = confirmations(database, session, other_nodes)[before:]
    if not after:
        ending = output[-400:].strip() or f"ReFrame ended with {code}"
        raise ConfirmError(
            f"{shorten(map(' | '.join, wanted))} could not be measured again: "
            f"{ending}. It was started by `{shlex.join(reframe)}`; --reframe sets another command"
        )
    measured: dict[Where, Case | str] = {}
    for confirmation in after:
        for case in confirmation.cases:
            if case.where not in wanted:
                continue
            measured[case.where] = case
            if not case.counts:
                measured[case.where] = _why_not(case)
    return measured


@dataclass(frozen=True)
class Orphan:
    """A running ReFrame."""

    process: int
    owner: str


def orphans_of(uuid: str) -> Iterator[Orphan]:
    """Each ReFrame on this host that measures cases of the session again.

    SIGKILL ends the gate before it can end its ReFrame, which goes on and stores what it measures.
    """
    extras = {f"{CONFIRMS}={uuid}{suffix}" for suffix in ("", OTHER_NODES)}
    for place in PROCESSES.glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes().decode(errors="replace").split("\0")
            owner = place.stat().st_uid
        except OSError:  # it has ended
            continue
        if os.geteuid() not in (0, owner):  # a stranger could call any process so
            continue
        # An interpreter's first word is its own name. Shells and wrappers have other names.
        names = [Path(word).name for word in words[:3]]
        if extras.intersection(words) and "reframe" in names:
            yield Orphan(int(place.name), user(owner))


def user(number: int) -> str:
    """The user of a number in words."""
    try:
        return f"user {pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"user {number}"


def _refuse_beside_another(session: Session) -> None:
    """Raise ConfirmError if a ReFrame already measures the session's cases again."""
    for orphan in orphans_of(session.uuid):
        raise ConfirmError(
            f"ReFrame (process {orphan.process} of {orphan.owner}) measures cases of session "
            f"{session.uuid} already: another command started it, or one that was killed. Fix: "
            f"wait for its end, or end it and its jobs by `kill -INT {orphan.process}`"
        )


def _why_not(case: Case) -> str:
    """Why a fresh measurement of a case does not count."""
    if case.measured:
        return f"something else used the nodes: {case.disturbed[0].text}"
    return first_line(case.failure or "it failed")


def _start(
    session: Session, command: list[str], seconds: float | None, settings: dict[str, str]
) -> tuple[int, str]:
    """Exit code and output of ReFrame. Raises ConfirmError if it cannot be started.

    ReFrame stays in the foreground of a terminal, where `sudo` can ask for a password and Ctrl-C
    reaches both. Otherwise it is a group of its own, which is interrupted as a whole.
    """
    own_group = seconds is not None or not _has_terminal()
    try:
        process = subprocess.Popen(
            command,
            env={**os.environ, **settings},
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=own_group,
        )
    except OSError as error:
        raise ConfirmError(
            f"{command[0]} cannot be started: {error.strerror}. Fix: activate the virtual "
            "environment, or give with --reframe the command that starts ReFrame on "
            f"{session.host or 'the login node'}, where the session ran"
        ) from error
    with process:
        for number, patience in ((signal.SIGINT, seconds), (signal.SIGKILL, PATIENCE)):
            try:
                output, _ = process.communicate(timeout=patience)
                return process.returncode, output
            except subprocess.TimeoutExpired:
                _signal(process, number)  # ReFrame cancels its jobs
            except BaseException as error:
                _end(process, own_group or type(error) is not KeyboardInterrupt)
                raise
        output, _ = process.communicate()
    return process.returncode, output


def _has_terminal() -> bool:
    """Whether a terminal sends Ctrl-C to all processes of its foreground."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _signal(process: subprocess.Popen, number: int) -> None:
    """Send a signal to ReFrame, and to its group if it has one of its own."""
    if process.poll() is not None:
        return
    if os.getpgid(process.pid) == process.pid:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)


def _end(process: subprocess.Popen, interrupt: bool) -> None:
    """Let ReFrame cancel its jobs and end.

    :arg interrupt: whether no terminal has interrupted it.
    """
    if interrupt:
        _signal(process, signal.SIGINT)
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            process.communicate(timeout=PATIENCE)
            return
        except subprocess.TimeoutExpired:
            _signal(process, number)


def arguments(
    session: Session,
    wanted: Mapping[Where, Remeasure],
    suffix: str = "",
    reframe: Sequence[str] = (),
) -> list[str]:
    """ReFrame's arguments for fresh repeats of some cases: the harmless options of the session's
    command, with the selection replaced. Either all of the cases have a node that `--distribute`
    chose, or none. Either all are of checks of others, or none. Those repeat by `--reruns`, on any
    nodes.

    :arg reframe: the command that starts ReFrame, which may give refused options by itself.
    :raises ConfirmError: the command has an option that a database may not choose.
    """
    cases = [case for case in session.cases if case.where in wanted]
    words = _words_of(session, reframe)
    nodes = dict.fromkeys(case.node for case in cases if case.node)
    _refuse_odd_nodes(nodes)
    # They become options of the job.
    for repeats in wanted.values():
        _refuse_odd_nodes([*repeats.nodes, *repeats.without])
    if nodes:
        words = [word for word in words if not CHOOSES_NODES.match(word)]
        words += ["--distribute=all", "-J", f"nodelist={','.join(nodes)}"]
    keys, names = {}, []
    for case in cases:
        plain = naming.parse(case.check).plain
        names.append(plain.replace(" ", ""))
        keys[plain, case.partition, case.environ, case.node] = wanted[case.where]
    system = session.system
    if len({case.partition for case in cases}) == 1:
        system += f":{cases[0].partition}"
    words = ["--run", *words, f"--system={system}"]
    words += _each("-p", [case.environ for case in cases]) + _each("-n", names)
    if not any(case.foreign for case in cases):
        words += ["-S", f"again={remeasure.write(keys)}"]
    elif more := max(repeats.repeats for repeats in wanted.values()) - 1:
        words.append(f"--reruns={more}")
    return [*words, "--session-extras", f"{CONFIRMS}={session.uuid}{suffix}"]


def _words_of(session: Session, reframe: Sequence[str]) -> list[str]:
    """The harmless options of the session's command. Raises ConfirmError."""
    try:
        command = parse(session.command)
    except CommandError as error:
        raise ConfirmError(
            f"the command of session {session.uuid} cannot be read ({error}), so its options "
            f"cannot be used again: {session.command}"
        ) from None
    rebuilt = rebuild(command, session.directory, reframe)
    if rebuilt.refused:
        raise ConfirmError(
            f"the database says that session {session.uuid} ran with "
            f"{shlex.join(rebuilt.refused)}, and --confirm takes no such option from a database. "
            f"Fix: if you trust it, add {how_to_give(rebuilt.refused)}"
        )
    return list(rebuilt.words)


def _refuse_odd_nodes(nodes: Iterable[str]) -> None:
    """Raise ConfirmError for what is no node's name: it would be an option of the job's script."""
    for node in nodes:
        if not NODE.fullmatch(node):
            raise ConfirmError(
                f"the database names a node {node!r}, which is no name of a node. Fix: delete the "
                "session"
            )


def _each(option: str, names: Iterable[str]) -> list[str]:
    """The option for each name, which is matched as a whole."""
    words = []
    for name in dict.fromkeys(names):
        words += [option, f"^{re.escape(name)}$"]
    return words
