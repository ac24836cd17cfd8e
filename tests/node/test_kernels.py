"""The kernels of the NAS Parallel Benchmarks, the collectives, the eigensolver and the noise, built
and run: right results, and refusals in a sentence.

Run in the lab, as tests/node/test_sources.py.
"""

import os
import re
import shutil

import pytest

from nearmetal.checks.parsing.collectives import OPERATIONS, parse_collectives
from nearmetal.checks.parsing.eigen import parse_eigen
from nearmetal.checks.parsing.npb import parse_npb
from nearmetal.checks.parsing.osnoise import parse_noise
from nearmetal.checks.parsing.stream import parse_numa
from tests.support.paths import SOURCES
from tests.support.programs import MPI, STRICT, build, run, slepc
from tests.support.said import lacking

KERNELS = ["cg", "ep", "ft", "is", "mg"]
#: An MPI call that damages a result: what a broken network or library would do.
DAMAGED = """#include <mpi.h>
int MPI_%s
{
    int result = PMPI_%s;
    if (%s) ((char *)to)[7] ^= 0x10;
    return result;
}
"""
ALLTOALL = DAMAGED % (
    (
        "Alltoall(const void *from, int n, MPI_Datatype a, void *to, int m, MPI_Datatype b, "
        "MPI_Comm comm)"
    ),
    "Alltoall(from, n, a, to, m, b, comm)",
    "n > 1",
)


@pytest.mark.parametrize("mpi, processes", [("openmpi", 1), ("mpich", 2), ("openmpi", 4)])
@pytest.mark.parametrize("name", KERNELS)
def test_class_s_verifies(launch, name, mpi, processes):
    done = launch(mpi, processes, f"npb/{name}", "S")
    assert done.returncode == 0, done.stdout + done.stderr
    [result] = parse_npb(done.stdout)
    assert (result.kernel, result.npb_class, result.processes) == (name.upper(), "S", processes)
    assert result.iterations and sum(result.iterations) <= result.seconds * 1.01 + 1e-4
    assert (float(result.facts["payload_bytes"]) > 0) == (processes > 1 and name != "ep")


@pytest.mark.whole
@pytest.mark.parametrize(
    "name, processes", [("cg", 16), ("ep", 8), ("ft", 64), ("is", 8), ("mg", 64)]
)
def test_class_w_verifies_on_many_processes(launch, name, processes):
    """Class W of FT has 32 planes, so that 64 processes share them two by two; CG's grid is square,
    and MG, split in all three directions, gathers the levels that are too small to be split.

    With Open MPI, whose processes yield when there are more of them than cores; MPICH's would take
    minutes."""
    done = launch("openmpi", processes, f"npb/{name}", "W")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.whole
@pytest.mark.parametrize("name", KERNELS)
def test_class_s_verifies_on_64_processes(launch, name):
    done = launch("openmpi", 64, f"npb/{name}", "S")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name, fewest", [("ft", 4), ("is", 32)])
def test_too_few_processes_for_the_messages_of_class_e_are_refused(launch, name, fewest):
    done = launch("openmpi", 2, f"npb/{name}", "E")
    assert done.returncode != 0
    assert f"class E runs on {fewest}, {2 * fewest}, {4 * fewest}, " in done.stderr


@pytest.mark.parametrize(
    "letter, processes, facts",
    [
        ("X", 2, ["S, W, A, B, C, D or E", "'X'", "--help"]),
        ("", 1, ["S, W, A, B, C, D or E", "''", "--help"]),
        ("S", 3, ["class S", "1, 2, 4", "processes up to ", "not on 3"]),
    ],
)
def test_what_a_kernel_cannot_do_it_says(launch, letter, processes, facts):
    for name in KERNELS:
        done = launch("mpich", processes, f"npb/{name}", letter)
        assert done.returncode != 0
        [said] = [line for line in done.stderr.splitlines() if line.startswith("npb ")]
        assert said.startswith(f"npb {name.upper()}: ") and not lacking(said, *facts), said


