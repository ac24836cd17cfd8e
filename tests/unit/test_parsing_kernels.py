"""Parsers of kernels, collectives, eigensolver, noise and bindings read recorded real output
(tests/recorded/README.md), and refuse damaged output."""

import re

import pytest

from nearmetal.checks.parsing import ParseError, collectives, npb
from nearmetal.checks.parsing.binding import MARK, differs, parse_binding, parse_bindings
from nearmetal.checks.parsing.collectives import OPERATIONS, parse_collectives
from nearmetal.checks.parsing.eigen import parse_eigen
from nearmetal.checks.parsing.hpcc import VARIABLES, parse_hpcc
from nearmetal.checks.parsing.launch import parse_launch
from nearmetal.checks.parsing.npb import parse_npb
from nearmetal.checks.parsing.osnoise import parse_noise
from tests.support.marked import FOREIGN, between_lines
from tests.support.recorded import recorded
from tests.support.said import lacking

KERNELS = ["CG", "EP", "FT", "IS", "MG"]
SIMULATED = [("BT", 1), ("LU", 2), ("SP", 1)]


@pytest.mark.parametrize("name, ours", [("npb", True), ("npb_official", False)])
def test_npb(name, ours):
    launches = parse_npb(recorded(name))
    assert [run.kernel for run in launches] == KERNELS
    for run in launches:
        assert (run.npb_class, run.processes) == ("S", 2) and run.mops > 10
        assert bool(run.facts) == bool(run.iterations) == ours
        if ours:
            assert (
                run.facts["mpi_library"].startswith("Open MPI v5")
                and 0 < sum(run.iterations) <= run.seconds * 1.01 + 1e-4
            )
            assert len(run.iteration_mops) == len(run.iterations)


def test_the_simulated_applications_of_npb():
    launches = parse_npb(recorded("npb_simulated"))
    assert [(run.kernel, run.processes) for run in launches] == SIMULATED
    assert all(run.npb_class == "S" and run.mops > 10 and not run.facts for run in launches)


def test_the_multi_zone_programs_of_npb():
    assert [
        (run.kernel, run.processes, run.threads, run.npb_class)
        for run in parse_npb(recorded("npb_mz"))
    ] == [("BT-MZ", 2, 2, "S"), ("SP-MZ", 1, 2, "S")]


@pytest.mark.parametrize(
    "damage, facts",
    [
        (lambda text: "", ["no NPB kernel"]),
        (lambda text: re.sub(r"(Active processes=).*", r"\1 1", text), ["CG", "1 of 2 processes"]),
        (
            lambda text: text[: text.index("Benchmark Completed") - 5],
            ['"Benchmark Completed"', "cut off"],
        ),
        (
            lambda text: text.replace("SUCCESSFUL", "UNSUCCESSFUL"),
            ["CG class S", "2 processes", "UNSUCCESSFUL", "computes wrongly"],
        ),
        (
            lambda text: text.replace("SUCCESSFUL", "NOT PERFORMED"),
            ["CG class S", "2 processes", "NOT PERFORMED", "computes wrongly"],
        ),
        (
            lambda text: re.sub(r"(Mop/s total     =).*", r"\1 NaN", text),
            ["CG: Mop/s total", "NaN", "no measurement"],
        ),
        (
            lambda text: re.sub(r"(Mop/s total     =).*", r"\1 0.00", text),
            ["CG: Mop/s total", "0.00", "no measurement"],
        ),
        (
            lambda text: re.sub(r"(Mop/s/process +=).*", r"\1 generated", text),
            ["CG: Mop/s/process", "'generated'", "not a number"],
        ),
        (lambda text: re.sub(r" Mop/s total.*\n", "", text), ["CG", "lack Mop/s total"]),
        (
            lambda text: text.replace("# nearmetal complete", ""),
            ["CG", '"# nearmetal complete"'],
        ),
    ],
)
def test_damaged_npb(damage, facts):
    with pytest.raises(ParseError) as error:
        parse_npb(damage(recorded("npb")))
    assert not lacking(str(error.value), *facts)


def quickened(launch: str) -> str:
    """The output of a launch, with the times of rank 0's iterations divided by four."""
    head, _, seconds = re.search(r"(# nearmetal iterations: .*)(s=)(.*)", launch).groups()
    quick = ",".join(f"{float(one) / 4:.9f}" for one in seconds.split(","))
    return re.sub(r"# nearmetal iterations: .*", f"{head}s={quick}", launch)


