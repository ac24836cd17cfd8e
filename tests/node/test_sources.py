"""The C programs build without a warning, and say in one sentence what they refuse.

What an MPI library may do otherwise is tried with both, and all else with one.

Run in the lab, whose node image has the compilers and both MPIs: `make test` does, or
make lab-exec CMD='python -m pytest tests/node/test_sources.py'.
"""

import os

import pytest

from nearmetal.checks.parsing.congestion import parse_congestion
from nearmetal.checks.parsing.multi_pair import parse_multi_pair
from nearmetal.checks.parsing.nodes import parse_nodes
from nearmetal.checks.parsing.pingpong import parse_imb
from nearmetal.checks.parsing.stream import parse_stream
from tests.support.programs import MPI, build, hosts_named_on, run

#: An MPI_Recv that damages one bit: what a broken NIC or transport would do.
FLIPPING = """#include <mpi.h>
int MPI_Recv(void *buffer, int n, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    int result = PMPI_Recv(buffer, n, type, source, tag, comm, status);
    if (n == 4096) ((unsigned char *)buffer)[1000] ^= 0x10;
    return result;
}
"""  # noqa: E501
EACH_MPI = pytest.mark.parametrize("mpi", MPI)


@pytest.fixture
def stream(programs):
    return programs["serial", "stream"]


def sentences(result, *names):
    """Those of the program; launchers add their own."""
    starts = tuple(f"{name}: " for name in names)
    return [line for line in result.stderr.splitlines() if line.startswith(starts)]


@EACH_MPI
def test_pingpong_measures_and_verifies(launch, mpi):
    """It sends all sizes before, as the program in Java does."""
    few = ["--iterations", 20, "--max-bytes", 65536]
    result = launch(mpi, 2, "pingpong", *few, "--rehearsals", 2)
    assert result.returncode == 0, result.stderr
    (measured,) = parse_imb(result.stdout)
    assert list(measured.rows) == [2**power for power in range(17)]
    assert measured.did["rehearsals"] == 2
    assert measured.facts["verified"] == "sizes=17"
    assert "host=" in measured.facts["rank 0"] and "host=" in measured.facts["rank 1"]


#: An MPI_Isend of which one byte arrives changed.
SENDING = """#include <mpi.h>
int MPI_Isend(const void *from, int n, MPI_Datatype a, int to, int tag, MPI_Comm comm,
              MPI_Request *r)
{
    if (n == 4096) ((unsigned char *)from)[1000] ^= 0x10;
    return PMPI_Isend(from, n, a, to, tag, comm, r);
}
"""


@EACH_MPI
def test_multi_pair_measures_and_verifies(launch, mpi):
    """One pair, two, and all three."""
    few = ["--max-time", 0.001, "--max-bytes", 4096]
    result = launch(mpi, 6, "multi_pair", *few)
    assert result.returncode == 0, result.stderr
    (measured,) = parse_multi_pair(result.stdout)
    assert list(measured.gbps) == [(pairs, ways) for pairs in (1, 2, 3) for ways in (1, 2)]
    assert all(list(sizes) == [8, 64, 512, 4096] for sizes in measured.gbps.values())
    assert measured.mmsg_per_s(3) > 0


def test_multi_pair_notices_a_flipped_bit(tmp_path):
    (tmp_path / "flip.c").write_text(SENDING)
    program = build("mpich", "multi_pair.c", tmp_path / "multi_pair", tmp_path / "flip.c")
    result = run([*MPI["mpich"], "-n", 2, program, "--max-bytes", 4096])
    assert result.returncode != 0 and "byte offset 1000 expected 0x" in result.stderr
    assert "# nearmetal complete" not in result.stdout


def test_multi_pair_does_not_wait_for_a_rank_that_hangs(programs):
    line = f"""
        [ "$PMI_RANK" = 0 ] || {{ (sleep 2; kill -STOP $$) & }}
        exec {programs["mpich", "multi_pair"]} --stall-timeout 1 --max-time 3"""
    result = run([*MPI["mpich"], "-n", 2, "sh", "-c", line])
    assert result.returncode != 0
    assert "no answer from rank 1 for 1 s" in "".join(sentences(result, "multi_pair"))


