"""Checks compare the requested parameters with those that a program reports. They refuse output of
another request, even if it is complete."""

import re
from types import SimpleNamespace

import pytest

from nearmetal.checks.base import NearmetalCheck
from nearmetal.checks.parsing import ParseError, request
from nearmetal.checks.parsing.collectives import parse_collectives
from nearmetal.checks.parsing.eigen import parse_eigen
from nearmetal.checks.parsing.gromacs import parse_gromacs
from nearmetal.checks.parsing.hpcc import parse_hpcc
from nearmetal.checks.parsing.hpcg import parse_hpcg
from nearmetal.checks.parsing.java import parse_jvm
from nearmetal.checks.parsing.lammps import parse_lammps
from nearmetal.checks.parsing.libfabric import parse_libfabric
from nearmetal.checks.parsing.multi_pair import parse_multi_pair
from nearmetal.checks.parsing.npb import parse_npb
from nearmetal.checks.parsing.osnoise import parse_noise
from nearmetal.checks.parsing.parallel_io import parse_ior, parse_mdtest
from nearmetal.checks.parsing.perftest import parse_rdma
from nearmetal.checks.parsing.pingpong import parse_imb
from nearmetal.checks.parsing.qperf import parse_tcp
from nearmetal.checks.parsing.stream import parse_stream
from reframe_checks.gromacs import Water
from reframe_checks.hpcc import hpcc
from reframe_checks.hpcg import Cubes
from reframe_checks.lammps import Liquid
from reframe_checks.libfabric import libfabric
from reframe_checks.npb import npb
from reframe_checks.parallel_io import ior, mdtest
from reframe_checks.rdma import rdma
from reframe_checks.tcp import tcp
from tests.support.recorded import recorded


def check(requested, launches, **attributes):
    """Run the comparison of the base class, for a check with these attributes."""
    fake = SimpleNamespace(runs=launches, **attributes)
    fake.requested = lambda: requested(fake)
    NearmetalCheck.expect_what_was_asked(fake)


def command(*words):
    return {"_command": [str(word) for word in words]}


BY_OPTIONS = NearmetalCheck.requested
SIZES = ["1", "1024", "65536", "4194304"]
GROMACS = {"sizes": Water.sizes, "_molecules": 216 * 8}
MDTEST = {"num_tasks": 2, "num_nodes": 1, "files": 500}
IOR = {**MDTEST, "api": "posix", "megabytes": 16, "is_direct": lambda: True}
#: Parser, recorded output, function that gives the request, attributes of the check, and another
#: value for each option.
ASKED = [
    (parse_imb, "pingpong_mpich", BY_OPTIONS, command("--max-time", 0.05, "--max-bytes", 1 << 22), {"max-time": 0.5, "max-bytes": 65536}),  # noqa: E501
    (parse_imb, "java_pingpong", BY_OPTIONS, command("--max-time", 0.2, "--max-bytes", 1 << 22), {"max-time": 0.5, "max-bytes": 65536}),  # noqa: E501
    (parse_collectives, "collectives", BY_OPTIONS, command("--max-time", 0.05, "--max-bytes", 1 << 20), {"max-time": 1, "max-bytes": 65536}),  # noqa: E501
    (parse_collectives, "imb_collectives", BY_OPTIONS, command("Alltoall", "Allreduce", "Bcast", "Barrier", "-msglog", "3:20", "-time", 0.05, "-npmin", 1000000), {"msglog": "3:16", "time": 1}),  # noqa: E501
    (parse_stream, "stream", BY_OPTIONS, command("--ntimes", 10, "--threads", "1,2", "--elements", 16777216), {"ntimes": 40, "threads": "1,2,4", "elements": 1000}),  # noqa: E501
    (parse_noise, "osnoise", BY_OPTIONS, command("--seconds", 1), {"seconds": 10}),
    (parse_multi_pair, "multi_pair", BY_OPTIONS, command("--max-time", 0.02, "--max-bytes", 2 << 20), {"max-time": 1, "max-bytes": 65536}),  # noqa: E501
    (parse_eigen, "eigen", BY_OPTIONS, command("--side", 16, "--points", 32), {"side": 24, "points": 64}),  # noqa: E501
]  # fmt: skip


