"""MPI libraries that no Debian built, in modules as a site has them (tests/support/stacks.yaml):
`init` describes them, and checks run with each."""

import pytest
import yaml

from nearmetal.results import load_session
from nearmetal.util import files
from tests.support import stacks
from tests.support.lab import fresh_prefix
from tests.support.paths import CHECKOUT

#: 350 MB are installed, and each library runs some cases: minutes.
pytestmark = pytest.mark.whole

#: Environment -> the beginning of what its library says of itself.
LIBRARIES = {
    "openmpi": "Open MPI v5.0.11",
    "openmpi4": "Open MPI v4.1.8",
    "mpich": "MPICH Version: 5.0.2",
    "intelmpi": "Intel(R) MPI Library 2021.19",
}
MODULES = {"openmpi/5.0.11", "mpich/5.0.2", "intel-oneapi-mpi/2021.19.0"}
QUICK = ("-S", "repeats=1", "-S", "pingpong.max_time=0.02", "-S", "collectives.max_time=0.02")


@pytest.fixture(scope="module")
def site(lab):
    """The directory of the site's modules and file: that of `init`, with the speed of lab.yaml."""
    prefix = fresh_prefix(lab, "stacks")
    # Beside it, so that the libraries stay for the next time.
    libraries = prefix.with_name("stacks_libraries")
    stacks.install(libraries)
    modules = libraries / "modules"
    written = lab(
        "exec",
        f"MODULEPATH={modules} nearmetal init found --directory {prefix} --partition=native --yes",
        check=False,
    )
    assert written.returncode == 0, written.stdout
    described = yaml.safe_load((prefix / "found.yaml").read_text())
    [native] = described["partitions"]
    environments = {one["name"]: one for one in described["environments"]}
    assert native["launcher"] == "srun" and LIBRARIES.keys() - {"openmpi4"} <= {*native["environs"]}
    assert {
        module for one in described["environments"] for module in one.get("modules", ())
    } == MODULES
    # Of two versions `init` takes the newer. A person adds the other.
    environments["openmpi4"] = {
        "name": "openmpi4",
        "modules": ["openmpi/4.1.8"],
        "cc": "mpicc",
        "features": ["mpi", "openmpi"],
        "env_vars": [["SLURM_MPI_TYPE", "pmix"]],
    }
    system = yaml.safe_load((CHECKOUT / "site-config/systems/lab.yaml").read_text())
    system["name"] = "stacks"
    system["environments"] = [environments[name] for name in LIBRARIES]
    [ours] = [one for one in system["partitions"] if one["name"] == "native"]
    system["partitions"] = [{**ours, "environs": [*LIBRARIES], "features": ["mpi"]}]
    files.write(prefix / "systems" / "stacks.yaml", yaml.safe_dump(system))
    return {"MODULEPATH": str(modules), "NEARMETAL_SYSTEMS_PATH": str(prefix / "systems")}


@pytest.mark.parametrize("environ", LIBRARIES)
def test_checks_run_with_a_library_of_a_sites_modules(lab, site, prefix, environ):
    done = lab.reframe(
        *("-r", "--system", "stacks:native", "-p", f"^{environ}$", *QUICK, "--max-retries=2"),
        *("-n", "^(pingpong%placement=int|collectives|npb%benchmark=(cg|is))"),
        prefix=prefix,
        timeout=900,
        **site,
    )
    assert done.returncode == 0, done.stdout
    cases = load_session(prefix / "results.db").cases
    assert {case.check.split()[0].split("_")[0] for case in cases} >= {
        "pingpong",
        "collectives",
        "npb",
    }
    for case in cases:
        assert case.values and not case.failure
        assert " ".join(case.facts["mpi_library"].split()).startswith(LIBRARIES[environ])
    transports = {case.facts["transport"] for case in cases if "internode" in case.check}
    assert transports == {"eth0 (veth)"}
