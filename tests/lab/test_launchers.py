"""Our checks where a site has another scheduler or launcher than the lab's default: Slurm without
accounting, MPI's own mpirun, and PRRTE's prun. lab.yaml has a partition of each."""

import pytest

from nearmetal.results import load_session

pytestmark = pytest.mark.whole
THERE = {"NEARMETAL_LAB_LAUNCHERS": "yes"}
QUICK = ["-S", "repeats=1", "-S", "stream.elements=1000000", "-S", "tcp.sizes=1024,65536"]
BETWEEN = ("tcp", "pingpong%placement=internode")


@pytest.mark.parametrize(
    "partition, names, cases",
    [
        ("squeue", ("tcp", "affinity", "stream%binding=bound"), 4),
        ("mpirun", (*BETWEEN, "affinity", "npb%benchmark=ep", "stream%binding=bound"), 8),
        ("prun", (*BETWEEN, "affinity"), 3),
    ],
)
def test_our_checks_pass(lab, prefix, partition, names, cases):
    done = lab.reframe(
        *("-r", "--system", f"lab:{partition}"),
        *(word for name in names for word in ("-n", f"^{name}$")),
        *QUICK,
        prefix=prefix,
        **THERE,
    )
    assert done.returncode == 0, done.stdout
    session = load_session(prefix / "results.db")
    assert len(session.cases) == cases
    between = [case for case in session.cases if "internode" in case.check or case.check == "tcp"]
    assert between and {case.facts["transport"] for case in between} == {"eth0 (veth)"}
    bound = {value.value for value in session.values if value.variable == "bound"}
    assert bound == {100}


def test_processes_that_share_cores_are_named_with_the_launchers_option(lab, prefix):
    """MPICH's mpirun binds nothing by default, so that all processes of a node share its cores."""
    done = lab.reframe(
        *("-r", "--system", "lab:mpirun", "-p", "mpich", "-n", "^affinity$"),
        *("-S", "affinity.binding=default"),
        prefix=prefix,
        **THERE,
    )
    said = " ".join(done.stdout.split())
    assert done.returncode == 1
    assert "on native1, tasks 0, 1 share cores 0, 1" in said, done.stdout
    assert "`mpirun --map-by core --bind-to core`" in said