@pytest.mark.parametrize(
    "parse, name, requested, told, other", ASKED, ids=lambda value: str(value)[:20]
)
def test_options_are_compared_with_what_the_program_says(parse, name, requested, told, other):
    launches = parse(recorded(name))
    check(requested, launches, **told)
    for option, value in other.items():
        words = told["_command"]
        place = next(place for place, word in enumerate(words) if word.lstrip("-") == option)
        changed = [*words[: place + 1], str(value), *words[place + 2 :]]
        with pytest.raises(ParseError, match=option.replace("-", "_")):
            check(requested, launches, _command=changed)


@pytest.mark.parametrize(
    "parse, name, requested, told, other, words",
    [
        (parse_npb, "npb_mz", npb.requested, {"benchmark": "bt-mz", "npb_class": "S"}, {}, "kernel was SP-MZ"),  # noqa: E501
        (parse_npb, "npb_official", npb.requested, {"benchmark": "cg", "npb_class": "S"}, {"npb_class": "B"}, "class was S"),  # noqa: E501
        (parse_tcp, "tcp_native", tcp.requested, command(1, *SIZES), command(2, *SIZES), "seconds was 1"),  # noqa: E501
        (parse_tcp, "tcp_native", tcp.requested, command(1, *SIZES), command(1, *SIZES[:-1]), "sizes was 1,1024,65536,4194304"),  # noqa: E501
        (parse_rdma, "rdma_read", rdma.requested, command("read", 10, 1, 1, 1024, 65536, 1048576), command("send", 10, 1, 1, 1024, 65536, 1048576), "operation was read"),  # noqa: E501
        (parse_rdma, "rdma_read", rdma.requested, command("read", 10, "-", 1, 1024, 65536, 1048576), command("read", 1000, "-", 1, 1024, 65536, 1048576), "iterations was 10"),  # noqa: E501
        (parse_rdma, "rdma_read", rdma.requested, command("read", 10, 1, 1, 1024, 65536, 1048576), command("read", 10, 3, 1, 1024, 65536, 1048576), "gid_index was 1"),  # noqa: E501
        (parse_libfabric, "libfabric", libfabric.requested, command("fi_pingpong", "tcp", 100, *SIZES), command("fi_pingpong", "shm", 100, *SIZES), "provider was tcp"),  # noqa: E501
        (parse_libfabric, "libfabric", libfabric.requested, command("fi_pingpong", "tcp", 100, *SIZES), command("fi_pingpong", "tcp", 1000, *SIZES), "iterations was 100"),  # noqa: E501
        (parse_lammps, "lammps", Liquid.requested, {"sizes": Liquid.sizes, "size": "S"}, {"size": "W"}, "cells was 10"),  # noqa: E501
        (parse_gromacs, "gromacs", Water.requested, {**GROMACS, "size": "S"}, {"size": "W"}, "steps was 100"),  # noqa: E501
        (parse_hpcc, "hpcc", hpcc.requested, {"block": 128, "num_tasks": 2, "_nodes_each": 1, "megabytes": 17}, {"megabytes": 100}, "n was 1408"),  # noqa: E501
        (parse_hpcc, "hpcc", hpcc.requested, {"block": 128, "num_tasks": 2, "_nodes_each": 1, "megabytes": 17}, {"num_tasks": 4}, "processes was 2"),  # noqa: E501
        (parse_hpcg, "hpcg", Cubes.requested, {"sizes": Cubes.sizes, "size": "S"}, {"size": "W"}, "nx was 16 instead of 32"),  # noqa: E501
        (parse_ior, "ior", ior.requested, IOR, {"megabytes": 64}, "block was 16777216 instead of"),
        (parse_ior, "ior", ior.requested, IOR, {"is_direct": lambda: False}, "file_per_process was 1"),  # noqa: E501
        (parse_mdtest, "mdtest", mdtest.requested, MDTEST, {"files": 1000}, "files was 500"),
        (parse_mdtest, "mdtest", mdtest.requested, MDTEST, {"num_nodes": 2}, "nodes was 1"),
    ],
)  # fmt: skip
def test_the_request_of_each_check_is_compared(parse, name, requested, told, other, words):
    launches = parse(recorded(name))
    if other:
        check(requested, launches[:1], **told)
    with pytest.raises(ParseError, match=words):
        check(requested, launches, **{**told, **other})


def test_a_number_that_no_float_holds_is_another():
    with pytest.raises(ParseError, match="block was 1000"):
        request.expect({"block": 16777216}, {"block": 10**400})


