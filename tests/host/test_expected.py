"""ReFrame judges by expectations: a real ReFrame on a system without a scheduler and a baseline."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from nearmetal import results
from tests.support.paths import CHECKOUT

CHECK = """
import reframe as rfm
import reframe.core.builtins as builtin
import reframe.utility.sanity as sn
from nearmetal.checks.baselines import Baselined
from nearmetal.checks.expected import Expected


class base(rfm.RunOnlyRegressionTest, Expected, Baselined, special=True):
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "true"
    require_reference = True
    samples = builtin.variable(dict, value={}, loggable=True)
    facts = builtin.variable(dict, value={}, loggable=True)
    level = builtin.variable(float, value=6.0)
    compiler = builtin.variable(str, value="gcc -O2")

    @builtin.sanity_function
    def fine(self):
        return sn.assert_true(True)

    def expected_facts(self):
        return {**self.facts, "compiler": self.compiler}

    def check_performance(self):
        self.check_against_expectations(super().check_performance)

    @builtin.performance_function("Gb/s")
    def peak_bandwidth(self):
        launches = [self.level * (1 + number / 1000) for number in range(25)]
        self.samples = {**self.samples, "peak_bandwidth": launches}
        return sorted(launches)[12]


@rfm.simple_test
class tcp(base):
    pass
"""


class Site:
    """A system, ReFrame and the commands on it."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.database = directory / "results" / "results.db"
        (directory / "baselines").mkdir()
        (directory / "checks.py").write_text(CHECK)
        self.describe()

    def describe(self, **extras) -> None:
        """Write the system's file with these extras."""
        known = {"link_class": "native", "link_type": "ethernet", "link_speed_gbps": 10}
        partition = {
            "name": "one",
            "scheduler": "local",
            "launcher": "local",
            "environs": ["gnu"],
            "extras": {**known, "hypervisor": "none", **extras},
        }
        system = {"name": "here", "hostnames": [], "partitions": [partition]}
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
            [sys.executable, *command],
            env=environment,
            cwd=self.directory,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        return done.returncode, done.stdout

    def reframe(self, *options):
        words = ["-c", str(self.directory / "checks.py"), "--system", "here", "-r", *options]
        return self._run("-c", "from reframe.frontend.cli import main; main()", "--nocolor", *words)

    def nearmetal(self, *words):
        return self._run("-m", "nearmetal", *words)


@pytest.fixture
def here(tmp_path):
    return Site(tmp_path)


def told(text: str) -> str:
    """Output of ReFrame without its line breaks."""
    return " ".join(text.split())


def test_without_a_baseline_a_deviation_fails_the_case_with_its_sentence(here):
    code, out = here.reframe()
    assert code == 0, out
    code, out = here.reframe("-S", "tcp.level=0.93")
    assert code == 1 and "failed to meet reference" not in out, out
    sentence = (
        "TCP's 0.941 Gb/s is 9.41 % of the link's 10 Gb/s; a native NIC gave 82 % of 10 Gb/s "
        "(messaging paper, figure 4)"
    )
    assert sentence in told(out)
    [case] = results.load_session(here.database).cases
    assert case.phase == "performance" and case.measured and sentence in case.failure
    code, out = here.reframe("-S", "tcp.level=93")
    assert code == 1 and "link_speed_gbps is wrong in the system's file" in told(out)


def test_a_site_overrides_a_bound_and_a_wrong_one_fails_with_its_key(here):
    own = {"least": 0.5, "reason": "an old switch"}
    here.describe(expected={"tcp_share_native": own})
    code, out = here.reframe("-S", "tcp.level=0.93")
    assert code == 0, out
    own["least"] = "link_sped_gbps"
    here.describe(expected={"tcp_share_native": own})
    code, out = here.reframe()
    assert code == 1, out
    place = "here.yaml: here:one: extras.expected.tcp_share_native.least"
    assert f"{here.directory}/systems/{place}" in told(out).replace("/ ", "/"), out
    here.describe(expected={"tcp_share_native": {"least": 1}})
    code, out = here.reframe()
    assert code == 1 and "expected" in out and "reason" in out, out


@pytest.mark.parametrize("speed, least, most", [(10, 15, "10.2"), (1, 2, "1.02")])
def test_bounds_without_a_possible_value_fail_the_case_before_its_job(here, speed, least, most):
    own = {"least": least, "reason": "two ports are bonded here"}
    here.describe(link_speed_gbps=speed, expected={"tcp_share_native": own})
    code, out = here.reframe()
    said = told(out)
    assert code == 1 and "P: " not in said and "ValueError" not in said, out
    for words in (
        f"peak_bandwidth has no possible value: tcp_share_native expects at least {least}",
        f"link_rate expects at most {most} (1.02 * link_speed_gbps)",
        "here.yaml: here:one: extras.expected.tcp_share_native",
        "here.yaml: here:one: extras.link_speed_gbps",
    ):
        assert words in said, out


def test_a_site_drops_what_is_expected_of_a_fact(here):
    options = ("-S", "tcp.compiler=gcc -O0")
    code, out = here.reframe(*options)
    assert code == 1 and "the program was compiled without optimization" in told(out), out
    here.describe(expected={"optimized": {"matches": "none", "reason": "a debugger"}})
    assert here.reframe(*options)[0] == 0


def test_without_an_expectation_the_case_needs_a_reason(here):
    here.describe(link_type="software", link_speed_gbps="memory")
    code, out = here.reframe()
    assert code == 1 and "has no reference for peak_bandwidth" in told(out), out
    here.describe(link_type="software", link_speed_gbps="memory", no_baseline="it is new")
    assert here.reframe()[0] == 0


def test_beside_a_baseline_expectations_are_absolute_bounds(here):
    here.describe(no_baseline="it is new")
    assert here.reframe()[0] == 0
    code, out = here.nearmetal("baseline", "record", "--system", "here")
    assert code == 0, out
    here.describe()
    assert here.reframe()[0] == 0
    code, out = here.reframe("-S", "tcp.level=0.93")
    assert code == 1 and "failed to meet reference" in out and "a native NIC gave 82 %" in told(out)
    here.describe(link_speed_gbps=100, expected={"link_rate": {"most": 5, "reason": "a test"}})
    code, out = here.reframe()
    assert code == 1 and "failed to meet reference" not in out
    assert "The site's bound: a test" in told(out), out


def test_recording_a_baseline_of_a_sick_system_is_warned_of(here):
    here.describe(no_baseline="it is new")
    assert here.reframe("-S", "tcp.level=0.93")[0] == 1
    [case] = results.load_session(here.database).cases
    assert len(case.unexpected) == 1
    code, out = here.nearmetal("baseline", "record", "--system", "here")
    assert code == 0, out
    [warning] = [line for line in out.splitlines() if line.startswith("warning: ")]
    assert "tcp | one | gnu: peak_bandwidth: TCP's 0.941 Gb/s is 9.41 % of the link's" in warning
    assert "in 1 of 1 sessions" in warning and "bound of tcp_share_native" in warning
    code, out = here.reframe("-S", "tcp.level=0.93")
    assert code == 1 and "failed to meet reference" not in out and "9.41 %" in told(out)
