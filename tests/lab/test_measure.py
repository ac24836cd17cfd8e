"""The suite on a NIC passed through, and on `ec2:cc`, an emulated one, as README types it.

test_links.py measures messages on every link.
"""

import re
import warnings

import pytest

from nearmetal.checks import sources
from nearmetal.results import load_session
from tests.support.lab import IMAGES, fresh_prefix
from tests.support.measured import CARRIERS, cases, runs
from tests.support.paths import CHECKOUT

#: Minutes.
pytestmark = pytest.mark.whole

#: STREAM's arrays are small or passed over twice, since by its own rules a launch takes half a
#: minute where the processor's cache is large.
SHORT_STREAM = ["-S", "stream.elements=20000000", "-S", "stream_numa.ntimes=2"]
#: The default is a matter of tests/host/test_settings.py.
ONE_LAUNCH = ["-S", "repeats=1", *SHORT_STREAM, "--max-retries=2"]
#: Checks of one node, and those whose messages others send as well.
NO_LINK = "^(stream|osnoise|affinity|npb%benchmark=(cg|ep|is|mg)|nwchem|gromacs|lammps)"
INTERNODE, INTRANODE = (f"pingpong %placement={place}" for place in ("internode", "intranode"))
VARIABLES = ["startup_latency", "latency_1KiB", "bandwidth_64KiB", "peak_bandwidth"]


def assert_all_ran_but_namd(said: str, database) -> None:
    """Every chosen case ran; only NAMD's is skipped, as the lab has none, and what images and Spack
    provide. These cases name the command that does."""
    ran, chosen = map(int, re.search(r"Ran (\d+)/(\d+) test case", said).groups())
    skipped = int(re.search(r"(\d+) skipped", said)[1])
    assert ran == chosen - skipped
    without = set()
    for case in runs(database)[0]["testcases"]:
        if case["result"] == "skip":
            provided = re.search("make images|spack -e ", case["skip_reason"])
            without.add(provided[0] if provided else case["name"].split("_")[0])
    assert "namd" in without and without <= {"namd", "make images", "spack -e "}


@pytest.fixture(scope="module")
def on_link(lab):
    """What depends on a link, measured over a NIC passed through: its prefix.

    Java, and what no link changes, is measured on `ec2:cc` below.
    """
    prefix = fresh_prefix(lab, "on_link")
    # Open MPI 5.0.7 crashes in MPI_Init between nodes once in a hundred launches
    # (open-mpi/ompi#12495): such a case fails, as it should, and is run again.
    chosen = ["--system", "lab:passthrough", "-p", "^(openmpi|mpich|gnu)$", "-x", NO_LINK]
    done = lab.reframe("-r", *chosen, *ONE_LAUNCH, prefix=prefix, timeout=1200)
    assert done.returncode == 0, done.stdout
    for case in (
        case
        for run in runs(prefix / "results.db")
        for case in run["testcases"]
        if case["result"] == "fail"
    ):
        warnings.warn(
            f"run again: {case['display_name']} on {case['partition']}: {case['fail_reason']}",
            stacklevel=1,
        )
    assert_all_ran_but_namd(done.stdout, prefix / "results.db")
    return prefix


@pytest.mark.ci
def test_messages_are_measured_by_both_mpis_and_shared_memory_is_faster(on_link):
    session = load_session(on_link / "results.db")
    values = {(v.check, v.environ, v.variable): v.value for v in session.values}
    assert all(0 < value < 1e9 for value in values.values())
    for environ in ("openmpi", "mpich"):
        for variable in VARIABLES:
            assert (INTERNODE, environ, variable) in values
        within, between = (
            values[check, environ, "startup_latency"] for check in (INTRANODE, INTERNODE)
        )
        assert within < between


@pytest.mark.ci
def test_the_transport_that_carried_the_bytes_is_recorded(on_link):
    for case in cases(on_link / "results.db"):
        name = case["display_name"]
        if "intranode" in name or "hpcc" in name:
            assert case["transport"] == "shared memory"
        elif name.startswith(
            ("pingpong", "tcp", "multi_pair", "collectives", "npb %benchmark=ft", "eigen")
        ):
            assert case["transport"] == CARRIERS[case["partition"]], name


@pytest.mark.ci
def test_every_case_says_what_it_was_measured_on(on_link):
    for case in cases(on_link / "results.db"):
        for fact in (
            "kernel",
            "hypervisor",
            "cpu_model",
            "governor",
            "smt",
            "thp",
            "nic_driver",
            "mtu",
            "revision",
        ):
            assert case[fact], (case["display_name"], fact)
        if "pingpong" in case["display_name"]:
            assert {"openmpi": "Open MPI v", "mpich": "MPICH Version"}[case["environ"]] in case[
                "mpi_library"
            ]
            assert case["compiler"].startswith("gcc ")
            assert case["facts"]["sources"] == sources.digest()
        assert case["samples"] and all(len(values) == 1 for values in case["samples"].values())


@pytest.fixture(scope="module")
def on_cc(lab):
    """The session of the command that everything serves."""
    options = " ".join([*ONE_LAUNCH, "-S", "java_warm_up=0.1"])
    command = f"reframe -c reframe_checks -r --system ec2:cc {options}"
    done = lab("exec", command, check=False, timeout=2400)
    assert done.returncode == 0, done.stdout
    database = CHECKOUT / "results" / "results.db"
    assert_all_ran_but_namd(done.stdout, database)
    return load_session(database, "ec2")


