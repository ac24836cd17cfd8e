"""Duets measured in the lab."""

import re

import pytest

from nearmetal import results
from nearmetal.judge import duet
from tests.support.measured import printed, rows
from tests.support.said import lacking

CHECKS = ["-c", "reframe_checks/duet", "-r"]


def run(lab, prefix, *options) -> tuple[results.Case, str, tuple[str, ...], int]:
    """A duet in the lab, which must pass: its one case, and what `nearmetal duet` says of it."""
    done = lab.reframe(*CHECKS, *options, prefix=prefix)
    assert done.returncode == 0 and "Ran 1/1 test case(s)" in done.stdout, done.stdout
    session = duet.load(prefix / "results.db")
    [case] = session.cases
    return case, *printed(session)


def halves(case: results.Case, pairs: int) -> dict[str, tuple]:
    """The samples of A and B by variable, whole, and the unit that A and B have in common."""
    values = {value.variable: value for value in case.values}
    names = [name[:-2] for name in values if name.endswith("_a")]
    assert names and sorted(values) == sorted(
        f"{name}_{what}" for name in names for what in ("a", "b", "ratio")
    )
    for name in names:
        a, b, ratio = (values[f"{name}_{what}"] for what in ("a", "b", "ratio"))
        assert len(a.samples) == len(b.samples) == len(ratio.samples) == pairs
        assert a.unit == b.unit != ratio.unit == "1"
        assert list(ratio.samples) == pytest.approx(
            [y / x for x, y in zip(a.samples, b.samples)], rel=1e-5
        )
    return {name: (values[f"{name}_a"], values[f"{name}_b"]) for name in names}


@pytest.mark.whole
def test_two_mpis_are_each_built_and_launched_as_their_own(lab, prefix):
    case, text, missing, _ = run(
        lab,
        prefix,
        "--system",
        "lab:passthrough",
        "-n",
        "pingpong_duet%placement=intranode",
        "-S",
        "pairs=2",
    )
    assert halves(case, 2) and missing == ()
    a, b = case.facts["mpi_library"].split("; B: ")
    assert (
        a.startswith("A: Open MPI")
        and b.startswith("MPICH")
        and case.facts["transport"] == "shared memory"
    )
    assert "environs A openmpi, B mpich" in text


@pytest.mark.whole
@pytest.mark.ci
def test_java_and_c_are_each_built_and_launched_as_their_own(lab, prefix):
    case, text, missing, _ = run(
        lab,
        prefix,
        "--system",
        "lab:native",
        "-n",
        "pingpong_duet%placement=internode",
        "-S",
        "pairs=2",
        "-S",
        "java_warm_up=0.1",
        "-S",
        "environs=openmpi,mpj",
    )
    assert halves(case, 2) and missing == ()
    a, b = case.facts["mpi_library"].removeprefix("A: ").split("; B: ")
    assert a.startswith("Open MPI") and b == "MPJ Express 0.44, niodev"
    assert (
        case.facts["jvm"].startswith("library=express device=niodev")
        and case.facts["transport"] == "eth0 (veth)"
    )
    assert "published: startup_latency 55-60 and 140 us, B/A 2.33-2.55" in text


@pytest.mark.whole
def test_c_and_java_over_one_mpi_library(lab, prefix):
    a, b, library = "mpich", "mpj-native-mpich", "MPICH"
    case, text, missing, _ = run(
        lab,
        prefix,
        "--system",
        "lab:native",
        "-n",
        "pingpong_duet%placement=intranode",
        "-S",
        "pairs=2",
        "-S",
        f"environs={a},{b}",
        "-S",
        "java_buffers=off_heap",
        "-S",
        "java_warm_up=0.1",
        "-S",
        "java_heap_mb=256",
    )
    assert halves(case, 2) and missing == () and f"environs A {a}, B {b}" in text
    of_a, of_b = case.facts["mpi_library"].removeprefix("A: ").split("; B: ")
    assert of_a.startswith(library) and re.match(
        rf"mpj-native [\d.]+ over {re.escape(library)}", of_b
    )
    assert "buffers=off_heap" in case.facts["jvm"]
    assert set(case.curves) == {"half_round_trip_us_a", "half_round_trip_us_b"}
    assert {len(samples) for samples in case.curves["half_round_trip_us_b"].values()} == {2}
    [script] = (prefix / "output").rglob("rfm_job.sh")
    lines = [line for line in script.read_text().splitlines() if "--max-bytes" in line]
    assert len(lines) == 2 and all("--rehearsals 1" in line for line in lines), lines


@pytest.mark.whole
@pytest.mark.ci
def test_bound_and_unbound_threads_by_turns(lab, prefix):
    case, text, missing, _ = run(
        lab,
        prefix,
        "--system",
        "lab:native",
        "-n",
        "stream_duet",
        "-S",
        "elements=500000",
        "-S",
        "pairs=6",
    )
    assert "triad_1" in halves(case, 6) and missing == ()
    assert "bindings A bound, B unbound" in text and len(rows(text)) == len(halves(case, 6))


@pytest.mark.whole
def test_small_and_large_pages_by_turns(lab, prefix):
    case, text, missing, _ = run(
        lab,
        prefix,
        "--system",
        "lab:native",
        "-p",
        "^openmpi$",
        "-n",
        "pingpong_duet%placement=intranode",
        "-S",
        "page_sizes=small,large",
        "-S",
        "pairs=2",
    )
    assert halves(case, 2) and missing == () and case.facts["pages"] == "A: small; B: large"
    assert "page_sizes A small, B large" in text


@pytest.mark.whole
@pytest.mark.ci
def test_two_partitions_in_one_allocation(lab, prefix):
    case, text, *_ = run(
        lab,
        prefix,
        "--system",
        "lab",
        "-n",
        "pingpong_duet%placement=internode",
        "-p",
        "^mpich$",
        "-S",
        "partitions=native,emulated",
        "-S",
        "pairs=2",
    )
    assert (
        case.facts["transport"] == "A: eth0 (veth); B: eth0 (tap)"
        and lab.run("squeue --noheader") == ""
    )
    assert case.facts["nodes"] == ["emulated1", "emulated2", "native1", "native2"]
    native, emulated = halves(case, 2)["peak_bandwidth"]
    assert emulated.value < native.value / 2 and "partitions A native, B emulated" in text


@pytest.mark.parametrize(
    "options, facts",
    [
        (["-S", "environs=openmpi,mpihc"], ["'mpihc' is unknown", "gnu, mpich, mpich-sif, mpj"]),
        (
            ["-S", "partitions=native,emulated"],
            ["'emulated' is unknown", "give `--system lab`"],
        ),
        (["-S", "environs=openmpi,gnu"], ["lab:native", "environment 'gnu'", "without mpi"]),
        (["-S", "bindings=bound,unbound"], ["environs or partitions", "not bindings"]),
        (["-S", "environs=openmpi"], ["give A and B"]),
    ],
    ids=["unknown", "hidden", "unfit", "pointless", "one"],
)
def test_what_cannot_be_compared_is_said(lab, prefix, options, facts):
    done = lab.reframe(
        "-c",
        "reframe_checks/duet",
        "--dry-run",
        "--system",
        "lab:native",
        "-n",
        "pingpong_duet%placement=internode",
        *options,
        prefix=prefix,
    )
    assert not lacking(done.stdout, *facts) and "       OK" not in done.stdout, done.stdout


@pytest.mark.whole
def test_a_campaign_holds_no_duet(lab, prefix):
    done = lab.reframe("-l", prefix=prefix)
    assert "Found 22 check(s)" in done.stdout and "- pingpong_duet" not in done.stdout
