"""The lab's user attacks root, who reads its results: by what a session names, and by files."""

import os
import shlex
import subprocess

import pytest

from tests.support.campaigns import campaign
from tests.support.lab import give
from tests.support.paths import CHECKOUT
from tests.support.recorded import store
from tests.support.sweeps import links_of, session

pytestmark = [pytest.mark.whole, pytest.mark.ci]

#: Names that Python or ReFrame could load from a working directory.
PLANTED = (
    *("nearmetal/__init__.py", "nearmetal/lab/__init__.py", "nearmetal/lab/__main__.py"),
    *("sitecustomize.py", "usercustomize.py", "settings.py", "evil_settings.py", "evil_check.py"),
    *("reframe.py", "reframe/__init__.py", "json.py", "argparse.py"),
)
SLOWER = ("", "emulated", "mpich", "startup_latency")
#: Command lines of a session: one that names the attacker's files, and one that looks well.
EVIL = "reframe -C {place}/evil_settings.py -c {place}/evil_check.py -r --system lab"
PLAIN = "reframe -c reframe_checks -r --system lab"


@pytest.fixture
def attacked(lab, prefix, tmp_path):
    """The attacker's directory, and the file that only root could make there."""
    mark = tmp_path / "root-was-here"
    code = f"open({str(mark)!r}, 'w').close()"
    for name in PLANTED:
        plant(lab, prefix / name, code)
    plant(lab, prefix / "bash", f"#!/bin/sh\ntouch {shlex.quote(str(mark))}\n")
    lab.run(f"chmod 755 {shlex.quote(str(prefix / 'bash'))}")
    return prefix, mark


def plant(lab, path, text: str) -> None:
    """Write a file as the lab's user."""
    place, name = shlex.quote(str(path.parent)), shlex.quote(str(path))
    lab.run(f"mkdir -p {place} && printf %s {shlex.quote(text)} > {name}")


def with_info(data: dict, **info) -> dict:
    data["session_info"] |= info
    return data


@pytest.mark.skipif(os.geteuid() != 0, reason="attacks root: run it as root")
def test_no_command_of_root_runs_what_the_labs_user_planted(lab, attacked, tmp_path):
    place, mark = attacked
    plain = {"hostname": "login", "workdir": str(place), "cmdline": PLAIN}
    evil = {"hostname": "login17", "workdir": str(place), "cmdline": EVIL.format(place=place)}
    healthy = [with_info(campaign(number), **(plain, evil)[number % 2]) for number in range(12)]
    links = links_of({(0, 1): (60, 3, 3)})
    own = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "RFM_PREFIX": str(place),
        "RFM_REFERENCE_PREFIX": str(place / "baselines"),
    }

    def run(*words, directory=place) -> None:
        done = subprocess.run(
            [CHECKOUT / ".venv" / "bin" / "nearmetal", *words],
            cwd=directory,
            env=own,
            stdin=subprocess.DEVNULL,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=120,
        )
        assert done.returncode in (0, 1, 2, 3), done.stdout
        assert "unforeseen" not in done.stdout, done.stdout
        assert not mark.exists(), done.stdout

    def stored(name: str, *sessions) -> None:
        give(place / "results.db", store(tmp_path / name, *sessions).read_bytes())

    stored("healthy.db", *healthy)
    run("baseline", "record")
    # What a session names attacks from any directory; planted modules attack from theirs.
    for info, directory in ((plain, place), (evil, CHECKOUT)):
        host = info["hostname"]
        slow = with_info(campaign(117, steps=[(SLOWER, 1.3)]), **info)
        swept = with_info(session(links, 118), **info)
        stored(f"slow-{host}.db", *healthy, slow)
        gate = ("gate", "--confirm=all", "--within", "5s", "--json", str(place / "gate.json"))
        run(*gate, directory=directory)
        stored(f"swept-{host}.db", *healthy, slow, swept)
        run("fleet", "--confirm", "--within", "5s", directory=directory)
    for name in ("report", "explain", "duet", "compare", "history", "export", "baseline"):
        outputs = {"export": ["--csv", str(place / "x.csv")], "baseline": ["check"]}
        run(name, *outputs.get(name, []))
    run("doctor", "lab", "--no-jobs", "--directory", str(place / "doctor"))
    run("init", "planted", "--no-jobs", "--directory", str(place / "systems"))
