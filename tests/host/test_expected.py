"""ReFrame judges by expectations: a real ReFrame on a system without a scheduler and a baseline.

One run measures on all partitions. Each has its own extras and its own level of bandwidth.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from nearmetal import results
from tests.support.paths import CHECKOUT
from tests.support.reframe import REFRAME

CHECK = """
import json
import os

import reframe as rfm
import reframe.core.builtins as builtin
import reframe.utility.sanity as sn
from nearmetal.checks.baselines import Baselined
from nearmetal.checks.expected import Expected

LEVELS = json.loads(os.environ["LEVELS"])


class base(rfm.RunOnlyRegressionTest, Expected, Baselined, special=True):
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "true"
    require_reference = True
    samples = builtin.variable(dict, value={}, loggable=True)
    facts = builtin.variable(dict, value={}, loggable=True)

    @builtin.sanity_function
    def fine(self):
        return sn.assert_true(True)

    def expected_facts(self):
        unoptimized = "not_optimized" in self.current_partition.name
        return {**self.facts, "compiler": "gcc -O0" if unoptimized else "gcc -O2"}

    def check_performance(self):
        self.check_against_expectations(super().check_performance)

    @builtin.performance_function("Gb/s")
    def peak_bandwidth(self):
        level = LEVELS.get(self.current_partition.name, 6.0)
        launches = [level * (1 + number / 1000) for number in range(25)]
        self.samples = {**self.samples, "peak_bandwidth": launches}
        return sorted(launches)[12]


@rfm.simple_test
class tcp(base):
    pass
