"""References in the lab: where ReFrame would pass a variable without one, or drop a check, the case
fails and says the fix; and the whole way from sessions to a baseline to a verdict, confirmed
through ReFrame."""

import os
import subprocess
import sys

import pytest
import yaml

from nearmetal.results import load_session, sessions
from nearmetal.util import files
from tests.support.paths import CHECKOUT
from tests.support.said import lacking

#: Sessions for baselines: minutes.
pytestmark = pytest.mark.whole

ONE = ["-n", "pingpong%placement=intranode", "-p", "^mpich$"]
VARIABLES = ["bandwidth_64KiB", "latency_1KiB", "peak_bandwidth", "startup_latency"]
BASELINE = """pingpong:
  $index: [$partition, $environ, placement]
  lab:native: {mpich: {intranode: {%s}}}
"""


@pytest.mark.ci
def test_what_ships_is_expected_of_ec2_on_the_first_run(lab, prefix):
    """`ec2:cc` in the lab, if its link were what the shipped file says: 10 Gb/s Ethernet."""
    system = yaml.safe_load((CHECKOUT / "site-config/lab/systems/ec2.yaml").read_text())
    system["partitions"][0]["extras"] |= {"link_type": "ethernet", "link_speed_gbps": 10}
    files.write(prefix / "systems" / "ec2.yaml", yaml.safe_dump(system))
    settings = {"NEARMETAL_SYSTEMS_PATH": str(prefix / "systems")}
    chosen = ["-r", "--system", "ec2:cc", "-n", "pingpong%placement=internode", "-p", "^mpich$"]
    done = lab.reframe(*chosen, prefix=prefix, **settings)
    assert done.returncode == 1, done.stdout
    [case] = load_session(prefix / "results.db").cases
    assert case.measured and case.unexpected and len(case.values) == 4
    assert not lacking(done.stdout, "% of the link's 10 Gb/s", "messaging paper"), done.stdout
    listed = lab("exec", f"env NEARMETAL_SYSTEMS_PATH={prefix}/systems nearmetal expect ec2:cc")
    assert not lacking(listed.stdout, "share_emulated", "latency_emulated")


@pytest.fixture
def dry_run(lab, prefix):
    """Dry run of one case on a system `lab` that exempts nothing, with references as given; (exit
    code, output)."""
    system = yaml.safe_load((CHECKOUT / "site-config" / "systems" / "lab.yaml").read_text())
    for partition in system["partitions"]:
        partition["extras"].pop("no_baseline", None)
    system["name"] = "site"

    def put(path, text):
        files.write(path, text)

    put(prefix / "systems" / "site.yaml", yaml.safe_dump(system))

    def run(text: str | None, *options):
        if text is not None:
            put(prefix / "site.yaml", text.replace("lab:", "site:"))
        done = lab.reframe(
            "--dry-run",
            "--system",
            "site:native",
            *(options or ONE),
            prefix=prefix,
            NEARMETAL_SYSTEMS_PATH=str(prefix / "systems"),
            RFM_REFERENCE_PREFIX=str(prefix),
        )
        return done.returncode, done.stdout

    return run


@pytest.mark.ci
def test_every_variable_with_a_reference_passes(dry_run):
    entries = ", ".join(
        f"{name}: [1, null, null, {'us' if 'latency' in name else 'Gb/s'}]" for name in VARIABLES
    )
    code, out = dry_run(BASELINE % entries)
    assert code == 0 and "Ran 1/1 test case(s)" in out, out


@pytest.mark.ci
@pytest.mark.parametrize(
    "text, missing",
    [
        # Of the start-up latency within a node, something is expected without a baseline.
        (None, "bandwidth_64KiB, latency_1KiB, peak_bandwidth"),
        ("other: {}\n", "bandwidth_64KiB, latency_1KiB, peak_bandwidth, startup_latency"),
        (
            BASELINE % "startup_latency: [1, null, null, us], latency_1KiB: [1, null, null, us]",
            "bandwidth_64KiB, peak_bandwidth",
        ),
    ],
    ids=["no file", "no entry", "two of four"],
)
def test_a_variable_without_reference_or_exemption_fails_in_a_dry_run(dry_run, text, missing):
    code, out = dry_run(text)
    assert code == 1, out
    case = "pingpong %placement=intranode", "site:native", "mpich"
    assert not lacking(out, f"no reference for {missing} ", *case, "Fix: ")


def test_a_check_that_names_its_variables_on_the_node_needs_its_references_too(dry_run):
    code, out = dry_run(None, "-n", "stream")
    assert code == 1 and "stream %binding=bound" in out, out


@pytest.mark.parametrize(
    "text",
    ["pingpong: [", "pingpong: 3\n", BASELINE % "startup_latency: fast"],
    ids=["no YAML", "no mapping", "no number"],
)
def test_a_damaged_file_fails_the_case_instead_of_dropping_it(dry_run, text):
    code, out = dry_run(text)
    assert code == 1 and "Ran 1/1 test case(s)" in out, out
    assert "site.yaml: not a file" in out


@pytest.mark.ci
def test_from_sessions_to_a_confirmed_verdict(lab, prefix):
    """A baseline of twenty launches, and a session of two, which are always too few: --confirm
    measures on until all is decided or `--most` launches are spent."""

    def measure(launches):
        done = lab.reframe(
            "-r",
            "--system",
            "lab:native",
            "-n",
            "stream%binding=bound",
            "-S",
            "threads=1",
            "-S",
            "elements=4000000",
            "-S",
            f"repeats={launches}",
            prefix=prefix,
        )
        assert done.returncode == 0, done.stdout

    def nearmetal(*words):
        return subprocess.run(
            [
                sys.executable,
                "-m",
                "nearmetal",
                *words,
                "--system",
                "lab",
                "--database",
                prefix / "results.db",
            ],
            env={**os.environ, "RFM_REFERENCE_PREFIX": str(prefix)},
            capture_output=True,
            text=True,
            cwd=CHECKOUT,
        )

    measure(20)
    recorded = nearmetal("baseline", "record", "--leave-out-noisy")
    assert recorded.returncode == 0 and "1 cases, " in recorded.stdout, recorded.stderr
    measure(2)
    case = load_session(prefix / "results.db").cases[0]
    assert [len(value.samples) for value in case.values] == [2] * 4
    assert all(len(value.within) == 2 and len(value.within[0]) > 1 for value in case.values)
    judged = nearmetal("gate")
    # No analysis has two repeats, and the verdict says what they would have shown.
    assert judged.returncode in (0, 2), judged.stdout + judged.stderr
    settled = nearmetal("gate", "--confirm=all", "--most", "10", "--all")
    assert "by `reframe`" in settled.stdout and "--reframe" in settled.stdout
    assert "confirm: round 1 of at most 4: 1 case, " in settled.stdout, settled.stderr
    assert settled.returncode in (0, 1, 2) and settled.stderr == ""
    stored = [
        len(session.cases[0].values[0].samples)
        for session in sessions(prefix / "results.db", kinds=("campaign", "confirmation"))
    ]
    assert stored[:2] == [20, 2] and sum(stored[2:]) == 10
    reports = [file.name for file in (prefix / "reports").iterdir()]
    assert len(reports) == len(stored), "a confirmation's report is beside the others"
    # The same verdict in the lab, where nothing is left to measure.
    places = f"RFM_PREFIX={prefix} RFM_REFERENCE_PREFIX={prefix}"
    again = lab(
        "exec", f"{places} nearmetal gate --system lab --confirm=all --most 10 --all", check=False
    )
    assert again.returncode == settled.returncode
    assert again.stdout.splitlines()[0] in settled.stdout