def test_too_little_memory_is_said_before_any_is_taken(programs):
    command = [*MPI["openmpi"], "-n", 1, programs["openmpi", "npb/ft"], "C"]
    done = run(["sh", "-c", 'ulimit -v 3000000; exec "$@"', "sh", *command])
    assert done.returncode != 0
    facts = ["npb FT: class C", "1 processes", "4295 MB", "MB left"]
    assert not lacking(done.stderr, *facts), done.stderr


def test_help(launch):
    for name in KERNELS:
        done = launch("mpich", 1, f"npb/{name}", "--help")
        assert done.returncode == 0 and "Exit status: 0 verified" in done.stdout


def test_a_wrong_result_is_a_failure_whatever_its_speed(tmp_path):
    (tmp_path / "damaged.c").write_text(ALLTOALL)
    program = build("mpich", "npb/ft.c", tmp_path / "ft", tmp_path / "damaged.c")
    done = run([*MPI["mpich"], "-n", 2, program, "S"])
    assert done.returncode != 0 and "UNSUCCESSFUL" in done.stdout
    assert "npb FT: class S" in done.stderr


@pytest.mark.parametrize("mpi, processes", [("mpich", 2), ("openmpi", 3)])
def test_collectives_measure_and_verify(launch, mpi, processes):
    few = ["--max-bytes", 4096, "--max-time", 0.01, "--iterations", 20]
    done = launch(mpi, processes, "collectives", *few)
    assert done.returncode == 0, done.stderr
    [result] = parse_collectives(done.stdout)
    assert result.processes == processes and set(result.slowest_us) == set(OPERATIONS)
    assert (
        list(result.slowest_us["Alltoall"]) == [2**power for power in range(3, 13)]
        and result.payload_bytes > 0
    )


def test_a_damaged_collective_is_noticed(tmp_path):
    (tmp_path / "damaged.c").write_text(ALLTOALL)
    sources = "collectives.c", tmp_path / "collectives", tmp_path / "damaged.c"
    program = build("openmpi", *sources)
    done = run([*MPI["openmpi"], "-n", 2, program, "--max-bytes", 64])
    assert done.returncode != 0 and "Alltoall with 16 bytes" in done.stderr


@pytest.mark.parametrize(
    "processes, options, facts",
    [
        (1, [], ["at least 2 ranks", "1 started", "launcher"]),
        (2, ["--iterations", "0"], ["--iterations", "1 to 1000000000", "'0'"]),
        (2, ["--max-time", "nan"], ["--max-time", "0.001 to 1000000", "'nan'"]),
        (2, ["--what"], ["'--what'", "no option", "--help"]),
        (2, ["x"], ["'x'", "only options", "--help"]),
    ],
)
def test_what_collectives_cannot_do_they_say(launch, processes, options, facts):
    done = launch("mpich", processes, "collectives", *options)
    assert done.returncode != 0
    [said] = [line for line in done.stderr.splitlines() if line.startswith("collectives: ")]
    assert not lacking(said, *facts), said


#: The smallest that the eigensolver takes.
SMALL = ["--side", 12, "--points", 32]