@pytest.mark.parametrize(
    "ranks, options, says",
    [(1, [], "1 ranks started"), (3, [], "3 ranks started"), (2, ["--max-bytes", 0], "not '0'")],
)
def test_multi_pair_refuses_and_speaks_once(launch, ranks, options, says):
    result = launch("mpich", ranks, "multi_pair", *options)
    assert result.returncode == 2
    assert len(sentences(result, "multi_pair")) == 1 and says in result.stderr


@pytest.mark.parametrize("slurm", ["n1", "", "n1.example.org"])
def test_a_rank_reports_the_kernels_name_of_its_host(programs, slurm):
    few = ["--iterations", 20, "--max-bytes", 1]
    command = [*MPI["mpich"], "-n", 2, programs["mpich", "pingpong"], *few]
    assert hosts_named_on("n1.example.org", command, SLURMD_NODENAME=slurm) == {"n1.example.org"}


def test_pingpong_takes_fewer_iterations_when_volume_or_time_is_short(launch):
    few = ["--iterations", 100, "--volume", 4096, "--max-bytes", 4096]
    rows = parse_imb(launch("openmpi", 2, "pingpong", *few).stdout)[0].rows
    assert (rows[1].repetitions, rows[128].repetitions, rows[4096].repetitions) == (100, 32, 5)
    short = ["--max-time", 0.001, "--min-iterations", 7, "--iterations", 10**6]
    rows = parse_imb(launch("openmpi", 2, "pingpong", *short).stdout)[0].rows
    assert rows[1].repetitions < 10**6 and rows[4 << 20].repetitions == 7


def test_pingpong_notices_a_flipped_bit(tmp_path):
    (tmp_path / "flip.c").write_text(FLIPPING)
    program = build("openmpi", "pingpong.c", tmp_path / "pingpong", tmp_path / "flip.c")
    result = run([*MPI["openmpi"], "-n", 2, program, "--iterations", 10])
    assert result.returncode == 3
    assert "byte offset 1000 expected 0x" in result.stderr
    assert "# nearmetal complete" not in result.stdout


@pytest.mark.parametrize(
    "ranks, options, says",
    [
        (1, ["--bogus"], "'--bogus' is no option"),
        (1, ["--iterations"], "--iterations needs a value"),
        (1, ["--iterations", "0"], "--iterations takes a whole number"),
        (1, ["--iterations", "1.5"], "takes a whole number"),
        (1, ["--max-time", "nan"], "--max-time takes a number"),
        (1, ["--max-bytes", "4MiB"], "not '4MiB'"),
        (1, ["--warmup", "-1"], "not '-1'"),
        (1, ["extra"], "'extra' is not expected"),
        (1, [], "2 ranks, but 1"),
        (3, [], "but 3 started"),
    ],
)
def test_pingpong_refuses_and_speaks_once(launch, ranks, options, says):
    result = launch("mpich", ranks, "pingpong", *options)
    assert result.returncode == 2
    assert len(sentences(result, "pingpong")) == 1 and says in sentences(result, "pingpong")[0]


@EACH_MPI
def test_pingpong_does_not_wait_for_a_rank_that_never_starts(programs, mpi):
    line = f"""
        [ "${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}" = 0 ] || exec sleep 100
        exec {programs[mpi, "pingpong"]} --stall-timeout 1"""
    result = run([*MPI[mpi], "-n", 2, "sh", "-c", line])
    assert result.returncode != 0
    assert "MPI has not started within 1 s on " in "".join(sentences(result, "pingpong"))


def test_pingpong_help(launch):
    result = launch("mpich", 1, "pingpong", "--help")
    assert result.returncode == 0
    for option in ("warmup", "iterations", "volume", "max-time", "min-iterations", "max-bytes"):
        assert f"--{option} " in result.stdout


def test_stream_measures_and_validates(stream):
    result = run([stream, "--threads", 1, "--elements", 100000, "--ntimes", 3])
    assert result.returncode == 0, result.stderr
    (launch,) = parse_stream(result.stdout)
    assert set(launch.tables) == {1} and launch.tables[1].validated
    assert "elements=100000 bytes_each=800000" in launch.facts["arrays"]


