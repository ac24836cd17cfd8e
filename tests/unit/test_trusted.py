"""A database is data: `--confirm` runs nothing that a stored session names by itself."""

import json
import os
import shlex
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from xml.etree import ElementTree

import pytest

from nearmetal import cli, results
from nearmetal.judge import baseline, record, rerun
from nearmetal.judge.baseline import Baseline
from nearmetal.lab.namespaces import wait_until
from nearmetal.model.remeasure import Remeasure
from nearmetal.util import command
from tests.support.campaigns import campaign
from tests.support.paths import CHECKOUT
from tests.support.recorded import store

SLOWER = ("", "emulated", "mpich", "startup_latency")
CASE = ("pingpong %placement=internode", "emulated", "mpich")
CHECKS = CHECKOUT / "reframe_checks"


def rebuilt(options: str, *given: str, directory=CHECKOUT) -> command.Rebuilt:
    line = f"reframe --run {options}"
    return command.rebuild(command.parse(line), str(directory), ["reframe", *given])


@pytest.mark.parametrize(
    "options",
    [
        "-C evil_settings.py",
        "-C :/tmp/evil_settings.py",
        "-c evil_check.py",
        "-c reframe_checks/../results/evil",
        "-c /dev/zero",
        "-S pingpong.executable=/tmp/evil",
        "-S namd.input=/tmp/evil.tcl",
        "-S program=evil",
        "-S 'time_limit=1m;id'",
        "-S sourcesdir=..",
        "-J output=/root/.bashrc",
        "-J 'account=a --output=x'",
        "-J '#BB evil'",
        "--prefix=/tmp/x",
        "--stage=/tmp/x",
        "--output=/tmp/x",
        "--perflogdir=/tmp/x",
        "-m /tmp/evil",
        "-M a:b",
        "-u slurm",
        "--module-path=/tmp",
        "--module-mappings=/tmp/x",
        "--disable-hook=settle_settings",
        "--mode=../x",
    ],
)
def test_an_option_that_could_run_or_write_anything_is_refused_by_its_name(options):
    found = rebuilt(options)
    assert not found.words and len(found.refused) == 1
    [flag] = [word.partition("=")[0] for word in found.refused]
    assert flag in command.how_to_give(found.refused)
    given = shlex.split(shlex.split(command.how_to_give(found.refused))[0].partition("=")[2])
    assert rebuilt(options, *given[1:]) == command.Rebuilt((), ())


def test_harmless_options_stay():
    settings = "-S npb_class=A -S pingpong.suite=imb -S time_limit=30m -S stream.elements=20000000"
    jobs = "-J account=hpc -J--reservation=night -J qos=low"
    kept = "--exec-policy=serial --max-retries=1 --skip-performance-check -vv --mode=nightly"
    found = rebuilt(f"-c reframe_checks -C site-config/settings.py {settings} {jobs} {kept}")
    assert found.refused == ()
    words = shlex.join(["reframe", "-r", *found.words])
    options = command.parse(words)
    assert options.given("checkpath") == [str(CHECKS)]
    assert options.given("config_files") == [str(CHECKOUT / "site-config" / "settings.py")]
    assert options.given("vars") == [word for word in settings.split() if word != "-S"]
    assert options.given("job_options") == ["account=hpc", "--reservation=night", "qos=low"]
    assert (options.given("verbose"), options.given("mode")) == (2, "nightly")


def test_what_only_selects_or_prints_is_left_out():
    """The filter of `-E` is an expression in Python."""
    line = '-n x -E \'__import__("os").system("id")\' -t x --report-junit=/root/x --timestamp=../x'
    assert rebuilt(line) == command.Rebuilt((), ())


def test_files_of_the_users_own_configuration_are_taken(tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to("/etc")
    (tmp_path / "own.py").touch()
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "evil.py").touch()
    monkeypatch.setenv("RFM_CONFIG_PATH", f":{tmp_path}")
    assert rebuilt(f"-C {tmp_path}/own.py").words == (f"--config-file={tmp_path}/own.py",)
    assert rebuilt(f"-C {tmp_path}/link/own.py").refused
    assert rebuilt(f"-C {tmp_path}/absent.py").refused
    assert rebuilt(f"-C {tmp_path}/results/evil.py").words


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory away: run it as root")
def test_files_of_another_user_below_the_configuration_are_refused(tmp_path, monkeypatch):
    """Results may be there, to which the lab's user writes."""
    (tmp_path / "results").mkdir()
    os.chown(tmp_path / "results", 12345, 12345)
    (tmp_path / "results" / "evil.py").touch()
    monkeypatch.setenv("RFM_CONFIG_PATH", str(tmp_path))
    assert rebuilt(f"-C {tmp_path}/results/evil.py").refused


@pytest.mark.parametrize("node", ["n1 --output=x", "n1\nrm", "-x", "n1;id", ""])
def test_what_is_no_name_of_a_node_never_reaches_a_jobs_script(node):
    session = results.parse_session(campaign(114), "here")
    with pytest.raises(rerun.ConfirmError, match="no name of a node"):
        rerun.arguments(session, {CASE: Remeasure(3, (node,))})


@pytest.fixture(scope="module")
def references(tmp_path_factory):
    """A directory with the baseline of twelve sessions."""
    directory = tmp_path_factory.mktemp("references")
    sessions = [results.parse_session(campaign(number), "here") for number in range(12)]
    known, _ = record.record(sessions, Baseline("lab", directory / "lab.yaml", {}))
    baseline.save(known)
    return directory


