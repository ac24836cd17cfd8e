"""Our checks run for real with the oldest ReFrame that is supported.

`make versions` holds all checks against every one by dry runs.
"""

import subprocess

import pytest

from nearmetal.results import load_session
from nearmetal.site import versions
from tests.support.paths import CHECKOUT

pytestmark = pytest.mark.whole
OLDEST = ".".join(map(str, versions.OLDEST[:2]))
INSTALLED = CHECKOUT / ".venv" / f"lab-reframe-{OLDEST}"


@pytest.fixture(scope="module")
def oldest(lab):
    """The command that runs it on the login node, by its Python and without the lab's packages."""
    subprocess.run(["make", f"{INSTALLED.relative_to(CHECKOUT)}/ready"], cwd=CHECKOUT, check=True)
    return f"PYTHONPATH={INSTALLED}:{CHECKOUT} /usr/bin/python3 {INSTALLED}/bin/reframe"


@pytest.mark.ci
def test_the_oldest_reframe_measures(lab, oldest, prefix):
    done = lab(
        "exec",
        f"RFM_PREFIX={prefix} {oldest} --nocolor -c reframe_checks -r --system lab:native "
        "-n 'pingpong%placement=internode' -p '^(openmpi|mpich)$' -S repeats=1",
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout
    assert f"version:           {OLDEST}." in done.stdout
    session = load_session(prefix / "results.db")
    assert {case.environ for case in session.cases} == {"openmpi", "mpich"}
    assert {case.facts["transport"] for case in session.cases} == {"eth0 (veth)"}
    assert all(case.values and not case.failure for case in session.cases)
