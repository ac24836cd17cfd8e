"""Jobs of a user whose language has a decimal comma, with each awk that a node may have."""

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from nearmetal.checks.recorded import Recorded
from tests.host.test_foreign_runs import MEASURED, only_case, reframe, site  # noqa: F401
from tests.support.marked import marked
from tests.unit.test_disturbance import USAGE, WHOLE, cpu, judged, snapshot

AWKS = {"mawk": ("mawk",), "gawk": ("gawk",), "busybox": ("busybox", "awk")}


@pytest.fixture(scope="module")
def german(tmp_path_factory):
    """Environment of a German user."""
    place = tmp_path_factory.mktemp("locale")
    command = ["localedef", "-i", "de_DE", "-f", "UTF-8", str(place / "de_DE.UTF-8")]
    subprocess.run(command, check=True)
    return {"LOCPATH": str(place), "LC_ALL": "de_DE.UTF-8"}


def on_path(place: Path, awk: str) -> str:
    """A PATH on which `awk` is this one."""
    (place / "awk").write_text(f'#!/bin/sh\nexec {" ".join(AWKS[awk])} "$@"\n')
    (place / "awk").chmod(0o755)
    return f"{place}:{os.environ['PATH']}"


@pytest.mark.parametrize("awk", AWKS)
def test_no_locale_changes_what_a_job_records(site, german, tmp_path, awk):
    words = reframe("-n", "^loops$", "-S", "repeats=2", checks=MEASURED)
    done = site(*words, **german, PATH=on_path(tmp_path, awk))
    assert done.returncode == 0, done.stdout
    case = only_case(tmp_path / "results.db")
    assert case.evidence[0] and not case.unknown_evidence


@pytest.mark.parametrize(
    "asked, lines",
    [
        ({}, []),
        ({"LC_ALL": "de_DE.UTF-8", "OTHER": "1"}, ["export LC_ALL=de_DE.UTF-8"]),
        ({"LANG": "de_DE.UTF-8"}, ["unset LC_ALL"]),
    ],
)
def test_a_launch_keeps_the_locale_that_its_check_asks_for(asked, lines):
    check = SimpleNamespace(env_vars=dict(asked))
    assert Recorded.use_the_c_locale(check) == lines
    assert check.env_vars == {**asked, "LC_ALL": "C"}


@pytest.mark.parametrize("awk", AWKS)
def test_each_awk_decides_alike(tmp_path, awk):
    used = cpu(busy=320, steal=80, idle=200)
    parts = {
        "facts": marked(WHOLE),
        "before": marked(snapshot(1.25, **cpu(idle=0))),
        "after": marked(snapshot(3.75, **used)),
        "output": "# nearmetal repeat: 1\n" + USAGE.format("n1", 1.5, 1.5, 0.5),
    }
    found = judged(tmp_path, "waited=0.1 stolen=0.1", AWKS[awk], **parts)
    assert found == judged(tmp_path, "waited=0.1 stolen=0.1", **parts)
    assert found[0] == 1 and "disturbed 1 n1 waited 0.25 0.1\n" in found[1]
