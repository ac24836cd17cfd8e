"""A run whose session ReFrame cannot store fails, and values that no reader takes are not stored.

The runs are real, of one small check on this machine, without the lab.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nearmetal import results
from tests.support.paths import CHECKOUT, SOURCES
from tests.support.said import lacking

SITE = """
name: here
modules_system: nomod
hostnames: []
partitions:
  - name: native
    scheduler: local
    launcher: local
    environs: [gnu]
    extras: {no_baseline: a test, link_class: native, link_speed_gbps: 1, hypervisor: none, cores_per_node: 2,
             expected: {time_lost: {most: 100, reason: the machine may be busy}}}
"""  # noqa: E501
REFRAME = ["reframe", "--nocolor", "--system", "here", "-S", "repeats=1"]
RUN = [*REFRAME, "-c", "reframe_checks/osnoise.py", "-S", "osnoise.seconds=0.1"]
STORED = "Current session stored"


@pytest.fixture
def place(tmp_path):
    """A directory with the site's file, the database's own directory, and the results'."""
    for name in ("site", "database", "results"):
        (tmp_path / name).mkdir()
    (tmp_path / "site" / "here.yaml").write_text(SITE)
    return tmp_path


def environment(place: Path, **settings: str) -> dict[str, str]:
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "RFM_CONFIG_PATH": str(CHECKOUT / "site-config"),
        "NEARMETAL_SYSTEMS_PATH": str(place / "site"),
        "RFM_PREFIX": str(place / "results"),
        "RFM_SQLITE_DB_FILE": str(place / "database" / "results.db"),
        **settings,
    }


def run(place: Path, *options: str, command=RUN, before: str = "", **settings: str):
    """Runs the check, after commands as root of namespaces of its own where some are given: (exit
    code, output)."""
    words = [*command, *options]
    if before:
        inside = ["sh", "-ec", f'{before}; exec "$@"', "sh", *words]
        words = ["unshare", "--mount", "--map-root-user", *inside]
    done = subprocess.run(
        words,
        cwd=CHECKOUT,
        env=environment(place, **settings),
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=120,
    )
    return done.returncode, done.stdout


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A database that ReFrame made."""
    place = tmp_path_factory.mktemp("whole")
    for name in ("site", "database", "results"):
        (place / name).mkdir()
    (place / "site" / "here.yaml").write_text(SITE)
    code, out = run(place, "-r")
    assert code == 0 and STORED in out, out
    return place / "database" / "results.db"


def test_a_run_whose_session_is_stored_passes(whole, place):
    database = shutil.copy(whole, place / "database")
    code, out = run(place, "-r")
    assert code == 0 and STORED in out, out
    assert len(list(results.sessions(Path(database)))) == 2
    # With ReFrame's own tables the commands agree as well.
    assert results.load_session(Path(database)).system == "here"


def empty(database):
    database.write_bytes(b"")


def cut(database):
    os.truncate(database, database.stat().st_size // 2)


def without_tables(database):
    database.unlink()
    subprocess.run(
        [
            "python3",
            "-c",
            f"import sqlite3; sqlite3.connect({str(database)!r}).execute('CREATE TABLE x(y)')",
        ]
    )


@pytest.mark.parametrize("damage", [empty, cut, without_tables])
def test_a_run_on_a_damaged_database_fails_before_it_measures(whole, place, damage):
    database = Path(shutil.copy(whole, place / "database"))
    damage(database)
    code, out = run(place, "-r")
    assert code == 1 and not lacking(out, f"{database}: ", "can be stored", "Fix: move"), out
    assert "Failing phase: setup" in out and "P: " not in out


@pytest.mark.parametrize(
    "before, named",
    [
        ("mount --bind {0} {0}; mount -o remount,ro,bind {0}", "let ReFrame's user write"),
        (("mount --bind {0}/results.db {0}/results.db; mount -o remount,ro,bind "
            "{0}/results.db"), "let ReFrame's user write"),
        (("cp {0}/results.db {0}.db; mount -t tmpfs -o size=2m tmpfs {0}; cp "
            "{0}.db {0}/results.db"), "make space"),
    ],
    ids=["read-only directory", "read-only file", "full disk"],
)  # fmt: skip
def test_a_run_whose_database_cannot_be_written_fails_before_it_measures(
    whole, place, before, named
):
    shutil.copy(whole, place / "database")
    code, out = run(place, "-r", before=before.format(place / "database"))
    assert code == 1 and "session can be stored" in out and named in out.replace("Make", "make")
    assert "Failing phase: setup" in out and "P: " not in out


def test_the_commands_see_that_the_newest_run_was_not_stored(place):
    """As a user meets it: results where they usually are, a file that became read-only, and the
    next campaign."""
    settings = {"RFM_SQLITE_DB_FILE": str(place / "results" / "results.db")}
    assert run(place, "-r", **settings)[0] == 0
    file = settings["RFM_SQLITE_DB_FILE"]
    before = f"mount --bind {file} {file}; mount -o remount,ro,bind {file}"
    code, out = run(place, "-r", before=before, **settings)
    assert code == 1 and "failed to store results" in out, out
    words = [sys.executable, "-m", "nearmetal", "compare"]
    done = subprocess.run(
        words, env=environment(place, **settings), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "") and "run-report-1.json" in done.stderr
    # A dry run writes a report and stores nothing: it changes nothing in what is known.
    (place / "results" / "reports" / "run-report-1.json").unlink()
    assert run(place, "--dry-run", **settings)[0] == 0
    assert (place / "results" / "reports" / "run-report-1.json").exists()
    done = subprocess.run(
        words, env=environment(place, **settings), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


MADE_UP = """
import reframe as rfm
from reframe.core.builtins import run_before
from reframe_checks.osnoise import osnoise as tested


