"""The parsers of NPB, ping-pong and collectives read the output of the Java programs too
(tests/recorded/README.md)."""

import re

import pytest

from nearmetal.checks.parsing import ParseError
from nearmetal.checks.parsing.collectives import OPERATIONS, parse_collectives
from nearmetal.checks.parsing.java import JvmRun, parse_jvm
from nearmetal.checks.parsing.npb import parse_npb
from nearmetal.checks.parsing.pingpong import parse_imb
from tests.support.recorded import SIZES, recorded
from tests.support.said import lacking


def check_facts(facts):
    assert facts["mpi_library"] == "MPJ Express 0.44, niodev"
    assert facts["compiler"].startswith("OpenJDK 64-Bit Server VM 21.") and re.search(
        r" -Xmx1(g|024m)\b", facts["compiler"]
    )
    assert all(
        re.fullmatch(r"host=\S+ cpu=\d+ allowed_cpus=\d+", facts[f"rank {rank}"]) for rank in (0, 1)
    )
    assert re.fullmatch(r"jit_ms=\d+( gc_ms=\d+)?", facts["timed_run"])


def test_npb():
    launches = parse_npb(recorded("java_npb"))
    assert [run.kernel for run in launches] == ["CG", "EP", "FT", "IS", "MG"]
    for run in launches:
        check_facts(run.facts)
        assert (run.npb_class, run.processes) == ("S", 2) and run.mops > 1
        assert 0 < sum(run.iterations) <= run.seconds * 1.01 + 1e-4 and len(
            run.iteration_mops
        ) == len(run.iterations)
        assert (float(run.facts["payload_bytes"]) > 0) == (run.kernel != "EP")
        assert re.match(
            r"stable=(yes|no) runs=\d+ seconds=\S+ jit_ms=\d+ last_jit_share=\S+ last_s=",
            run.facts["warm_up"],
        )


def test_java_and_c_compute_the_same():
    """Both have the same iteration counts and print the same sums of CG. The order of additions
    changes only the residuals, which are not compared."""
    ours, theirs = (
        re.findall(r"^ +\d+ +\S+e-1\d +(\d+\.\d+)$", recorded(name), re.M)
        for name in ("java_npb", "npb")
    )
    assert ours == theirs and len(ours) == 15
    assert [len(run.iterations) for run in parse_npb(recorded("java_npb"))] == [
        len(run.iterations) for run in parse_npb(recorded("npb"))
    ]


def test_pingpong():
    [launch] = parse_imb(recorded("java_pingpong"))
    check_facts(launch.facts)
    assert list(launch.rows) == SIZES and set(launch.batches) == set(SIZES)
    assert {f"warm_up_{way}{size}" for way in ("", "sockets_") for size in (1, 4194304)} | {
        "settled"
    } <= set(launch.facts)
    assert (
        list(launch.sockets) == [1, 1024, 65536, 4194304]
        and max(launch.sockets[1]) < launch.startup_latency_us
    )
    for size, row in launch.rows.items():
        batches = launch.batches[size]
        assert len(batches) == min(10, row.repetitions) and min(batches) <= row.latency_us <= max(
            batches
        )


def test_collectives():
    [run] = parse_collectives(recorded("java_collectives"))
    check_facts(run.facts)
    assert run.processes == 2 and set(run.slowest_us) == set(OPERATIONS) and "warm_up" in run.facts
    assert {8, 65536, 1 << 20} <= set(run.slowest_us["Alltoall"]) and list(
        run.slowest_us["Barrier"]
    ) == [0]


@pytest.mark.parametrize(
    "name, parse, facts",
    [
        ("java_npb", parse_npb, ["CG", '"# nearmetal complete"']),
        ("java_pingpong", parse_imb, ["4194304 bytes", "cut off"]),
        ("java_collectives", parse_collectives, ["Barrier", "cut off"]),
    ],
)
def test_cut_off(name, parse, facts):
    with pytest.raises(ParseError) as error:
        parse(recorded(name).replace("# nearmetal complete", ""))
    assert not lacking(str(error.value), *facts)


def test_a_wrong_result():
    with pytest.raises(ParseError, match="computes wrongly"):
        parse_npb(recorded("java_npb").replace("SUCCESSFUL", "UNSUCCESSFUL"))


def test_how_the_jvms_were_set():
    line = "# nearmetal jvm: library=express device=niodev heap=256MB gc=serial pages=default\n"
    told = line + recorded("java_npb")
    settings = "library=express device=niodev heap=256MB gc=serial pages=default"
    did = dict(word.split("=") for word in settings.split())
    assert parse_jvm(told) == JvmRun(settings, "settled", [did])
    unsettled = told.replace("warm_up: stable=yes", "warm_up: stable=no", 1)
    assert not lacking(parse_jvm(unsettled).warm_up, "not everywhere", "java_warm_up")
    assert parse_jvm(line + line.replace("256", "64")).settings.count(" | ") == 1
    assert parse_jvm(recorded("npb")) is None


def test_by_what_cg_multiplied():
    line = "# nearmetal jvm: library=native device=mpi heap=256MB gc=serial pages=default\n"
    by = "# nearmetal product: {}\n".format
    assert parse_jvm(line).product == ""
    assert parse_jvm(line + 2 * by("vectors")).product == "vectors"
    assert parse_jvm(line + by("vectors") + by("elements")).product == "elements, vectors"
    with pytest.raises(ParseError, match="by what CG multiplied"):
        parse_jvm(line + by("vec"))