@pytest.mark.parametrize(
    "options, says",
    [
        (["--bogus"], "'--bogus' is no option"),
        (["--elements"], "--elements needs a value"),
        (["--elements", "many"], "not 'many'"),
        (["--elements", "100000000000000"], "more than 60% of the"),
        (["--ntimes", "1"], "whole number from 2 to 200"),
        (["--threads", "0"], "--threads takes a whole"),
        (["--threads", "1,"], "not ''"),
        (["--threads", "100000"], "not '100000'"),
        (["extra"], "'extra' is not expected"),
    ],
)
def test_stream_refuses(stream, options, says):
    result = run([stream, *options])
    assert result.returncode == 2 and result.stdout == ""
    assert len(sentences(result, "stream")) == 1 and says in sentences(result, "stream")[0]


def test_stream_notices_fewer_threads_than_asked_for(stream):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU: there are no two threads to be refused")
    result = run([stream, "--threads", 2, "--elements", 1000], OMP_THREAD_LIMIT="1")
    assert result.returncode == 2 and "OMP_THREAD_LIMIT" in result.stderr


def test_copy_is_no_memcpy(stream):
    """memcpy() may use streaming stores, and Copy would count traffic that did not happen."""
    assert "memcpy" not in run(["nm", "-D", stream]).stdout


@pytest.mark.parametrize("mpi", ["mpich", pytest.param("openmpi", marks=pytest.mark.whole)])
def test_nodes_measures_and_verifies(launch, mpi):
    options = ["--seconds", 1, "--megabytes", 1, "--repeats", 2, "--at-once", 1]
    result = launch(mpi, 2, "nodes", *options)
    assert result.returncode == 0, result.stderr
    (measured,) = parse_nodes(result.stdout)
    assert len(measured.nodes) == 1 and measured.did["repeats"] == 2
    # Where the machine is busy, the two processes may not run at the same time.
    assert set(measured.failed) <= {("shared_memory", 0)}, measured.failed
    for metric in ("memory", "processor", "noise", "memory_latency"):
        assert len(measured.values[metric, 0]) == 2


@pytest.mark.parametrize(
    "mpi, traffic, ranks",
    [
        ("openmpi", 1, 4),
        pytest.param("openmpi", 2, 7, marks=pytest.mark.whole),
        pytest.param("mpich", 1, 4, marks=pytest.mark.whole),
    ],
)
def test_congestion_measures_and_verifies(launch, mpi, traffic, ranks):
    options = ["--seconds", 6, "--rounds", 1, "--traffic", traffic, "--victims", ranks // 2]
    result = launch(mpi, ranks, "congestion", *options)
    assert result.returncode == 0, result.stderr
    (measured,) = parse_congestion(result.stdout)
    assert len(measured.victims) == ranks // 2 and not measured.failed, measured.failed
    for metric in ("latency", "bandwidth", "allreduce"):
        assert set(measured.ratios(metric)) == set(measured.victims)
    assert measured.received_gbps() > 0


@pytest.mark.parametrize(
    "name, ranks, options, says",
    [
        ("nodes", 1, [], "a node has one rank"),
        ("nodes", 2, ["--seconds", 0.1], "--seconds takes a number from 0.5"),
        ("nodes", 2, ["--megabytes", "x"], "--megabytes takes a whole number"),
        ("congestion", 3, [], "need 4 ranks, but 3"),
        ("congestion", 4, ["--victims", 3], "--victims is 3 of 4 ranks"),
        ("congestion", 4, ["--traffic", 3], "--traffic takes a whole number"),
        ("congestion", 4, ["--seconds", 0.1], "--seconds takes a number from 0.6"),
    ],
)
def test_what_programs_of_a_fleet_refuse(launch, name, ranks, options, says):
    result = launch("mpich", ranks, name, *options)
    said = sentences(result, name)
    assert result.returncode == 2 and len(said) == 1 and says in said[0], result.stderr