def test_a_whole_table_of_fewer_sizes_than_asked_for_is_refused():
    """The output is that of a run with `max_bytes=65536`, so its lines agree with each other."""
    text = recorded("pingpong_mpich").split("# nearmetal complete\n")[0] + "# nearmetal complete\n"
    text = re.sub(r"(?m)^ +(131072|262144|524288|1048576|2097152|4194304) .*\n", "", text)
    text = re.sub(
        r"(?m)^.*batches: bytes=(131072|262144|524288|1048576|2097152|4194304) .*\n", "", text
    )
    text = text.replace("max_bytes=4194304", "max_bytes=65536").replace("sizes=23", "sizes=17")
    launches = parse_imb(text)
    assert max(launches[0].rows) == 65536
    with pytest.raises(ParseError, match=r"max_bytes\b.*\b65536\b.*\b4194304\b"):
        check(BY_OPTIONS, launches, **command("--max-bytes", 1 << 22))


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_a_table_of_imb_without_its_first_rows_is_refused(rows):
    text = re.sub(rf"(?m)(Mbytes/sec\n)(?:.*\n){{{rows}}}", r"\1", recorded("imb_openmpi"), count=1)
    with pytest.raises(ParseError, match="lines were lost"):
        parse_imb(text)


def test_a_table_of_imb_that_was_asked_for_later_rows_is_another():
    text = recorded("imb_openmpi").replace("IMB-MPI1 PingPong", "IMB-MPI1 PingPong -msglog 4:22")
    text = re.sub(r"(?m)^ +(1|2|4|8) +1000 .*\n", "", text)
    [launch] = parse_imb(text)
    assert min(size for size in launch.rows if size) == 16
    with pytest.raises(ParseError, match=r"msglog\b.*\b4:22\b.*\b0:22\b"):
        check(BY_OPTIONS, [launch], **command("PingPong", "-msglog", "0:22"))


@pytest.mark.parametrize("size", [1, 1024, 65536, 4194304])
def test_a_lost_line_of_sockets_is_refused(size):
    text = re.sub(rf"(?m)^# nearmetal sockets: bytes={size} .*\n", "", recorded("java_pingpong"))
    with pytest.raises(ParseError, match="plain sockets"):
        parse_imb(text)


def test_all_lost_lines_of_sockets_are_refused():
    text = re.sub(r"(?m)^# nearmetal sockets: .*\n", "", recorded("java_pingpong"))
    with pytest.raises(ParseError, match="plain sockets"):
        parse_imb(text)


def test_settings_of_jvms_are_given_by_name():
    ran = parse_jvm(recorded("java_pingpong"))
    request.expect({"library": "express", "device": "niodev", "heap": "1024MB"}, ran.did[0])
    with pytest.raises(ParseError, match=r"device\b.*\bniodev\b.*\bthreads\b"):
        request.expect({"device": "threads"}, ran.did[0])


def test_launches_in_rounds_are_compared_each():
    runs = parse_npb(recorded("npb"))
    with pytest.raises(ParseError, match=r"kernel\b.*\bEP\b.*\bCG\b"):
        check(npb.requested, [{2: runs[0]}, {2: runs[1]}], benchmark="cg", npb_class="S")


@pytest.mark.parametrize(
    "asked, did, wrong",
    [
        ({}, {}, 0),
        ({"a": "0.5"}, {"a": 0.5}, 0),
        ({"a": "0.5"}, {"a": 0.51}, 1),
        ({"a": "x"}, {"a": "x"}, 0),
        ({"a": 1}, {}, 1),
        ({"a": "1,2"}, {"a": "1,2,4"}, 1),
    ],
)
def test_differences(asked, did, wrong):
    assert len(request.differences(asked, did)) == wrong


def test_options_of_a_command_line():
    assert request.options(["PingPong", "-msglog", "0:22", "--max-time=0.5", "--quiet"]) == {
        "msglog": "0:22",
        "max_time": "0.5",
        "quiet": "",
        "arguments": "PingPong",
    }


def test_a_launch_that_does_not_say_what_it_did_is_refused():
    with pytest.raises(ParseError, match="has no `did`"):
        check(BY_OPTIONS, [SimpleNamespace()], **command("--seconds", 1))
    check(lambda fake: {}, [SimpleNamespace()])
