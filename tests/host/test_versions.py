"""Dry runs of all checks with each supported ReFrame, and with Python 3.9 where it is installed.

Also of `init` and `doctor`, which run on a cluster as well. `make versions` installs them below
.venv. Nothing is there but reframe-hpc with what it needs, orjson, and Jinja2, which 4.7 does not
bring.
"""

import os
import re
import subprocess

import pytest

from tests.support.campaigns import campaign
from tests.support.paths import CHECKOUT
from tests.support.recorded import store

INSTALLED = sorted((CHECKOUT / ".venv").glob("reframe-*/bin/reframe"))
EACH = pytest.mark.parametrize("program", INSTALLED, ids=lambda path: path.parts[-3])
NEEDED = pytest.mark.skipif(
    not INSTALLED, reason="`make versions` installs the versions of ReFrame"
)


def run(tmp_path, *command) -> subprocess.CompletedProcess:
    own = {k: v for k, v in os.environ.items() if not k.startswith(("RFM_", "NEARMETAL_"))}
    return subprocess.run(
        command,
        env={
            **own,
            "RFM_CONFIG_PATH": str(CHECKOUT / "site-config"),
            "RFM_RESOLVE_MODULE_CONFLICTS": "0",
            "RFM_PREFIX": str(tmp_path),
            "PYTHONPATH": str(CHECKOUT),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        text=True,
        capture_output=True,
    )


@NEEDED
@EACH
def test_a_version_runs_all_checks_or_is_refused(program, tmp_path):
    words = ("--nocolor", "-c", CHECKOUT / "reframe_checks", "--dry-run", "--system=ec2")
    done = run(tmp_path, program, *words)
    said = done.stdout + done.stderr
    if "reframe-4.6" in str(program):
        assert done.returncode == 1 and "needs 4.7 or newer" in said, said
        return
    assert done.returncode == 0, said
    ran, of = re.search(r"Ran (\d+)/(\d+) test case", said).groups()
    assert int(ran) > 50 and int(of) > 100 and "WARNING: skipping" not in said


@NEEDED
@EACH
def test_init_doctor_and_results_need_no_other_package(program, tmp_path):
    def python(*words) -> subprocess.CompletedProcess:
        done = run(tmp_path, program.with_name("python"), *words)
        assert "Traceback" not in done.stderr, done.stderr
        return done

    helped = python("-m", "nearmetal", "init", "--help")
    assert helped.returncode == 0 and "--no-jobs" in helped.stdout, helped.stderr
    doctor = python("-m", "nearmetal", "doctor", "--no-jobs", "ec2")
    assert doctor.returncode == 2 and "missing: " in doctor.stdout, doctor.stderr
    database = store(tmp_path / "results.db", campaign(1), campaign(2))
    code = (
        "import sys; from nearmetal import results; print(len(list(results.sessions(sys.argv[1]))))"
    )
    assert python("-c", code, database).stdout == "2\n"
    judged = python("-m", "nearmetal", "gate", "--database", database)
    assert judged.returncode == 3 and "pip install 'nearmetal[report]'" in judged.stderr
