"""Our checks where a site has another scheduler or launcher than the lab's default: Slurm without
accounting, MPI's own mpirun, and PRRTE's prun. lab.yaml has a partition of each."""

import shlex

import pytest

from nearmetal.results import load_session

pytestmark = pytest.mark.whole
THERE = {"NEARMETAL_LAB_LAUNCHERS": "yes"}
QUICK = ["-S", "repeats=1", "-S", "stream.elements=1000000", "-S", "tcp.sizes=1024,65536"]
BETWEEN = ("tcp", "pingpong%placement=internode")


#: A site's TaskProlog, as Slurm's own sample: srun prints its lines before those of each task.
PROLOG = """#!/bin/sh
echo "print ====="
echo "print SLURM_JOB_ID = $SLURM_JOB_ID"
echo "print [1732874023.4] [n01:4711:0] mpool.c:55 UCX WARN object was not returned"
"""


@pytest.fixture
def banner(lab, prefix) -> dict[str, str]:
    """The variables of a user whose tasks begin with such lines."""
    script = prefix / "task_prolog"
    lab.run(f"printf %s {shlex.quote(PROLOG)} > {script} && chmod 755 {script}")
    said = lab.run(f"SLURM_TASK_PROLOG={script} srun --quiet -p native hostname")
    assert said.startswith("=====\nSLURM_JOB_ID = ")
    return {"SLURM_TASK_PROLOG": str(script)}


@pytest.mark.ci
@pytest.mark.parametrize(
    "partition, names, cases",
    [
        ("squeue", ("tcp", "affinity", "stream%binding=bound"), 4),
        ("mpirun", (*BETWEEN, "affinity", "npb%benchmark=ep", "stream%binding=bound"), 8),
        ("prun", (*BETWEEN, "affinity"), 3),
    ],
)
def test_our_checks_pass_below_lines_of_the_site(lab, prefix, banner, partition, names, cases):
    done = lab.reframe(
        *("-r", "--system", f"lab:{partition}"),
        *(word for name in names for word in ("-n", f"^{name}$")),
        *QUICK,
        prefix=prefix,
        **THERE,
        **banner,
    )
    assert done.returncode == 0, done.stdout
    session = load_session(prefix / "results.db")
    assert len(session.cases) == cases
    between = [case for case in session.cases if "internode" in case.check or case.check == "tcp"]
    assert between and {case.facts["transport"] for case in between} == {"eth0 (veth)"}
    bound = {value.value for value in session.values if value.variable == "bound"}
    assert bound == {100}


@pytest.mark.parametrize("provider, transport", [("tcp", "eth0 (veth)"), ("shm", "shared memory")])
def test_libfabric_is_measured_by_its_providers(lab, prefix, provider, transport):
    done = lab.reframe(
        *("-r", "--system", "lab:squeue", "-n", "^libfabric$", "-S", "repeats=2"),
        *("-S", f"libfabric.provider={provider}"),
        prefix=prefix,
        **THERE,
    )
    assert done.returncode == 0, done.stdout
    (case,) = load_session(prefix / "results.db").cases
    assert case.facts["transport"] == transport
    assert all(value.value > 0 and len(value.samples) == 2 for value in case.values)


@pytest.mark.ci
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