@pytest.fixture
def place(tmp_path, monkeypatch, references):
    """The working directory of an attacker, with a program `reframe` that leaves a trace."""
    fake = tmp_path / "bin" / "reframe"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/started\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(references))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def planted(place: Path, **info) -> Path:
    """A database whose newest session is slower, and says this of itself."""
    slow = campaign(117, steps=[(SLOWER, 1.2)])
    # An id of its own: tests run side by side, and a ReFrame is known by its session.
    slow["session_info"] |= {"uuid": str(uuid.uuid4()), "hostname": "login17"}
    slow["session_info"] |= {"workdir": str(place), **info}
    return store(place / "results.db", slow)


def gate(monkeypatch, capsys, *words) -> tuple[int, str]:
    monkeypatch.setattr(sys, "argv", ["nearmetal", *map(str, words)])
    code = cli.main()
    said = capsys.readouterr()
    return code, said.out + said.err


def test_a_stored_configuration_or_check_is_never_loaded(place, monkeypatch, capsys):
    database = planted(place, cmdline="reframe -C evil_settings.py -c evil_check.py -r")
    code, said = gate(monkeypatch, capsys, "gate", "--confirm", "--database", database)
    assert code == 2 and not (place / "started").exists()
    assert "--config-file=evil_settings.py" in said and "--checkpath=evil_check.py" in said
    assert "--reframe='reframe --checkpath=evil_check.py --config-file=evil_settings.py'" in said


def test_a_module_below_the_stored_working_directory_is_never_run(place, monkeypatch, capsys):
    """The lab is started as root. `python -m` would find the module of the working directory."""
    evil = place / "nearmetal" / "lab" / "__main__.py"
    evil.parent.mkdir(parents=True)
    evil.write_text(f"open({str(place / 'started')!r}, 'w').write('evil')")
    (place / "nearmetal" / "__init__.py").touch()
    (evil.parent / "__init__.py").touch()
    monkeypatch.setattr(rerun, "ran_in_lab", lambda session: True)
    # The same module, which measures nothing in a lab that runs beside this test.
    monkeypatch.setattr(rerun, "LAB_EXEC", (*rerun.LAB_EXEC[:-1], "--help"))
    database = planted(place, hostname="login", cmdline=f"reframe -c {CHECKS} -r")
    code, said = gate(monkeypatch, capsys, "gate", "--confirm", "--database", database)
    assert code == 2 and not (place / "started").exists(), said
    assert "could not be measured again" in said


def test_a_database_of_somebody_else_starts_nothing_without_reframe(place, monkeypatch, capsys):
    database = planted(place, cmdline=f"reframe -c {CHECKS} -r")
    own = os.geteuid()
    monkeypatch.setattr(rerun.os, "geteuid", lambda: own + 1)
    code, said = gate(monkeypatch, capsys, "gate", "--confirm", "--database", database)
    assert code == 2 and not (place / "started").exists()
    assert rerun.user(own) in said and "--reframe" in said
    words = ("gate", "--confirm", "--reframe", "reframe", "--database", database)
    gate(monkeypatch, capsys, *words)
    assert (place / "started").exists()


@pytest.fixture
def confirming(place):
    """Function: start `nearmetal gate --confirm`; returns it, and its ReFrame's process."""
    database = planted(place, cmdline=f"reframe -c {CHECKS} -r")
    reframe = place / "bin" / "reframe"
    reframe.write_text(
        f"#!{sys.executable}\nimport os, pathlib, time\n"
        f"place = pathlib.Path({str(place)!r})\n"
        "try: (place / 'part').write_text(str(os.getpid())); "
        "os.rename(place / 'part', place / 'started'); time.sleep(60)\n"
        "except KeyboardInterrupt: (place / 'cancelled').touch()\n"
    )
    outputs = [f"--{name}={place}/{name}" for name in cli.FORMATS]
    started = []

    def start() -> tuple[subprocess.Popen, int]:
        words = [sys.executable, "-m", "nearmetal", "gate", "--confirm", "--database", database]
        process = subprocess.Popen(
            [*map(str, words), *outputs],
            cwd=CHECKOUT,
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        wait_until((place / "started").exists, 60, "ReFrame's start")
        started.append(int((place / "started").read_text()))
        return process, started[-1]

    yield start
    for number in started:
        if Path(f"/proc/{number}").exists():
            os.kill(number, signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_files_of_an_interrupted_confirmation_are_no_pass(place, confirming, number):
    process, _ = confirming()
    process.send_signal(number)
    if number == signal.SIGKILL:
        process.wait(timeout=30)
    else:
        process.communicate(timeout=30)
        assert process.returncode == 128 + number
        assert (place / "cancelled").exists(), "ReFrame cancels its jobs"
    document = json.loads((place / "json").read_text())
    assert (document["verdict"], document["exit_code"]) == ("regressed", 1)
    assert document["confirmed"] is False
    suite = ElementTree.parse(place / "junit").getroot()
    properties = {one.get("name"): one.get("value") for one in suite.iter("property")}
    assert properties == {"exit_code": "1", "confirmed": "no"}
    assert "Exit code 1; confirmed by fresh repeats: no." in (place / "markdown").read_text()
    metrics = (place / "openmetrics").read_text()
    assert 'nearmetal_exit_code{system="lab"} 1.0' in metrics
    assert 'nearmetal_confirmed{system="lab"} 0.0' in metrics


def test_a_reframe_that_a_killed_gate_left_is_named(place, confirming, monkeypatch, capsys):
    process, reframe = confirming()
    process.kill()
    process.wait(timeout=30)
    words = ("gate", "--confirm", "--database", place / "results.db")
    code, said = gate(monkeypatch, capsys, *words)
    assert code == 2 and f"process {reframe} of {rerun.user(os.getuid())}" in said
    assert f"kill -INT {reframe}" in said
