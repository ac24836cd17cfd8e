"""ReFrame's choice among the systems' files, by its own command."""

import json
import os
import re
import subprocess
import sys

import pytest
import yaml

from tests.support.paths import CHECKOUT
from tests.support.reframe import REFRAME
from tests.support.systems import a_system

SITE_CONFIG = CHECKOUT / "site-config"


def reframe(*arguments, **environment) -> subprocess.CompletedProcess:
    """ReFrame's command without a modules system and without the settings of who runs the tests."""
    own = {k: v for k, v in os.environ.items() if not k.startswith(("RFM_", "NEARMETAL_"))}
    return subprocess.run(
        [*REFRAME, *arguments],
        env={
            **own,
            "RFM_CONFIG_PATH": str(SITE_CONFIG),
            "RFM_RESOLVE_MODULE_CONFLICTS": "0",
            **environment,
        },
        text=True,
        capture_output=True,
    )


def test_the_command_finds_a_sites_own_directory_first_and_writes_below_the_prefix(tmp_path):
    (tmp_path / "site.yml").write_text(yaml.safe_dump({**a_system(), "hostnames": [".*"]}))
    shown = reframe("--show-config", NEARMETAL_SYSTEMS_PATH=str(tmp_path), RFM_PREFIX="/elsewhere")
    assert shown.returncode == 0, shown.stdout + shown.stderr
    config, _ = json.JSONDecoder().raw_decode(shown.stdout)
    assert [system["name"] for system in config["systems"]] == ["here"]
    assert config["systems"][0]["prefix"] == "/elsewhere"
    assert config["storage"] == [{"enable": True, "sqlite_db_file": "/elsewhere/results.db"}]
    assert config["general"][0]["report_file"].startswith("/elsewhere/reports/")
    [console] = config["logging"][0]["handlers$"]
    assert (console["type"], console["level"]) == ("stream", "info")
    [perflog] = config["logging"][0]["handlers_perflog"]
    assert perflog["type"] == "filelog" and "%(check_#ALL)s" in perflog["format"]


def test_a_sites_own_system_replaces_ours_of_the_same_name(tmp_path):
    (tmp_path / "mine.yml").write_text(yaml.safe_dump({**a_system(), "name": "ec2"}))
    shown = reframe("--show-config", NEARMETAL_SYSTEMS_PATH=str(tmp_path), RFM_SYSTEM="ec2")
    config, _ = json.JSONDecoder().raw_decode(shown.stdout)
    assert [system["name"] for system in config["systems"]] == ["ec2"]
    assert [partition["name"] for partition in config["systems"][0]["partitions"]] == [
        p["name"] for p in a_system()["partitions"]
    ]
    (tmp_path / "twice.yml").write_text(yaml.safe_dump({**a_system(), "name": "ec2"}))
    failed = reframe("--show-config", NEARMETAL_SYSTEMS_PATH=str(tmp_path))
    assert failed.returncode == 1 and "is already defined in" in failed.stdout + failed.stderr


def test_a_key_that_is_there_twice_is_named_with_its_line(tmp_path):
    (tmp_path / "site.yaml").write_text("name: here\nhostnames: []\nname: there\n")
    failed = reframe("--system=here", "--show-config", NEARMETAL_SYSTEMS_PATH=str(tmp_path))
    said = failed.stdout + failed.stderr
    assert failed.returncode == 1
    assert "line 3" in said and "the key 'name'" in said and "site.yaml" in said


@pytest.mark.parametrize("path", ["/no/such/directory", "systems"])
def test_the_command_fails_where_a_sites_directory_is_wrong(path):
    failed = reframe("--system=lab", "--show-config", NEARMETAL_SYSTEMS_PATH=path)
    assert failed.returncode == 1
    assert f"{path}: " in failed.stdout + failed.stderr and "Fix: " in failed.stdout + failed.stderr


@pytest.mark.parametrize(
    "arguments, environment", [(["--system=ec3"], {}), ([], {"RFM_SYSTEM": "ec3"})]
)
def test_an_unknown_system_is_refused_however_it_is_asked_for(arguments, environment):
    failed = reframe(*arguments, "--show-config", **environment)
    assert failed.returncode == 1 and "did you mean ec2?" in failed.stdout + failed.stderr


def test_systems_of_a_sites_other_configuration_are_not_refused(tmp_path):
    (tmp_path / "settings.py").write_text(
        "site_configuration = {'systems': [{'name': 'other', 'hostnames': [], 'partitions': "
        "[{'name': 'login', 'scheduler': 'local', 'launcher': 'local', 'environs': "
        "['plain']}]}], 'environments': [{'name': 'plain'}]}"
    )
    path = f"{SITE_CONFIG}:{tmp_path}"
    shown = reframe("--system=other", "--show-config", RFM_CONFIG_PATH=path)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert reframe("--system=generic", "--show-config").returncode == 0


def test_what_reframe_imports_later_is_still_found_after_the_configuration_is_loaded():
    """ReFrame takes its own entry of sys.path away by position, which an entry put before it would
    move."""
    program = (
        "import sys; from reframe.core.config import load_config; before = list(sys.path); "
        f"load_config({str(SITE_CONFIG / 'settings.py')!r}); print(set(before) - set(sys.path))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, text=True, capture_output=True
    )
    assert done.stdout == "set()\n"


def test_the_papers_cluster_on_ec2_lists_every_check_that_a_document_needs():
    """NAMD is each site's own: its one case says so."""
    listed = reframe("-c", str(CHECKOUT / "reframe_checks"), "-lC", "--system", "ec2:cc").stdout
    cases = re.findall(r"^- (\S+)(.*) /\w{8} @ec2:cc\+(\S+)$", listed, re.M)
    assert f"Concretized {len(cases)} test case(s)" in listed
    of_apps = {check for check, _, environ in cases if environ == "apps-spack"}
    assert of_apps >= {"npb_mz", "eigen", "hpcc", "lammps", "nwchem", "gromacs", "npb"}
    assert ("npb_mz", " %benchmark=bt-mz %threads_are=bound", "apps-spack") in cases
    assert {check for check, _, _ in cases} == {
        *("pingpong", "collectives", "npb", "npb_mz", "launch", "affinity", "tcp", "osnoise"),
        *("stream", "stream_numa", "hpcc", "hpcg", "eigen", "lammps", "nwchem", "gromacs"),
        *("namd", "multi_pair"),
    }