"""
KNOWN = {"link_class": "native", "link_type": "ethernet", "link_speed_gbps": 10}
UNKNOWN_LINK = {"link_type": "software", "link_speed_gbps": "memory"}


def at_least(least) -> dict:
    return {"expected": {"tcp_share_native": {"least": least, "reason": "two ports are bonded"}}}


#: Extras by partition.
EXTRAS = {
    "well": {},
    "slow": {},
    "fast": {},
    "old_switch": at_least(0.5),
    "wrong_key": at_least("link_sped_gbps"),
    "bonded_10": at_least(15),
    "bonded_1": {"link_speed_gbps": 1, **at_least(2)},
    "not_optimized": {},
    "not_optimized_debugger": {
        "expected": {"optimized": {"matches": "none", "reason": "a debugger"}}
    },
    "no_reason": UNKNOWN_LINK,
    "a_reason": {**UNKNOWN_LINK, "no_baseline": "it is new"},
}
#: Levels of bandwidth that are not 6 Gb/s.
SLOW = 0.93
LEVELS = {"slow": SLOW, "fast": 93, "old_switch": SLOW}
#: Extras of partitions that get a baseline.
WITH_BASELINE = {
    "well": {},
    "gets_slow": {},
    "gets_a_bound": {
        "link_speed_gbps": 100,
        "expected": {"link_rate": {"most": 5, "reason": "a test"}},
    },
    "sick": {},
}
STEM = "TCP's 0.941 Gb/s is 9.41 % of the link's"
SENTENCE = f"{STEM} 10 Gb/s; a native NIC gave 82 % of 10 Gb/s (messaging paper, figure 4)"


class Site:
    """A system, ReFrame and the commands on it."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.database = directory / "results" / "results.db"
        (directory / "baselines").mkdir()
        (directory / "checks.py").write_text(CHECK)

    def describe(self, extras: dict) -> None:
        """Write the system's file with these extras by partition."""
        partitions = [
            {
                "name": name,
                "scheduler": "local",
                "launcher": "local",
                "environs": ["gnu"],
                "extras": {**KNOWN, "hypervisor": "none", **own},
            }
            for name, own in extras.items()
        ]
        system = {"name": "here", "hostnames": [], "partitions": partitions}
        (self.directory / "systems").mkdir(exist_ok=True)
        (self.directory / "systems" / "here.yaml").write_text(yaml.safe_dump(system))

    def _run(self, *command, levels=()):
        environment = {
            **os.environ,
            "LEVELS": json.dumps(dict(levels)),
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

    def reframe(self, levels=()):
        words = ["-c", str(self.directory / "checks.py"), "--system", "here", "-r"]
        return self._run(*REFRAME, *words, levels=levels)

    def nearmetal(self, *words):
        return self._run(sys.executable, "-m", "nearmetal", *words)

    def cases(self) -> dict[str, results.Case]:
        """Cases of the newest session by partition."""
        return {case.partition: case for case in results.load_session(self.database).cases}


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """After a run on all partitions without a baseline."""
    site = Site(tmp_path_factory.mktemp("site"))
    site.describe(EXTRAS)
    code, site.said = site.reframe(LEVELS)
    assert code == 1, site.said
    site.before = site.cases()
    assert set(site.before) == set(EXTRAS), site.said
    return site


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """After a run whose values were recorded as the baseline, and another run."""
    site = Site(tmp_path_factory.mktemp("recorded"))
    site.describe({name: {"no_baseline": "it is new"} for name in WITH_BASELINE})
    code, out = site.reframe({"sick": SLOW})
    assert code == 1, out
    site.before = site.cases()
    code, site.said = site.nearmetal("baseline", "record", "--system", "here")
    assert code == 0, site.said
    site.describe(WITH_BASELINE)
    code, out = site.reframe({"gets_slow": SLOW, "sick": SLOW})
    assert code == 1, out
    return site


def test_without_a_baseline_a_deviation_fails_the_case_with_its_sentence(here):
    well, slow, fast = (here.before[name] for name in ("well", "slow", "fast"))
    assert not well.failure
    assert slow.phase == "performance" and slow.measured and SENTENCE in slow.failure
    assert "failed to meet reference" not in slow.failure
    assert SENTENCE in " ".join(here.said.split())
    assert "link_speed_gbps is wrong in the system's file" in fast.failure


def test_a_site_overrides_a_bound_and_a_wrong_one_fails_with_its_key(here):
    assert not here.before["old_switch"].failure
    place = "here.yaml: here:wrong_key: extras.expected.tcp_share_native.least"
    assert f"{here.directory}/systems/{place}" in here.before["wrong_key"].failure


def test_a_bound_without_a_reason_is_refused(tmp_path):
    site = Site(tmp_path)
    site.describe({"one": {"expected": {"tcp_share_native": {"least": 1}}}})
    code, out = site.reframe()
    assert code == 1 and "expected" in out and "reason" in out, out


@pytest.mark.parametrize("speed, least, most", [(10, 15, "10.2"), (1, 2, "1.02")])
def test_bounds_without_a_possible_value_fail_the_case_before_its_job(here, speed, least, most):
    case = here.before[f"bonded_{speed}"]
    assert not case.values and "ValueError" not in case.failure
    for words in (
        f"peak_bandwidth has no possible value: tcp_share_native expects at least {least}",
        f"link_rate expects at most {most} (1.02 * link_speed_gbps)",
        f"here.yaml: here:bonded_{speed}: extras.expected.tcp_share_native",
        f"here.yaml: here:bonded_{speed}: extras.link_speed_gbps",
    ):
        assert words in case.failure


def test_a_site_drops_what_is_expected_of_a_fact(here):
    said = "the program was compiled without optimization"
    assert said in here.before["not_optimized"].failure
    assert not here.before["not_optimized_debugger"].failure


def test_without_an_expectation_the_case_needs_a_reason(here):
    assert "has no reference for peak_bandwidth" in here.before["no_reason"].failure
    assert not here.before["a_reason"].failure


def test_beside_a_baseline_expectations_are_absolute_bounds(recorded):
    failures = {name: case.failure for name, case in recorded.cases().items()}
    assert not failures["well"]
    slow, bound = failures["gets_slow"], failures["gets_a_bound"]
    assert "failed to meet reference" in slow and "a native NIC gave 82 %" in slow
    assert "failed to meet reference" not in bound and "The site's bound: a test" in bound


def test_recording_a_baseline_of_a_sick_system_is_warned_of(recorded):
    assert len(recorded.before["sick"].unexpected) == 1
    [warning] = [line for line in recorded.said.splitlines() if line.startswith("warning: ")]
    assert f"tcp | sick | gnu: peak_bandwidth: {STEM}" in warning
    assert "in 1 of 1 sessions" in warning and "bound of tcp_share_native" in warning
    again = recorded.cases()["sick"].failure
    assert "failed to meet reference" not in again and "9.41 %" in again