def test_ranks_of_ep_do_not_wait_for_the_slowest_one(monkeypatch):
    monkeypatch.setattr(npb, "HELD_UP", 0)
    launches = re.split(r"(?=# nearmetal program: npb)", recorded("npb"))
    [ep] = [launch for launch in launches if "EP Benchmark" in launch]
    [run] = parse_npb(quickened(ep))
    assert sum(run.iterations) < run.seconds / 2
    for other in launches[1:]:
        if other != ep:
            with pytest.raises(ParseError, match="iterations of"):
                parse_npb(quickened(other))


def test_a_busy_host_may_hold_up_one_rank_of_a_small_class():
    launches = re.split(r"(?=# nearmetal program: npb)", recorded("npb"))[1:]
    short = [launch for launch in launches if parse_npb(launch)[0].seconds < 4 * npb.HELD_UP]
    assert short and all(parse_npb(quickened(launch)) for launch in short)


def test_eigen():
    launches = parse_eigen(recorded("eigen"))
    assert [run.processes for run in launches] == [2, 1] * 3
    for run in launches:
        assert (run.side, run.points, run.found, run.known, run.threads) == (16, 32, 17, 17, 1)
        assert (
            run.groups == run.processes
            and run.seconds > 0.1
            and run.facts["solver"].startswith("SLEPc 3.")
        )
        assert run.payload_bytes == (run.processes - 1) * 16 * 16**3 * 32 * 8
    shared = parse_eigen(re.sub(r"# nearmetal payload_bytes.*\n", "", recorded("eigen")))
    assert {run.payload_bytes for run in shared} == {None}


@pytest.mark.parametrize(
    "damage, facts",
    [
        (lambda text: "srun: error", ["no eigensolver", "srun: error"]),
        (
            lambda text: text[: text.index(" Time in seconds")],
            ["lack", "Time in seconds, Verification", "cut off"],
        ),
        (
            lambda text: text.replace("= SUCCESSFUL", "= UNSUCCESSFUL"),
            ["17 of 17", "UNSUCCESSFUL", "SLEPc", "computes wrongly"],
        ),
        (
            lambda text: re.sub(r"(found    =) 17", r"\1 16", text, count=1),
            ["16 of 17 eigenvalues"],
        ),
        (
            lambda text: re.sub(r"(Time in seconds      =).*", r"\1 nan", text),
            ["Time in seconds", "is nan", "no measurement"],
        ),
        (
            lambda text: re.sub(r"(Time in seconds      =).*", r"\1 0.000000", text),
            ["Time in seconds", "is 0.000000", "no measurement"],
        ),
        (
            lambda text: re.sub(r"(Processes            =).*", r"\1 two", text),
            ["Processes is 'two'", "not a number"],
        ),
        (
            lambda text: re.sub(r"# nearmetal threads.*\n", "", text),
            ["eigen: threads is 'missing'"],
        ),
        (
            lambda text: text.replace("# nearmetal complete", "", 1),
            ["eigen", '"# nearmetal complete"'],
        ),
    ],
)
def test_damaged_eigen(damage, facts):
    with pytest.raises(ParseError) as error:
        parse_eigen(damage(recorded("eigen")))
    assert not lacking(str(error.value), *facts)


@pytest.mark.parametrize(
    "name, processes, ours", [("collectives", 2, True), ("imb_collectives", 2, False)]
)
def test_collectives(name, processes, ours):
    [run] = parse_collectives(recorded(name))
    assert (
        run.processes == processes
        and set(run.slowest_us) == set(OPERATIONS)
        and bool(run.facts) == ours
    )
    assert {8, 65536, 1 << 20} <= set(run.slowest_us["Alltoall"]) and list(
        run.slowest_us["Barrier"]
    ) == [0]
    assert (
        run.slowest_us["Bcast"][1 << 20] > run.slowest_us["Bcast"][8] > 0
        and run.payload_bytes > 10e6
    )


def test_only_alltoall_stops_where_messages_to_all_are_too_long(monkeypatch):
    monkeypatch.setattr(collectives, "MOST_TO_ALL", 2 << 19)
    with pytest.raises(ParseError, match="Alltoall"):
        parse_collectives(recorded("collectives"))
    shorter = re.sub(r"\n +1048576 .*", "", recorded("collectives"), count=1)
    [run] = parse_collectives(shorter)
    assert (max(run.slowest_us["Alltoall"]), max(run.slowest_us["Bcast"])) == (1 << 19, 1 << 20)


