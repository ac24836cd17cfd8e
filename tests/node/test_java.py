"""The programs in Java as a launch runs them: results verified, what cannot run in one sentence,
and no rank left behind."""

import re

import pytest

from nearmetal.checks.parsing.collectives import OPERATIONS, parse_collectives
from nearmetal.checks.parsing.java import parse_jvm
from nearmetal.checks.parsing.npb import parse_npb
from nearmetal.checks.parsing.pingpong import parse_imb
from tests.support.jvm_ranks import ends
from tests.support.said import lacking

QUICK = ["--heap=128", "--warm-up=0.1"]


@pytest.fixture
def run(ranks):
    """Runs a program to its end: exit codes, and rank 0's output and complaints."""

    def start(size, main, *arguments, options=(), **settings):
        started = [
            ranks(rank, size, *arguments, main=main, options=[*QUICK, *options], **settings)
            for rank in range(size)
        ]
        done = [ends(process, 90) for process in started]
        return [code for code, _, _ in done], done[0][1], "".join(err for _, _, err in done)

    return start


@pytest.mark.parametrize(
    "kernel, size",
    [
        ("CG", 2),
        *(
            pytest.param(name, size, marks=pytest.mark.whole)
            for name, size in [("CG", 1), ("EP", 2), ("FT", 2), ("IS", 2), ("MG", 2)]
        ),
    ],
)
def test_kernels_give_the_official_results_between_jvms(run, kernel, size):
    codes, out, err = run(size, kernel, "S")
    assert codes == [0] * size, out + err
    [launch] = parse_npb(out)
    assert (launch.kernel, launch.npb_class, launch.processes) == (kernel, "S", size)
    assert (float(launch.facts["payload_bytes"]) > 0) == (size > 1 and kernel != "EP")


@pytest.mark.whole
@pytest.mark.parametrize("kernel", ["CG", "FT"])
def test_kernels_give_the_official_results_between_threads(run, kernel):
    codes, out, err = run(1, kernel, "S", options=["--device=threads", "--ranks=2", "--heap=400"])
    assert codes == [0], out + err
    assert parse_npb(out)[0].processes == 2


def test_pingpong_tells_the_library_from_plain_sockets(run):
    # The wait for the compiler is no stall.
    codes, out, err = run(2, "PingPong", "--max-time", "0.005", "--stall-timeout", "1")
    assert codes == [0, 0], out + err
    [launch] = parse_imb(out)
    assert list(launch.sockets) == [1, 1024, 65536, 4194304]
    assert (
        0 < min(launch.sockets[1]) < launch.startup_latency_us
    )  # the library has those sockets below it
    assert re.search(r"^# nearmetal warm_up_sockets_1: ", out, re.M)
    assert parse_jvm(out).settings.startswith("library=express device=niodev heap=128MB")


def test_pingpong_of_threads_has_no_sockets(run):
    codes, out, err = run(
        1, "PingPong", "--max-time", "0.005", options=["--device=threads", "--ranks=2"]
    )
    assert codes == [0], out + err
    assert parse_imb(out)[0].sockets == {}


def test_collectives(run):
    codes, out, err = run(2, "Collectives", "--max-time", "0.005", "--max-bytes", "65536")
    assert codes == [0, 0], out + err
    assert set(parse_collectives(out)[0].slowest_us) == set(OPERATIONS)


@pytest.mark.parametrize(
    "size, command, options, facts",
    [
        (1, ["CG", "X"], [], ["S, W, A, B, C, D or E", "'X'", "--help"]),
        (1, ["CG"], [], ["S, W, A, B, C, D or E", "--help"]),
        (3, ["MG", "S"], [], ["class S", "1, 2, 4", "up to 4096", "not on 3"]),
        (1, ["FT", "B"], [], ["class B", "1 processes", "MB in a JVM", "heap"]),
        (1, ["PingPong"], [], ["exactly 2 ranks", "1 started"]),
        (2, ["PingPong", "--iterations", "0"], [], ["--iterations", "from 1"]),
        (1, ["Collectives"], [], ["at least 2 ranks", "1 started"]),
    ],
)
def test_what_cannot_run_is_said(run, size, command, options, facts):
    codes, _, err = run(size, *command, options=options)
    assert codes == [2] * size and not lacking(err, *facts), err


@pytest.mark.whole
def test_a_rank_that_is_gone_ends_the_other(ranks):
    first, second = (
        ranks(rank, 2, "--max-time", "0.5", "--stall-timeout", "1", main="PingPong", options=QUICK)
        for rank in (0, 1)
    )
    assert any("#bytes" in line for line in first.stdout)
    second.kill()
    code, _, err = ends(first)
    assert code != 0 and err


def test_help_teaches(run):
    for command in (["CG", "--help"], ["PingPong", "--help"], ["Collectives", "--help"]):
        codes, out, _ = run(1, *command)
        assert codes == [0] and "Usage: <launcher> -n" in out and "Exit status" in out
