"""Processes that share cores, and those that are bound, in real output of launchers."""

from types import SimpleNamespace

import pytest
from reframe.core.exceptions import SanityError

from nearmetal.checks import provenance
from nearmetal.checks.parsing import ParseError
from nearmetal.checks.parsing.binding import bound_percent, faults, parse_bindings, shared
from nearmetal.checks.scaling import Scaling
from reframe_checks.affinity import affinity
from tests.support.marked import marked
from tests.support.recorded import recorded
from tests.support.said import lacking

#: Four processes, two on each of two nodes with two cores.
BOUND = ("affinity_openmpi_core", "affinity_mpich_core", "affinity_srun_core")
SHARED = {
    "affinity_mpich_default": [0, 1],
    "affinity_openmpi_none": [0, 1],
    "affinity_srun_core_0": [0],
}


@pytest.mark.parametrize("name", BOUND)
def test_processes_with_cores_of_their_own(name):
    [places] = parse_bindings(recorded(name), 4)
    assert [(place.host, place.task) for place in places] == [
        *(("native1", 0), ("native1", 1), ("native2", 2), ("native2", 3)),
    ]
    assert shared(places) == [] and faults(places, "core") == ""
    assert bound_percent(places, "core") == 100


@pytest.mark.parametrize("name, cores", SHARED.items())
def test_processes_that_share_cores_are_named_with_them(name, cores):
    [places] = parse_bindings(recorded(name), 4)
    assert shared(places) == [("native1", [0, 1], cores), ("native2", [2, 3], cores)]
    of_cores = "cores 0, 1" if len(cores) > 1 else "core 0"
    assert faults(places, "core") == (
        f"on native1, tasks 0, 1 share {of_cores}; on native2, tasks 2, 3 share {of_cores}"
    )
    assert bound_percent(places, "core") == 0


def line(task: int, cores: str, of: int = 128, numa: str = "0") -> str:
    return f"# nearmetal binding: host=n1 task={task} cores={cores} of={of} numa={numa} of_numa=2\n"


def test_many_numbers_are_ranges():
    everywhere = ",".join(map(str, range(128)))
    [places] = parse_bindings("".join(line(task, everywhere) for task in range(64)), 64)
    assert faults(places, "core") == "on n1, tasks 0-63 share cores 0-127"


def test_only_some_share():
    lines = [line(0, "0"), line(1, "1,2"), line(2, "2,3"), line(3, "4")]
    [places] = parse_bindings("".join(lines), 4)
    assert faults(places, "core") == "on n1, tasks 1, 2 share core 2"
    assert bound_percent(places, "core") == 50


def test_a_process_alone_on_a_node_is_bound_too():
    [places] = parse_bindings(line(0, "0,1,2,3", of=4), 1)
    assert not lacking(faults(places, "core"), "task 0", "n1", "4 of 4 cores", "not bound")


def test_each_launch_is_read_alone():
    text = recorded("affinity_openmpi_core") + "\n" + recorded("affinity_openmpi_none")
    first, second = parse_bindings(text, 4)
    assert not faults(first, "core") and faults(second, "core")


@pytest.mark.parametrize("text", ["", "".join(recorded(BOUND[0]).splitlines(True)[:3])])
def test_a_launch_that_lost_processes_is_refused(text):
    with pytest.raises(ParseError, match="instead of 4"):
        parse_bindings(text, 4)


def read(text: str, launcher: str = "mpirun", **attributes):
    """The check's reading of an output; SanityError."""
    partition = SimpleNamespace(launcher_type=SimpleNamespace(registered_name=launcher))
    check = SimpleNamespace(
        num_tasks=4, ranks_per_node=2, repeats=1, binding="core", current_partition=partition
    )
    check.__dict__.update(attributes, _launcher=launcher, _wanted="core")
    check.expect_repeats = lambda launches: None
    for name in ("_expect_nodes", "_expect_binding"):
        setattr(check, name, getattr(affinity, name).__get__(check))
    affinity.read_output(check, text)
    return check


def test_the_check_passes_bound_processes():
    assert len(read(recorded(BOUND[0])).runs) == 1


@pytest.mark.parametrize(
    "launcher, name, option",
    [
        ("mpirun", "affinity_mpich_default", "`mpirun --map-by core --bind-to core`"),
        ("srun", "affinity_srun_core_0", "`srun --cpu-bind=cores`"),
    ],
)
def test_the_check_names_processes_cores_and_the_launchers_option(launcher, name, option):
    with pytest.raises(SanityError) as error:
        read(recorded(name), launcher)
    assert not lacking(str(error.value), "native1", "tasks 0, 1 share core", "tasks 2, 3", option)


def test_the_check_refuses_another_number_of_processes_on_a_node():
    with pytest.raises(SanityError) as error:
        read(recorded(BOUND[0]), ranks_per_node=4)
    assert not lacking(str(error.value), "2 processes", "native1", "instead of 4", "mpirun")


@pytest.mark.parametrize("host", ["cn-001.alpine.example.org", "cn-001", "other-name"])
def test_bindings_are_those_of_the_jobs_nodes_whatever_their_hosts_are_called(host):
    """Launchers other than srun leave no name but the host's."""
    nodes = provenance.parse(marked(f"cn-001 machine.host={host}\n"))
    case = SimpleNamespace(
        _counters=(nodes, nodes),
        _read=lambda name: "".join(line(task, str(task)) for task in (0, 1)).replace("n1", host),
        _failure=SanityError,
        _bound=lambda: (2, 1),
        num_components=1,
        num_nodes=1,
        facts={"nodes": ["cn-001"]},
        binding="core",
    )
    Scaling.check_binding(case)
    case.facts = {"nodes": ["cn-002"]}
    with pytest.raises(SanityError, match=r"lists cn-001, but the job ran on cn-002"):
        Scaling.check_binding(case)