@pytest.mark.parametrize(
    "damage, facts",
    [
        (lambda text: "srun: error", ["no table of collectives", "srun: error"]),
        (lambda text: text[: text.index("# Benchmarking Bcast")], ["Allreduce", "cut off"]),
        (
            lambda text: re.sub(r"\n +1024 .*", "", text, count=1),
            ["missing", "Alltoall", "512,2048"],
        ),
        (
            lambda text: re.sub(r"(\n +64 .*? )\S+( +\S+\n)", r"\g<1>nan\2", text, count=1),
            ["Alltoall", "64 bytes", "is nan", "no measurement"],
        ),
        (
            lambda text: text.replace("# Benchmarking Bcast", "# Benchmarking Alltoall"),
            ["Alltoall", "twice", "-npmin"],
        ),
        (
            lambda text: re.sub(r"\n +64 .*\n", "\n64 --\n", text, count=1),
            ["'64 --'", "not a row", "Alltoall"],
        ),
    ],
)
def test_damaged_collectives(damage, facts):
    with pytest.raises(ParseError) as error:
        parse_collectives(damage(recorded("collectives")))
    assert not lacking(str(error.value), *facts)


def test_noise():
    launches = parse_noise(recorded("osnoise"))
    assert len(launches) == 3
    for run in launches:
        assert sorted(run.cores) == [0, 1] and run.seconds == 1 and len(run.parts) == 10
        assert 0 < run.share_lost <= run.worst_share_lost < 50 and run.detours_per_second > 1
        assert run.share_lost == pytest.approx(sum(run.parts) / 10, rel=0.05)
        assert sum(run.histogram.values()) == sum(core.detours for core in run.cores.values())
        assert run.longest_us * 1e3 < 2 * max(run.histogram)


def test_noise_that_takes_longer_than_the_run_was_asked_for():
    """A busy machine or a hypervisor may stop a run of 0.1 s for 0.3 s."""
    [run] = parse_noise(recorded("osnoise_stopped"))
    assert run.seconds == 0.1 and run.longest_us > 3e5 and 75 < run.share_lost < 78


@pytest.mark.parametrize(
    "damage, facts",
    [
        (
            lambda text: text[: text.index("# nearmetal parts")],
            ['"# nearmetal complete"', "cut off"],
        ),
        (lambda text: re.sub(r"\n +1 .*", "", text, count=1), ["1 of 2 CPUs"]),
        (
            lambda text: re.sub(
                r"\n( +[01] +\d+ +\d+) +\d+ ",
                r"\n\1 0 ",
                re.sub(r"\n( +[01] +\d+ +\d+ +\d+) .*", r"\n\1 0 0.000000", text),
            ),
            ["nothing interrupted", "1 s", "osnoise.seconds"],
        ),
    ],
)
def test_damaged_noise(damage, facts):
    with pytest.raises(ParseError) as error:
        parse_noise(damage(recorded("osnoise")))
    assert not lacking(str(error.value), *facts)


def test_hpcc():
    [run] = parse_hpcc(recorded("hpcc"))
    assert run.processes == 2 and run.n == 1408 and run.facts["application"] == "HPCC 1.5.0"
    assert set(run.values) == set(VARIABLES) and all(value > 0 for value in run.values.values())
    assert 1 < run.hpl_of_dgemm < 130 and run.matrix_bytes == 8 * 1408**2
    assert len(parse_hpcc(recorded("hpcc") * 2)) == 2


@pytest.mark.parametrize(
    "damage, facts",
    [
        (lambda text: "", ["began 0 times", "ended 0 times"]),
        (lambda text: text[: text.index("End of Summary")], ["began 1 times", "ended 0 times"]),
        (lambda text: text.replace("Success=1", "Success=0"), ["Success=0", "hpccoutf.txt"]),
        (
            lambda text: re.sub(r"HPL_Tflops=.*", "HPL_Tflops=-1", text),
            ["HPL_Tflops", "is -1", "no measurement"],
        ),
        (lambda text: re.sub(r"PTRANS_GBs=.*\n", "", text), ["lacks PTRANS_GBs"]),
        (
            lambda text: re.sub(r"(\|\|Ax-b\|\|.*)PASSED", r"\1FAILED", text),
            ["HPL", "residual", "FAILED"],
        ),
    ],
)
def test_damaged_hpcc(damage, facts):
    with pytest.raises(ParseError) as error:
        parse_hpcc(damage(recorded("hpcc")))
    assert not lacking(str(error.value), *facts)


def place(task, cores, of=4, numa="0", of_numa=2, host="n1"):
    numbers = f"cores={cores} of={of} numa={numa} of_numa={of_numa}"
    return f"# nearmetal binding: host={host} task={task} {numbers}\n"


