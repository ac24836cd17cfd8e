"""One case for each link class and MPI, and one in Java."""

import re
import subprocess
import sys

import pytest

from nearmetal.results import load_session
from tests.support.lab import fresh_prefix
from tests.support.measured import CARRIERS, cases
from tests.support.paths import CHECKOUT

INTERNODE = ["-n", "pingpong%placement=internode"]
SHORT = ["-S", "pingpong.repeats=1", "--max-retries=2"]


@pytest.fixture(scope="module")
def measured(lab):
    """Where the results of the ping-pong are, by both MPIs on all links."""
    prefix = fresh_prefix(lab, "links")
    chosen = ["--system", "lab", "-p", "^(openmpi|mpich)$", *INTERNODE]
    done = lab.reframe("-r", *chosen, *SHORT, prefix=prefix, timeout=600)
    assert done.returncode == 0, done.stdout
    return prefix / "results.db"


def test_both_mpis_are_measured_on_every_link(measured):
    session = load_session(measured)
    found = {(value.environ, value.partition) for value in session.values}
    assert found == {(mpi, link) for mpi in ("openmpi", "mpich") for link in CARRIERS}
    assert all(0 < value.value < 1e9 for value in session.values)
    for case in cases(measured):
        assert case["transport"] == CARRIERS[case["partition"]]
        assert {len(samples) for samples in case["samples"].values()} == {1}


def test_the_comparison_has_a_column_for_each_link(measured):
    done = subprocess.run(
        [sys.executable, "-m", "nearmetal", "compare", "--database", measured],
        capture_output=True,
        text=True,
        cwd=CHECKOUT,
    )
    assert (done.returncode, done.stderr) == (0, "")
    columns = [*CARRIERS, "overhead passthrough", "overhead emulated"]
    assert re.search(" +".join(map(re.escape, columns)), done.stdout)


@pytest.mark.whole
@pytest.mark.ci
def test_pairs_of_ranks_are_measured_on_every_link(lab):
    """Two pairs, whose ranks share the one core of a node."""
    prefix = fresh_prefix(lab, "pairs")
    chosen = ["--system", "lab", "-p", "^(openmpi|mpich)$", "-n", "^multi_pair$"]
    short = ["-S", "multi_pair.repeats=1", "-S", "multi_pair.pairs=2", "--max-retries=2"]
    done = lab.reframe("-r", *chosen, *short, prefix=prefix, timeout=600)
    assert done.returncode == 0, done.stdout
    values = load_session(prefix / "results.db").values
    places = {(value.environ, value.partition) for value in values}
    assert places == {(mpi, link) for mpi in ("openmpi", "mpich") for link in CARRIERS}
    rates = ("bandwidth", "bidirectional", "message_rate")
    names = {f"{rate}_{pairs}" for rate in rates for pairs in (1, 2)}
    assert {value.variable for value in values} == {*names, "nic_bytes", "busiest_nic"}
    for value in values:
        if value.variable in ("nic_bytes", "busiest_nic"):
            assert 95 < value.value < 200, value
    for case in cases(prefix / "results.db"):
        assert case["transport"] == CARRIERS[case["partition"]]


def test_java_is_measured(lab, prefix):
    """With a warm-up that is too short for a figure."""
    chosen = ["--system", "lab:native", "-p", "^mpj$", *INTERNODE]
    warm_up = ["-S", "pingpong.java_warm_up=0.1"]
    done = lab.reframe("-r", *chosen, *SHORT, *warm_up, prefix=prefix, timeout=300)
    assert done.returncode == 0, done.stdout
    [case] = cases(prefix / "results.db")
    assert case["mpi_library"].startswith("MPJ Express") and "jvm" in case["facts"]
    assert case["transport"] == CARRIERS["native"]
