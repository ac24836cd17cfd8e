"""What excuses a variable without reference: a real ReFrame and the commands, on a system without a
scheduler."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from nearmetal import results
from nearmetal.site import system as site
from tests.support.paths import CHECKOUT
from tests.support.reframe import REFRAME
from tests.support.said import lacking

CHECK = """
import random

import reframe as rfm
import reframe.core.builtins as builtin
import reframe.utility.sanity as sn
from nearmetal.checks.baselines import Baselined


class base(rfm.RunOnlyRegressionTest, Baselined):
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "true"
    require_reference = True
    samples = builtin.variable(dict, value={}, loggable=True)
    facts = builtin.variable(dict, value={}, loggable=True)
    level = builtin.variable(float, value=10.0)

    @builtin.sanity_function
    def fine(self):
        return sn.assert_true(True)

    @builtin.performance_function("% of ideal")
    def efficiency(self):
        launches = [self.level * random.uniform(0.99, 1.01) for _ in range(25)]
        self.samples = {**self.samples, "efficiency": launches}
        return sorted(launches)[12]


@rfm.simple_test
class old(base):
    pass


@rfm.simple_test
class new(base):
    pass
"""
REASON = "nobody has recorded one yet"


class Site:
    """A system of two partitions, ReFrame and the commands on it."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.database = directory / "results" / "results.db"
        self.baseline = directory / "baselines" / "here.yaml"

    def make(self) -> "Site":
        (self.directory / "baselines").mkdir()
        (self.directory / "checks.py").write_text(CHECK)
        self.describe(no_baseline=REASON)
        return self

    def copy(self, directory: Path) -> "Site":
        return Site(Path(shutil.copytree(self.directory, directory / "site")))

    def describe(self, **extras) -> None:
        """Write the system's file with these extras."""
        common = {"link_class": "native", "link_speed_gbps": 1, "hypervisor": "none", **extras}
        partitions = [
            {"name": name, "scheduler": "local", "launcher": "local", "environs": ["gnu"]}
            | {"extras": common}
            for name in ("one", "two")
        ]
        system = {"name": "here", "hostnames": [], "partitions": partitions}
        (self.directory / "systems").mkdir(exist_ok=True)
        (self.directory / "systems" / "here.yaml").write_text(yaml.safe_dump(system))

    def _run(self, *command):
        environment = {
            **os.environ,
            "RFM_CONFIG_PATH": str(CHECKOUT / "site-config"),
            "NEARMETAL_SYSTEMS_PATH": str(self.directory / "systems"),
            "RFM_PREFIX": str(self.directory / "results"),
            "RFM_REFERENCE_PREFIX": str(self.directory / "baselines"),
            "RFM_SQLITE_DB_FILE": str(self.database),
            "RFM_RESOLVE_MODULE_CONFLICTS": "0",
            "PYTHONPATH": str(CHECKOUT),
            "HOME": str(self.directory),
        }
        done = subprocess.run(
            command,
            env=environment,
            cwd=self.directory,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        return done.returncode, done.stdout

    def reframe(self, *options, system="here"):
        words = ["-c", str(self.directory / "checks.py"), "--system", system, *options]
        return self._run(*REFRAME, *words)

    def nearmetal(self, *words):
        return self._run(sys.executable, "-m", "nearmetal", *words, "--system", "here")


@pytest.fixture(scope="module")
def with_baseline(tmp_path_factory):
    """With a baseline of `old` on partition `one` alone."""
    site = Site(tmp_path_factory.mktemp("recorded")).make()
    code, out = site.reframe("-r", "-n", "old", system="here:one")
    assert code == 0, out
    code, site.said = site.nearmetal("baseline", "record")
    assert code == 0, site.said
    return site


@pytest.fixture
def recorded(with_baseline, tmp_path):
    """A copy, which a test may change."""
    return with_baseline.copy(tmp_path)


@pytest.fixture(scope="module")
def with_new_cases(with_baseline, tmp_path_factory):
    """After a run of both checks on both partitions."""
    site = with_baseline.copy(tmp_path_factory.mktemp("new"))
    site.said = {mode: site.reframe(mode) for mode in ("--dry-run", "-r")}
    site.gate = site.nearmetal("gate")
    return site


def test_without_a_baseline_the_partition_excuses_and_without_a_reason_the_case_fails(tmp_path):
    here = Site(tmp_path).make()
    code, out = here.reframe("-r", "-n", "old", system="here:one")
    assert code == 0, out
    [case] = results.load_session(here.database).cases
    assert case.no_baseline == "" and not case.unreferenced
    here.describe()
    for mode in ("-r", "--dry-run"):
        code, out = here.reframe(mode, "-n", "old", system="here:one")
        assert code == 1 and not lacking(out, "efficiency of old", "on here:one"), out
        assert "`no_baseline: <reason>`" in out


def test_record_names_file_line_and_partitions_of_the_keys_to_delete(with_baseline, recorded):
    file = with_baseline.directory / "systems" / "here.yaml"
    [note] = [line for line in with_baseline.said.splitlines() if "no_baseline" in line]
    assert note.startswith(f"note: {file}, line") and "extras of one, two" in note
    lines = file.read_text().splitlines()
    [named] = [int(word.rstrip(":")) for word in note.split() if word.rstrip(":").isdecimal()]
    assert "no_baseline" in lines[named - 1]
    assert note in with_baseline.nearmetal("baseline", "check")[1]
    recorded.describe()
    assert "no_baseline" not in recorded.nearmetal("baseline", "check")[1]


@pytest.mark.parametrize(
    "check, partition",
    [("old", "two"), ("new", "one")],
    ids=["new partition", "new check"],
)
def test_with_a_baseline_the_partition_excuses_nothing(with_new_cases, check, partition):
    for code, out in with_new_cases.said.values():
        assert code == 1 and "here.yaml" in out, out
        key = f"`no_baseline` in the extras of here:{partition} "
        assert not lacking(out, key, "excuses nothing")
        assert "`nearmetal baseline record --system here`" in out
    [case] = [
        case
        for case in results.load_session(with_new_cases.database).cases
        if (case.check, case.partition) == (check, partition)
    ]
    assert case.unreferenced == ("efficiency",) and case.measured and len(case.values) == 1
    code, out = with_new_cases.gate
    assert code == 2 and "baseline lacks this case" in out, out


def test_what_is_in_the_baseline_passes_whatever_the_key(with_new_cases):
    cases = results.load_session(with_new_cases.database).cases
    passed = [(case.check, case.partition) for case in cases if not case.failure]
    assert len(cases) == 4 and passed == [("old", "one")]


def test_new_cases_get_into_the_baseline_from_their_failures(with_new_cases, tmp_path):
    site = with_new_cases.copy(tmp_path)
    code, out = site.nearmetal("baseline", "record")
    assert code == 0 and not lacking(out, "4 cases", "4 variables", "1 sessions"), out
    code, out = site.reframe("-r")
    assert code == 0, out
    assert site.nearmetal("gate")[0] == 0


def test_a_reason_on_the_command_line_excuses_one_run(recorded):
    words = ["-n", "old|new", "-S", "new.no_baseline=it came yesterday"]
    code, out = recorded.reframe("-r", *words, system="here:one")
    assert code == 0, out
    code, out = recorded.nearmetal("gate")
    assert code == 0 and "it came yesterday" in out, out


def test_an_efficiency_at_a_tenth_fails_and_one_above_passes(recorded):
    code, out = recorded.reframe("-r", "-n", "old", "-S", "level=1", system="here:one")
    assert code == 1 and "failed to meet reference" in out, out
    code, out = recorded.reframe("-r", "-n", "old", "-S", "level=15", system="here:one")
    assert code == 0, out


def test_a_baseline_of_an_older_version_fails_the_case_with_the_fix(recorded):
    text = recorded.baseline.read_text()
    recorded.baseline.write_text(text.replace("  format: 2\n", ""))
    code, out = recorded.reframe("-r", "-n", "old", system="here:one")
    assert code == 1 and "Ran 1/1 test case(s)" in out, out
    assert "baseline.format" in out and "--system here --only-bounds" in out
    assert recorded.nearmetal("baseline", "record", "--only-bounds")[0] == 0
    assert recorded.baseline.read_text() == text


#: Keys of a partition, but for its extras, and extras, as a system's file has them.
PARTITION = "<<: {name: a, scheduler: local, launcher: local, environs: [gnu]}\n"
EXTRAS = "{link_class: native, link_speed_gbps: 10, hypervisor: none}"


@pytest.mark.parametrize(
    "text, lines",
    [
        ("partitions: []\n", None),
        (f"partitions:\n  - &a\n    {PARTITION}    extras: {EXTRAS}\n", None),
        (
            (
                f"partitions:\n  - &a\n    {PARTITION}    extras: &x\n      <<: {EXTRAS}\n"
                "      no_baseline: new\n  - <<: *a\n    name: b\n    extras: {<<: *x}\n"
            ),
            "line 8: delete `no_baseline` from the extras of a, b:",
        ),
        (
            (
                f"partitions:\n  - &a\n    {PARTITION}    extras:\n      <<: &x {EXTRAS}\n"
                "      no_baseline: new\n"
                "  - <<: *a\n    name: b\n    extras: {<<: *x, no_baseline: new}\n"
            ),
            "lines 8, 11: delete `no_baseline` from the extras of a, b:",
        ),
    ],
)
def test_keys_to_delete_are_found_where_they_are_written(tmp_path, monkeypatch, text, lines):
    monkeypatch.setenv("NEARMETAL_SYSTEMS_PATH", str(tmp_path))
    (tmp_path / "broken.yaml").write_text("{")
    (tmp_path / "here.yaml").write_text(f"name: here\nhostnames: []\n{text}")
    found = site.obsolete_keys("here")
    assert found == [] if lines is None else lines in found[0]
    assert site.obsolete_keys("elsewhere") == []