def test_recorded_launches():
    runs = parse_launch(recorded("launch"))
    assert [run.processes for run in runs] == [2, 1] * 3
    assert all(0 < run.mpi_init_seconds < run.seconds < 10 for run in runs)
    assert runs[0].facts["mpi_library"].startswith("Open MPI v5.0.7")


@pytest.mark.parametrize(
    "damage, words",
    [
        (lambda text: text[: text.rindex("# nearmetal complete")], "cut off"),
        (lambda text: text.replace("since_asked_s", "since"), "--since"),
        (lambda text: text.replace("mpi_init_s=1", "mpi_init_s=nan"), "MPI_Init is .nan"),
        (lambda text: "", "no launch"),
    ],
)
def test_launches_that_tell_no_time_are_refused(damage, words):
    with pytest.raises(ParseError, match=words):
        parse_launch(damage(recorded("launch")))


def test_recorded_bindings():
    """The launches had two tasks on two nodes of the lab, with two cores each."""
    for kind in ("none", "core"):
        places = parse_binding(recorded(f"binding_{kind}"))
        assert [p.task for p in places] == [0, 1] and {p.host for p in places} == {
            "native1",
            "native2",
        }
        assert differs(places, kind) == "" and differs(
            places, {"none": "core", "core": "none"}[kind]
        )


@pytest.mark.parametrize(
    "lines, wanted, facts",
    [
        ([place(0, "0,1,2,3", numa="0,1")], "none", []),
        ([place(0, "0,1", numa="0")], "none", ["task 0", "n1", "2 of 4 cores", "unbound"]),
        ([place(0, "0"), place(1, "1")], "core", []),
        ([place(0, "0"), place(1, "0", host="n2")], "core", []),
        ([place(0, "0"), place(1, "0")], "core", ["tasks 0 and 1", "share core 0", "n1"]),
        ([place(0, "0,1"), place(1, "1,2")], "core", ["tasks 0 and 1", "share core 1", "n1"]),
        (
            [place(0, "0,1,2,3", numa="0,1")],
            "core",
            ["task 0", "n1", "4 of 4 cores", "not bound"],
        ),
        ([place(0, "0", of=1, of_numa=1)], "core", []),
        ([place(0, "0,1"), place(1, "2,3", numa="1")], "numa", []),
        ([place(0, "0,1,2,3", numa="0,1")], "numa", ["task 0", "n1", "4 of 4 cores", "not bound"]),
        ([place(0, "1,2", numa="0,1")], "numa", ["task 0", "n1", "2 NUMA nodes"]),
        ([place(0, "0,1,2,3", of_numa=1)], "numa", []),
    ],
)
def test_bindings_are_as_wanted_or_said_not_to_be(lines, wanted, facts):
    said = differs(parse_binding("".join(lines)), wanted)
    assert bool(said) == bool(facts) and not lacking(said, *facts)


@pytest.mark.parametrize(
    "lines, wanted, facts",
    [
        ([place(0, "0,1"), place(1, "2,3")], "core", []),
        ([place(0, "0,1", of=2)], "core", []),
        ([place(0, "0,1,2,3")], "none", []),
        ([place(0, "0,1", numa="0"), place(1, "0,1", numa="0")], "numa", []),
        ([place(0, "0", of=1)], "none", []),
        ([place(0, "0,1,2,3")], "core", ["task 0", "n1", "4 of 4 cores", "not bound"]),
        ([place(0, "0,1"), place(1, "1,2")], "core", ["tasks 0 and 1", "share core 1", "n1"]),
        (
            [place(0, "0")],
            "core",
            ["task 0", "n1", "1 of 4 cores", "2 threads"],
        ),
    ],
)
def test_bindings_of_two_threads(lines, wanted, facts):
    said = differs(parse_binding("".join(lines)), wanted, threads=2)
    assert bool(said) == bool(facts) and not lacking(said, *facts)


@pytest.mark.parametrize("line", FOREIGN)
def test_lines_of_others_are_no_bindings(line):
    text = recorded("affinity_openmpi_core")
    assert parse_binding(between_lines(text, line)) == parse_binding(text)
    assert parse_bindings(between_lines(text, line), 4) == parse_bindings(text, 4)


@pytest.mark.parametrize("text", ["", "hwloc-bind: not found\n", f"{MARK}host=n1 task=0 cores=0\n"])
def test_what_tells_of_no_task_is_refused(text):
    with pytest.raises(ParseError):
        parse_binding(text)
