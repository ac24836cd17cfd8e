"""The example files of systems: valid, with their documents, and listed by a real ReFrame."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nearmetal.site.system import System, read_environments
from tests.support.paths import CHECKOUT

EXAMPLES = CHECKOUT / "site-config" / "examples"
FILES = sorted(EXAMPLES.glob("*.yaml"))
COMMON = read_environments(CHECKOUT / "site-config" / "environments.yaml")
SORTS = {"lmod-infiniband", "cray", "openhpc", "easybuild-eessi", "spack", "parallelcluster"}


def test_there_is_one_file_of_each_sort_of_site_and_a_line_on_it():
    assert {path.stem for path in FILES} == SORTS
    listed = re.findall(r"^\| `([\w-]+)\.yaml`", (EXAMPLES / "README.md").read_text(), re.M)
    assert set(listed) == SORTS


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_example_is_valid_and_names_its_documents(path):
    system = System.read(path, COMMON).document
    head = path.read_text().partition("\nname:")[0]
    assert re.search(r"^# Documents?: ", head, re.M) and "https://" in head
    assert all(partition["extras"]["source"] for partition in system["partitions"])
    assert all(one["access"] for one in system["partitions"])
    assert len({re.compile(pattern) for pattern in system["hostnames"]}) >= 2


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_reframe_generates_cases_for_each_environment(path, tmp_path):
    """A dry run: job scripts are written, but nothing is submitted."""
    system = System.read(path, COMMON).document
    own = {k: v for k, v in os.environ.items() if not k.startswith(("RFM_", "NEARMETAL_"))}
    done = subprocess.run(
        [
            *(Path(sys.executable).with_name("reframe"), "--nocolor", "--dry-run"),
            *("-c", "reframe_checks/launch.py", "-c", "reframe_checks/osnoise.py"),
            *("--skip-system-check", "--system", system["name"]),
        ],
        cwd=CHECKOUT,
        env={
            **own,
            "RFM_CONFIG_PATH": str(CHECKOUT / "site-config"),
            "RFM_RESOLVE_MODULE_CONFLICTS": "0",
            "RFM_PREFIX": str(tmp_path),
            "NEARMETAL_SYSTEMS_PATH": str(EXAMPLES),
        },
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == 0, done.stdout
    for partition in system["partitions"]:
        for name in partition["environs"]:
            place = rf"@{system['name']}:{partition['name']}\+{name}\b"
            assert re.search(place, done.stdout), done.stdout
    assert "FAILED" not in done.stdout
