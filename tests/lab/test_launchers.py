"""Our checks where a site has another scheduler or launcher than the lab: Slurm without accounting,
and MPI's own mpirun."""

import pytest
import yaml

from nearmetal import files
from nearmetal.results import load_session
from tests.support.paths import CHECKOUT

pytestmark = pytest.mark.whole
NAMES = ("pingpong", "collectives", "launch", "npb%benchmark=ep", "stream%binding=bound", "tcp")
QUICK = ["-S", "repeats=1", "-S", "stream.elements=1000000", "-S", "tcp.sizes=1024,65536"]


@pytest.fixture
def sites(prefix):
    """A directory with a system `site`: the native partition without accounting."""
    lab = yaml.safe_load((CHECKOUT / "site-config" / "systems" / "lab.yaml").read_text())
    native = lab["partitions"][0] | {"environs": ["openmpi", "mpich", "gnu"]}
    partitions = [
        native | {"name": "squeue", "scheduler": "squeue"},
        native | {"name": "mpirun", "launcher": "mpirun"},
    ]
    system = lab | {"name": "site", "partitions": partitions}
    files.write(prefix / "systems" / "site.yaml", yaml.safe_dump(system))
    return prefix / "systems"


#: Not `tcp`: tcp.sh takes its task's number from srun.
BY_MPIRUN = ("pingpong%placement=internode", "npb%benchmark=ep")


@pytest.mark.parametrize(
    "partition, names, cases", [("squeue", NAMES, 12), ("mpirun", BY_MPIRUN, 4)]
)
def test_our_checks_pass(lab, prefix, sites, partition, names, cases):
    done = lab.reframe(
        *("-r", "--system", f"site:{partition}"),
        *(word for name in names for word in ("-n", name)),
        *QUICK,
        prefix=prefix,
        NEARMETAL_SYSTEMS_PATH=str(sites),
    )
    assert done.returncode == 0, done.stdout
    session = load_session(prefix / "results.db")
    assert len(session.cases) == cases
    between = [case for case in session.cases if "internode" in case.check]
    assert {case.facts["transport"] for case in between} == {"eth0 (veth)"}
