"""`ec2:cc` from software that Spack installed out of a build cache, with the lab's MPI library as
external."""

import os
import re
from pathlib import Path

import pytest
import yaml

from nearmetal.checks import sources
from nearmetal.locks import spack
from nearmetal.results import load_session
from nearmetal.util import files
from tests.support.lab import fresh_prefix
from tests.support.measured import CARRIERS, cases
from tests.support.paths import CHECKOUT

pytestmark = pytest.mark.whole

#: Directory of the program `spack`, as the lab's nodes see it.
SPACK = os.environ.get("NEARMETAL_TEST_SPACK", "")
#: Debian's MPI libraries as spack-env requires them.
EXTERNALS = {
    "openmpi": "openmpi@5.0.7 fabrics=ucx,ofi schedulers=none ~rsh",
    "mpich": "mpich@4.2.1 device=ch4 netmod=ofi pmi=default",
}


@pytest.fixture(params=EXTERNALS)
def library(request) -> str:
    if not SPACK:
        pytest.skip("NEARMETAL_TEST_SPACK names no Spack (docs/spack.md#in-the-lab)")
    return request.param


def using(tree: Path) -> dict[str, str]:
    """Environment variables with a Spack that installs into a directory."""
    config = {"config": {"install_tree": {"root": str(tree)}}}
    files.write(tree / "config" / "config.yaml", yaml.safe_dump(config))
    path = f"{SPACK}:/opt/nearmetal/bin:/usr/local/bin:/usr/bin:/bin"
    return {"PATH": path, "SPACK_USER_CONFIG_PATH": str(tree / "config")}


def test_the_command_that_everything_serves_runs_from_a_build_cache(lab, library):
    prefix, environ = fresh_prefix(lab, f"spack_{library}"), f"{library}-spack"
    # Debian has no directory of its own for a library: Spack wants bin and include side by side.
    external = f"{prefix}/external"
    include = f"/usr/lib/x86_64-linux-gnu/{library}/include"
    # Spack runs as the lab's user, who writes into the trees.
    lab.run(f"mkdir {prefix}/tree1 {prefix}/tree2")
    lab.run(f"mkdir {external} && ln -s /opt/modules/{library}/bin {include} {external}")
    known = {"buildable": False, "externals": [{"spec": EXTERNALS[library], "prefix": external}]}
    files.write(prefix / "scope" / "packages.yaml", yaml.safe_dump({"packages": {library: known}}))
    variables = " ".join(f"{name}={value}" for name, value in using(prefix / "tree1").items())
    with_spack = f"cd {CHECKOUT} && env {variables}"
    scope, site = f"spack -C {prefix}/scope", f"{prefix}/site"
    into = f"spack --spack '{scope}' --into {site} --environment {library}"
    said = lab.run(f"{with_spack} python3 -m nearmetal.locks.{into}", timeout=2400)
    assert re.search(f"^{library}: .*{library}@", said, re.M), said
    # What Spack itself makes, of GCC's libraries: a cache holds no external.
    for words in ("add gcc-runtime", "concretize"):
        lab.run(f"{with_spack} {scope} -e {site}/{library} {words}", timeout=2400)
    cached = f"spack_cache --site {site} --cache {prefix}/cache {library}"
    said = lab.run(f"{with_spack} python3 -m nearmetal.locks.{cached}", timeout=2400)
    assert re.search(f"^{library}: .*{library}@", said, re.M), said

    system = yaml.safe_load((CHECKOUT / "site-config/lab/systems/ec2.yaml").read_text())
    system["environments"].append(
        {"name": environ, "extras": {"spack_env": f"{prefix}/site/{library}"}}
    )
    system["partitions"][0]["extras"]["spack_cache"] = f"{prefix}/cache"
    files.write(prefix / "systems" / "ec2.yaml", yaml.safe_dump(system))
    done = lab.reframe(
        *("-r", "--system", "ec2:cc", "-n", "^pingpong%placement=internode", "-p", f"^{environ}$"),
        *("-S", "repeats=2", "-S", "spack_missing=install", "--max-retries=2"),
        prefix=prefix,
        timeout=1800,
        NEARMETAL_SYSTEMS_PATH=f"{prefix}/systems",
        **using(prefix / "tree2"),  # as long a name: Spack relocates in place
    )
    assert "Ran 2/2 test case(s)" in done.stdout and done.returncode == 0, done.stdout
    [case] = [case for case in cases(prefix / "results.db") if case.get("facts")]
    nodes = spack.read_lock(prefix / "site" / library / "spack.lock").nodes.values()
    [node] = [node for node in nodes if node.name == library]
    assert node.external == external
    assert case["facts"][f"spack.{library}"] == f"{node.version}/{node.hash}"
    assert case["facts"]["sources"] == sources.digest()  # built in the job
    assert case["compiler"].startswith("gcc 14.2") and case["transport"] == CARRIERS["emulated"]
    session = load_session(prefix / "results.db", "ec2")
    assert {len(value.samples) for value in session.values} == {2}
    installed = (prefix / "output").rglob("spack_install*/rfm_build.out")
    [output] = [path.read_text() for path in installed]
    assert re.search("Extracting gcc-runtime.* from binary cache", output), output
    assert "installing from source" not in output