@pytest.mark.ci
def test_the_command_that_everything_serves(on_cc):
    assert {value.partition for value in on_cc.values} == {"cc"} and on_cc.failures == []
    assert {len(value.samples) for value in on_cc.values} == {1}


@pytest.mark.ci
def test_links_differ_as_they_should(on_link, on_cc):
    """Not figures, which are the machine's, but their order: a user-space switch costs many times
    what a NIC passed through costs."""
    passed, switched = (
        {(v.environ, v.variable): v.value for v in session.values if v.check == INTERNODE}
        for session in (load_session(on_link / "results.db"), on_cc)
    )
    for mpi in ("openmpi", "mpich"):
        assert switched[mpi, "startup_latency"] > 2 * passed[mpi, "startup_latency"]
        assert switched[mpi, "peak_bandwidth"] < passed[mpi, "peak_bandwidth"] / 2


@pytest.mark.ci
def test_java_is_measured_with_its_device_and_transport(on_cc):
    for case in on_cc.cases:
        if case.environ != "mpj":
            continue
        assert case.facts["mpi_library"].startswith("MPJ Express 0.44, ")
        assert case.facts["compiler"].startswith("OpenJDK ")
        if not case.check.startswith(("pingpong", "npb %benchmark=ft")):
            continue
        intranode = "intranode" in case.check
        assert f"device={'threads' if intranode else 'niodev'} heap=256MB" in case.facts["jvm"]
        assert case.facts["jvm.warm_up"] != "not told"
        carrier = "shared memory" if intranode else CARRIERS["emulated"]
        assert case.facts["transport"] == carrier, case.check
    values = {(v.check, v.variable): v.value for v in on_cc.values if v.environ == "mpj"}
    between, within = values[INTERNODE, "peak_bandwidth"], values[INTRANODE, "peak_bandwidth"]
    assert within > between
    # A user-space switch takes most of the time: its scheduling makes the one or the other faster.
    assert values[INTERNODE, "latency_over_sockets"] > 0


def test_the_command_that_everything_serves_runs_in_images_too(lab, built_images, prefix):
    done = lab.reframe(
        *("-r", "--system", "ec2:cc", "-p", ".*-sif$", "-n", "^pingpong%placement=internode"),
        *("-S", "repeats=1", "-S", "java_warm_up=0.1", "--max-retries=2"),
        prefix=prefix,
        timeout=900,
        NEARMETAL_IMAGES=str(IMAGES),
    )
    assert "Ran 4/4 test case(s)" in done.stdout and done.returncode == 0, done.stdout
    ran = {case["environ"]: case for case in cases(prefix / "results.db")}
    assert set(ran) == {"openmpi-sif", "mpich-sif", "mpj-native-sif", "mpj-sif"}
    for environ, case in ran.items():
        image = {"mpj-sif": "mpj-native"}.get(environ, environ.removesuffix("-sif"))
        assert case["image"].endswith(f" {built_images[image]['digest']}"), environ
        assert case["transport"] == CARRIERS["emulated"], environ
    session = load_session(prefix / "results.db", "ec2")
    assert {len(value.samples) for value in session.values} == {1}


def kept_by_guests(lab) -> dict:
    """What guests keep of their speed, by partition and variable, in a run of its own."""
    prefix = fresh_prefix(lab, "guests")
    options = ["-S", "pingpong.repeats=1", "--max-retries=2"]
    done = lab.reframe("-r", "--system", "guests", *options, prefix=prefix, timeout=600)
    assert "Ran 4/4 test case(s)" in done.stdout and done.returncode == 0, done.stdout
    return {
        (v.partition, v.variable): v.value
        for v in load_session(prefix / "results.db").values
        if v.variable.startswith("kept")
    }


def test_a_switch_each_costs_guests_of_one_host_more_than_one_switch(lab):
    for _ in range(3):  # a busy host may hide it once
        kept = kept_by_guests(lab)
        pairs = [
            [kept[partition, f"kept_S_4_guests_{guests}"] for partition in ("vswitch", "vswitches")]
            for guests in (2, 4)
        ]
        if all(several * 1.3 < one < 100 for one, several in pairs):
            return
    pytest.fail(f"one switch and several keep {pairs} %")


def test_guests_of_one_host_run_an_application(lab, prefix):
    options = ["-n", "^vswitch$", "-S", "vswitch.application=lammps"]
    done = lab.reframe(
        *("-r", "--system", "guests:vswitch", *options, "-S", "repeats=1", "--max-retries=2"),
        prefix=prefix,
        timeout=600,
    )
    assert done.returncode == 0 and "Ran 1/1 test case(s)" in done.stdout, done.stdout
    [case] = cases(prefix / "results.db")
    assert case["facts"]["application"].lower().startswith("lammps")
    # Messages between four guests crossed the switch.
    assert "eth0 (tap)" in case["transport"]
    names = [value.variable for value in load_session(prefix / "results.db").values]
    assert sorted(names) == sorted(
        [
            *(f"timesteps_S_4_guests_{guests}" for guests in (1, 2, 4)),
            *(f"kept_lammps_S_4_guests_{guests}" for guests in (2, 4)),
        ]
    )