@rfm.simple_test
class {name}(tested):
    '''Runs a command before its launches.'''

    sourcesdir = "{sources}"

    @run_before("run")
    def begin(self):
        self.prerun_cmds += ["{command}"]
"""


def write_check(path, name, command):
    """A check like osnoise, which runs a command before its launches."""
    path.write_text(MADE_UP.format(name=name, command=command, sources=SOURCES))


@pytest.fixture
def waiting(place):
    """A run that has set its case up, and ends once the file `go` exists."""
    write_check(place / "waits.py", "osnoise", f"until [ -e {place}/go ]; do sleep 0.1; done")
    process = subprocess.Popen(
        [*REFRAME, "-c", str(place / "waits.py"), "-S", "osnoise.seconds=0.1", "-r"],
        cwd=CHECKOUT,
        env=environment(place, PYTHONPATH=str(CHECKOUT)),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    # The job's script is there once the case is set up, and the database looked at.
    script = place / "results" / "stage" / "here" / "native" / "gnu" / "osnoise" / "rfm_job.sh"
    while not script.exists():
        assert process.poll() is None, process.stdout.read()
        time.sleep(0.05)
    yield process
    (place / "go").touch()
    process.communicate(timeout=60)


def test_a_database_that_breaks_during_the_run_fails_it_at_its_end(place, waiting):
    database = place / "database" / "results.db"
    database.write_bytes(b"")
    (place / "go").touch()
    said, _ = waiting.communicate(timeout=60)
    assert waiting.returncode == 1, said
    assert "PASSED" in said and f"{database}: " in said


def test_a_run_in_the_stage_directories_of_another_is_refused(place, waiting):
    for option in ("-r", "--dry-run"):
        code, out = run(place, option)
        assert code == 1 and not lacking(out, f"process {waiting.pid} of ", "Fix: wait"), out
        assert "[ RUN" not in out
    for options in (["-l"], ["--dry-run", f"--stage={place}/stage"]):
        code, out = run(place, *options)
        assert code == 0, out
    (place / "go").touch()
    out, _ = waiting.communicate(timeout=60)
    assert waiting.returncode == 0, out


@pytest.mark.parametrize(
    "options, settings",
    [(["--dry-run"], {}), (["-l"], {}), (["-r"], {"RFM_ENABLE_RESULTS_STORAGE": "0"})],
    ids=["dry run", "list", "storing is off"],
)
def test_what_stores_nothing_needs_no_database(place, options, settings):
    (place / "database" / "results.db").write_bytes(b"")
    code, out = run(place, *options, **settings)
    assert code == 0 and "no session" not in out and "did not store" not in out, out


MAKES_SPACE = (
    "head -c 9M /dev/zero > x 2> /tmp/$$ || (rm x; cat /tmp/$$; rm /tmp/$$; seq 4) >&2; exit 1"
)


@pytest.mark.parametrize(
    "fill, size, named",
    [
        ("head -c 9M /dev/zero > x || true", "3m", "the file system of {stage} is full. Fix: "),
        (MAKES_SPACE, "3m", "a disk was full, or its quota used up (head: error writing"),
        ("", "100k", "the file system of {stage} is full. Fix: "),
    ],
    ids=["during the job", "and has space again", "from the start"],
)
def test_a_full_stage_directory_is_the_reason(place, fill, size, named):
    write_check(place / "check.py", "fills", fill)
    only = [*REFRAME, "-c", str(place / "check.py"), "-S", "fills.seconds=0.1", "-r"]
    before = f"mount -t tmpfs -o size={size} tmpfs {place}/results"
    code, out = run(place, command=only, before=before, PYTHONPATH=str(CHECKOUT))
    [session] = results.sessions(place / "database" / "results.db")
    stage = place / "results" / "stage" / "here" / "native" / "gnu" / "fills"
    [why] = [case.failure for case in session.cases]
    assert code == 1 and f"error: {named.format(stage=stage)}" in why, out


BROKEN = """
import reframe as rfm
from reframe.core.builtins import performance_function, run_before
from reframe_checks.osnoise import osnoise as tested


class broken(tested, special=True):
    '''Measures something that is no number.'''

    sourcesdir = "{sources}"

    @performance_function("us")
    def startup(self):
        return self.over_launches("startup", self.gives, self.gives_within)

    @run_before("performance")
    def keep_curves(self):
        self.curves = {{"latency_us": {{8: self.gives_curve}}}}
"""
#: A check of it by name: its values, those within a repeat, and its curve; what is said of it.
BROKEN_CHECKS = {
    "values": ("[1.0, float('nan')]", "[]", "[1.0]", "startup is nan"),
    "within": ("[1.0]", "[[1.0, float('-inf')]]", "[1.0]", "startup is -inf"),
    "curve": ("[1.0]", "[]", "[1.0, float('inf')]", "latency_us is inf"),
}


def test_what_is_no_number_is_refused_before_it_is_stored(place):
    text = BROKEN.format(sources=SOURCES)
    for name, (values, within, curve, _) in BROKEN_CHECKS.items():
        text += f"\n\n@rfm.simple_test\nclass {name}(broken):\n    gives = {values}\n"
        text += f"    gives_within = {within}\n    gives_curve = {curve}\n"
    (place / "check.py").write_text(text)
    only = [*REFRAME, "-c", str(place / "check.py"), "-S", "seconds=0.1", "-r"]
    code, out = run(place, command=only, PYTHONPATH=str(CHECKOUT))
    assert code == 1, out
    [session] = results.sessions(place / "database" / "results.db")
    assert {case.check for case in session.cases} == set(BROKEN_CHECKS)
    for case in session.cases:
        assert BROKEN_CHECKS[case.check][-1] in case.failure
