"""The C programs build without a warning, and say in one sentence what they refuse.

Run in the lab, whose node image has the compilers and both MPIs: `make test` does, or
make lab-exec CMD='python -m pytest tests/node/test_sources.py'.
"""

import os

import pytest

from nearmetal.checks.parsing.congestion import parse_congestion
from nearmetal.checks.parsing.nodes import parse_nodes
from nearmetal.checks.parsing.pingpong import parse_imb
from nearmetal.checks.parsing.stream import parse_stream
from tests.support.paths import SOURCES
from tests.support.programs import build, hosts_named_on, run

#: An MPI_Recv that damages one bit: what a broken NIC or transport would do.
FLIPPING = """#include <mpi.h>
int MPI_Recv(void *buffer, int n, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    int result = PMPI_Recv(buffer, n, type, source, tag, comm, status);
    if (n == 4096) ((unsigned char *)buffer)[1000] ^= 0x10;
    return result;
}
"""  # noqa: E501


@pytest.fixture(scope="module")
def stream(tmp_path_factory):
    return build(
        "cc", [SOURCES / "stream.c"], tmp_path_factory.mktemp("stream") / "stream", "-fopenmp"
    )


@pytest.fixture(scope="module")
def pingpong(mpi, tmp_path_factory):
    """(launcher, program) of the ping-pong of one MPI."""
    compiler, launcher = mpi
    return launcher, build(
        compiler, [SOURCES / "pingpong.c"], tmp_path_factory.mktemp("pingpong") / "pingpong"
    )


def sentences(result):
    """Those of the program; launchers add their own."""
    return [
        line for line in result.stderr.splitlines() if line.startswith(("pingpong: ", "stream: "))
    ]


def test_pingpong_measures_and_verifies(pingpong):
    launcher, program = pingpong
    result = run([*launcher, "-n", 2, program, "--iterations", 20, "--max-bytes", 65536])
    assert result.returncode == 0, result.stderr
    (launch,) = parse_imb(result.stdout)
    assert list(launch.rows) == [2**power for power in range(17)]
    assert launch.facts["verified"] == "sizes=17"
    assert "host=" in launch.facts["rank 0"] and "host=" in launch.facts["rank 1"]


@pytest.mark.parametrize("slurm", ["n1", "", "n1.example.org"])
def test_a_rank_reports_the_kernels_name_of_its_host(pingpong, slurm):
    launcher, program = pingpong
    few = ["--iterations", 20, "--max-bytes", 1]
    command = [*launcher, "-n", 2, program, *few]
    assert hosts_named_on("n1.example.org", command, SLURMD_NODENAME=slurm) == {"n1.example.org"}


def test_pingpong_sends_all_sizes_before_as_the_program_in_java_does(pingpong):
    launcher, program = pingpong
    few = ["--iterations", 20, "--max-bytes", 65536]
    result = run([*launcher, "-n", 2, program, *few, "--rehearsals", 2])
    assert result.returncode == 0, result.stderr
    (launch,) = parse_imb(result.stdout)
    assert len(launch.rows) == 17 and launch.did["rehearsals"] == 2


def test_pingpong_takes_fewer_iterations_when_volume_or_time_is_short(pingpong):
    launcher, program = pingpong
    result = run(
        [*launcher, "-n", 2, program, "--iterations", 100, "--volume", 4096, "--max-bytes", 4096]
    )
    rows = parse_imb(result.stdout)[0].rows
    assert (rows[1].repetitions, rows[128].repetitions, rows[4096].repetitions) == (100, 32, 5)
    result = run(
        [
            *launcher,
            "-n",
            2,
            program,
            "--max-time",
            0.001,
            "--min-iterations",
            7,
            "--iterations",
            10**6,
        ]
    )
    rows = parse_imb(result.stdout)[0].rows
    assert rows[1].repetitions < 10**6 and rows[4 << 20].repetitions == 7


def test_pingpong_notices_a_flipped_bit(mpi, tmp_path):
    compiler, launcher = mpi
    (tmp_path / "flip.c").write_text(FLIPPING)
    program = build(compiler, [SOURCES / "pingpong.c", tmp_path / "flip.c"], tmp_path / "pingpong")
    result = run([*launcher, "-n", 2, program, "--iterations", 10])
    assert result.returncode == 3
    assert "byte offset 1000 expected 0x" in result.stderr
    assert "# nearmetal complete" not in result.stdout


@pytest.mark.parametrize(
    "options, says",
    [
        (["--bogus"], "'--bogus' is no option"),
        (["--iterations"], "--iterations needs a value"),
        (["--iterations", "0"], "--iterations takes a whole number"),
        (["--iterations", "1.5"], "takes a whole number"),
        (["--max-time", "nan"], "--max-time takes a number"),
        (["--max-bytes", "4MiB"], "not '4MiB'"),
        (["--warmup", "-1"], "not '-1'"),
        (["extra"], "'extra' is not expected"),
        ([], "2 ranks, but 1"),
    ],
)
def test_pingpong_refuses(pingpong, options, says):
    launcher, program = pingpong
    result = run([*launcher, "-n", 1, program, *options])
    assert result.returncode == 2
    assert len(sentences(result)) == 1 and says in sentences(result)[0]