@pytest.mark.parametrize(
    "processes, options, groups",
    [
        (1, [], 1),
        (2, [], 2),
        (3, [], 1),
        (4, ["--groups", 2], 2),
        pytest.param(2, ["--groups", 1], 1, marks=pytest.mark.whole),
        pytest.param(2, ["--points", 44], 2, marks=pytest.mark.whole),
    ],
)
def test_eigen_finds_what_is_known(launch, processes, options, groups):
    done = launch("openmpi", processes, "eigen", *SMALL, *options, OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stdout + done.stderr
    [result] = parse_eigen(done.stdout)
    assert (result.processes, result.groups, result.side, result.found, result.threads) == (
        processes,
        groups,
        12,
        17,
        1,
    )
    # Of processes that share a factorization it is not known what they send.
    assert result.payload_bytes == (
        None if groups < processes else 16 * 12**3 * 32 * 8 * (processes - 1)
    )


def test_eigen_reads_back_its_threads_and_no_settings_of_who_runs_it(programs, tmp_path):
    """These would change what is measured."""
    (tmp_path / ".petscrc").write_text("-nep_ciss_blocksize 1\n")
    here = ["sh", "-c", 'cd "$1"; shift; exec "$@"', "sh", tmp_path]
    one = [*MPI["openmpi"], "--bind-to", "none", "-n", 1, programs["openmpi", "eigen"], *SMALL]
    done = run(
        [*here, *one],
        HOME=str(tmp_path),
        OMP_NUM_THREADS="2",
        OMP_WAIT_POLICY="passive",
        PETSC_OPTIONS="-log_view -nep_ciss_blocksize 1",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [result] = parse_eigen(done.stdout)
    assert (result.found, result.threads) == (17, 2)
    assert "PETSc Performance" not in done.stdout


def test_a_wrong_eigenvalue_is_a_failure(tmp_path):
    call = (
        "Allreduce(const void *from, void *to, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm)"
    )
    # The projections, of rank 26.
    projections = "n > 500 && n < 1500"
    given = "Allreduce(from, to, n, type, op, comm)"
    (tmp_path / "damaged.c").write_text(DAMAGED % (call, given, projections))
    sources = "eigen.c", tmp_path / "eigen", tmp_path / "damaged.c", *slepc()
    program = build("openmpi", *sources)
    done = run([*MPI["openmpi"], "-n", 2, program, *SMALL], OMP_NUM_THREADS="1")
    assert done.returncode != 0 and "UNSUCCESSFUL" in done.stdout
    assert "# nearmetal complete" not in done.stdout
    wrong = r"^eigen: \d+ of 17 eigenvalues .*wrong by up to "
    assert re.search(wrong, done.stderr, re.M), done.stderr


@pytest.mark.parametrize(
    "processes, options, facts",
    [
        (1, ["--side", "8"], ["--side", "12 to 400", "'8'"]),
        (2, ["--points", "34"], ["--points", "multiple of 4", "34"]),
        (2, ["--groups", "3"], ["--groups 3", "2 processes", "16 linear systems", "32 points"]),
        (2, ["--points"], ["--points", "value", "--help"]),
        (1, ["-nep_tol", "1"], ["'-n'", "no option", "--help"]),
        (2, ["S"], ["'S'", "only options", "--help"]),
    ],
)
def test_what_eigen_cannot_do_it_says(launch, processes, options, facts):
    done = launch("openmpi", processes, "eigen", *options)
    assert done.returncode != 0
    [said] = [line for line in done.stderr.splitlines() if line.startswith("eigen: ")]
    assert not lacking(said, *facts), said


def test_help_of_eigen(launch):
    done = launch("openmpi", 2, "eigen", "--help")
    assert done.returncode == 0 and done.stdout.count("Exit status: 0 all eigenvalues found") == 1


@pytest.fixture
def osnoise(programs):
    return programs["serial", "osnoise"]


def test_osnoise_finds_detours_on_every_cpu(osnoise):
    done = run([osnoise, "--seconds", 1])
    assert done.returncode == 0, done.stderr
    [result] = parse_noise(done.stdout)
    assert 0 < result.share_lost <= result.worst_share_lost < 100 and result.longest_us > 0
    assert sum(result.histogram.values()) == sum(core.detours for core in result.cores.values())
    assert len(result.parts) == 10


def test_a_neighbour_on_its_core_is_a_detour(osnoise):
    """Two on one CPU lose half of the time each, in detours as long as the scheduler's slices."""
    [alone] = parse_noise(run(["taskset", "-c", 0, osnoise, "--seconds", 1]).stdout)
    both = run(
        [
            "sh",
            "-c",
            'taskset -c 0 "$0" --seconds 60 > /dev/null & taskset -c 0 "$0" --seconds 1; kill $!',
            osnoise,
        ]
    )
    [beside] = parse_noise(both.stdout)
    assert (
        list(beside.cores) == [0]
        and 25 < beside.share_lost < 75
        and beside.share_lost > 2 * alone.share_lost
    )
    assert beside.longest_us > 500


@pytest.mark.parametrize(
    "options, facts",
    [
        (["--seconds", "x"], ["--seconds", "0.1 to 86400", "'x'"]),
        (["--seconds"], ["--seconds", "value", "--help"]),
        (["5"], ["'5'", "only options", "--help"]),
    ],
)
def test_what_osnoise_cannot_do_it_says(osnoise, options, facts):
    done = run([osnoise, *options])
    assert done.returncode == 2 and done.stderr.startswith("osnoise: ")
    assert done.stderr.count("\n") == 1 and not lacking(done.stderr, *facts), done.stderr


@pytest.fixture
def pages(programs):
    return programs["serial", "pages"]


def test_pages_are_what_was_asked_for(pages, tmp_path):
    """Of a program that takes 256 MB, by its own mapping."""
    (tmp_path / "take.c").write_text(
        "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\nint main(void)\n{\n"
        "    char line[256];\n    volatile char *memory = malloc(256 << 20);\n    for (int i = 0; i < 256 << 20; i += 4096) memory[i] = 1;\n"  # noqa: E501
        '    FILE *file = fopen("/proc/self/smaps_rollup", "r");\n'
        '    while (fgets(line, sizeof line, file)) if (strstr(line, "AnonHugePages")) fputs(line, stdout);\n'  # noqa: E501
        "    return memory[0] != 1;\n}\n"
    )
    take = tmp_path / "take"
    assert run(["cc", *STRICT, "-O2", tmp_path / "take.c", "-o", take]).returncode == 0
    huge = {size: int(run([pages, size, take]).stdout.split()[1]) for size in ("small", "large")}
    assert huge["small"] == 0 and huge["large"] > 200_000, huge


def test_pages_say_how_they_are_used(pages):
    for words in ([], ["huge", "true"], ["small"]):
        done = run([pages, *words])
        assert (
            done.returncode == 2
            and done.stderr == "pages: usage: pages small|large COMMAND [ARGUMENT ...]\n"
        )
    done = run([pages, "small", "/nowhere"])
    assert done.returncode == 127 and "pages: /nowhere" in done.stderr


#: `numactl --hardware` of a machine with two nodes, and of one whose third node is memory alone.
NUMACTL = """#!/bin/sh
if [ "$1" = --hardware ]; then
    printf 'available: 2 nodes (0-1)\\nnode 0 cpus: 0\\nnode 0 size: 64000 MB\\nnode 0 free: 60000 MB\\n'
    printf 'node 1 cpus: 1\\nnode 1 size: 64000 MB\\nnode 1 free: 60000 MB\\nnode 2 cpus:\\nnode 2 size: 16000 MB\\n'
    exit
fi
echo "$@" >> "$NUMACTL_LOG"
shift 2
exec "$@"
"""  # noqa: E501


def test_streams_by_numa_node(programs, tmp_path):
    """Where the nodes are two, as this machine's aren't: what is started on which, and that all of
    it is read."""
    shutil.copy(programs["serial", "stream"], tmp_path / "program")
    # Short arrays: by STREAM's rule, six instances take two minutes where the cache is large.
    short = '#!/bin/sh\nexec ./program --elements 1000000 "$@"\n'
    for name, text in {"numactl": NUMACTL, "stream": short}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    # Two launches, as two of a job in one directory.
    for _ in range(2):
        done = run(
            ["sh", "-c", 'cd "$1" && sh "$2" ./stream 3', "sh", tmp_path, SOURCES / "numa.sh"],
            PATH=f"{tmp_path}:{os.environ['PATH']}",
            NUMACTL_LOG=str(tmp_path / "log"),
        )
        assert done.returncode == 0, done.stderr
    [result] = parse_numa(done.stdout)
    assert (
        result.nodes == 2
        and result.rate("local", "triad") > 0
        and result.rate("remote", "triad") > 0
    )
    started = [
        line.split(" ./stream")[0] for line in (tmp_path / "log").read_text().splitlines()[4:]
    ]
    assert sorted(started[:2]) == ["--cpunodebind=0 --membind=0", "--cpunodebind=1 --membind=1"]
    assert started[2:] == ["--cpunodebind=0 --membind=0", "--cpunodebind=0 --membind=1"]