def test_pingpong_speaks_once_and_refuses_three_ranks(pingpong):
    launcher, program = pingpong
    result = run([*launcher, "-n", 3, program])
    assert (
        result.returncode == 2 and len(sentences(result)) == 1 and "but 3 started" in result.stderr
    )


def test_pingpong_does_not_wait_for_a_rank_that_never_starts(pingpong):
    launcher, program = pingpong
    line = f"""
        [ "${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}" = 0 ] || exec sleep 100
        exec {program} --stall-timeout 2"""
    result = run([*launcher, "-n", 2, "sh", "-c", line])
    assert result.returncode != 0
    assert "MPI has not started within 2 s on " in "".join(sentences(result))


def test_pingpong_help(pingpong):
    launcher, program = pingpong
    result = run([*launcher, "-n", 1, program, "--help"])
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
    assert len(sentences(result)) == 1 and says in sentences(result)[0]


def test_stream_notices_fewer_threads_than_asked_for(stream):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU: there are no two threads to be refused")
    result = run([stream, "--threads", 2, "--elements", 1000], OMP_THREAD_LIMIT="1")
    assert result.returncode == 2 and "OMP_THREAD_LIMIT" in result.stderr


def test_copy_is_no_memcpy(stream):
    """memcpy() may use streaming stores, and Copy would count traffic that did not happen."""
    assert "memcpy" not in run(["nm", "-D", stream]).stdout


@pytest.fixture(scope="module")
def nodes(mpi, tmp_path_factory):
    """(launcher, program) of the values of nodes, for one MPI."""
    compiler, launcher = mpi
    program = tmp_path_factory.mktemp("nodes") / "nodes"
    return launcher, build(compiler, [SOURCES / "nodes.c"], program, "-pthread")


def test_nodes_measures_and_verifies(nodes):
    launcher, program = nodes
    options = ["--seconds", 1, "--megabytes", 1, "--repeats", 2, "--at-once", 1]
    result = run([*launcher, "-n", 2, program, *options])
    assert result.returncode == 0, result.stderr
    (launch,) = parse_nodes(result.stdout)
    assert len(launch.nodes) == 1 and launch.did["repeats"] == 2
    # Where the machine is busy, the two processes may not run at the same time.
    assert set(launch.failed) <= {("shared_memory", 0)}, launch.failed
    for metric in ("memory", "processor", "noise", "memory_latency"):
        assert len(launch.values[metric, 0]) == 2


@pytest.mark.parametrize(
    "ranks, options, says",
    [
        (1, [], "a node has one rank"),
        (2, ["--seconds", 0.1], "--seconds takes a number from 0.5"),
        (2, ["--megabytes", "x"], "--megabytes takes a whole number"),
    ],
)
def test_nodes_refuses(nodes, ranks, options, says):
    launcher, program = nodes
    result = run([*launcher, "-n", ranks, program, *options])
    lines = [line for line in result.stderr.splitlines() if line.startswith("nodes: ")]
    assert result.returncode == 2 and len(lines) == 1 and says in lines[0], result.stderr


@pytest.fixture(scope="module")
def congestion(mpi, tmp_path_factory):
    """(launcher, program) of nodes beside traffic, for one MPI."""
    compiler, launcher = mpi
    program = tmp_path_factory.mktemp("congestion") / "congestion"
    return launcher, build(compiler, [SOURCES / "congestion.c"], program)


@pytest.mark.parametrize("traffic, ranks", [(1, 4), pytest.param(2, 7, marks=pytest.mark.whole)])
def test_congestion_measures_and_verifies(congestion, traffic, ranks):
    launcher, program = congestion
    options = ["--seconds", 6, "--rounds", 1, "--traffic", traffic, "--victims", ranks // 2]
    result = run([*launcher, "-n", ranks, program, *options])
    assert result.returncode == 0, result.stderr
    (launch,) = parse_congestion(result.stdout)
    assert len(launch.victims) == ranks // 2 and not launch.failed, launch.failed
    for metric in ("latency", "bandwidth", "allreduce"):
        assert set(launch.ratios(metric)) == set(launch.victims)
    assert launch.received_gbps() > 0


@pytest.mark.parametrize(
    "ranks, options, says",
    [
        (3, [], "need 4 ranks, but 3"),
        (4, ["--victims", 3], "--victims is 3 of 4 ranks"),
        (4, ["--traffic", 3], "--traffic takes a whole number"),
        (4, ["--seconds", 0.1], "--seconds takes a number from 0.6"),
    ],
)
def test_congestion_refuses(congestion, ranks, options, says):
    launcher, program = congestion
    result = run([*launcher, "-n", ranks, program, *options])
    lines = [line for line in result.stderr.splitlines() if line.startswith("congestion: ")]
    assert result.returncode == 2 and len(lines) == 1 and says in lines[0], result.stderr
