"""Job scripts of our checks, dry, for each scheduler with each launcher.

Flux's Python bindings need Flux itself, which no Debian has. A stand-in of them serves the dry run
alone: it shows that the script is written, and nothing of a job in Flux.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.paths import CHECKOUT

#: Scheduler -> beginning of its directives, and the one for two nodes with a task each. Flux is
#: told by a library. A job of `local` is a process.
SCHEDULERS = {
    "slurm": ("#SBATCH", "--ntasks-per-node=1"),
    "squeue": ("#SBATCH", "--ntasks-per-node=1"),
    "pbs": ("#PBS", "-l select=2:mpiprocs=1:ncpus=1"),
    "lsf": ("#BSUB", "-nnodes 2"),
    "local": ("", ""),
    "flux": ("", ""),
}
#: Launcher -> how it starts two processes, and how it binds each to a core.
LAUNCHERS = {
    "srun": ("srun", "--cpu-bind=cores"),
    "mpirun": ("mpirun -np 2", "--bind-to core"),
    "mpiexec": ("mpiexec -n 2", "--bind-to core"),
    "prun": ("prun --personality ompi -n 2", "--bind-to core"),
    "mpirun-intelmpi": ("mpirun -np 2", "-genv I_MPI_PIN_DOMAIN core"),
}
BINDINGS = {
    "__init__": "class Flux: pass\n",
    "job": "class FluxExecutor: pass\n"
    "class JobspecV1:\n    from_command = classmethod(lambda cls, **words: cls())\n",
}


def dry(directory: Path, schedulers) -> subprocess.CompletedProcess:
    """A dry run of a system with a partition for each of these schedulers with each launcher."""
    extras = {"link_class": "native", "link_speed_gbps": 10, "hypervisor": "none", "nodes": 2}
    extras |= {"ranks_per_node": 1, "no_baseline": "nothing runs"}
    system = {
        "name": "here",
        "hostnames": [],
        "partitions": [
            {
                "name": f"{scheduler}-{launcher}",
                "scheduler": scheduler,
                "launcher": launcher,
                "environs": ["openmpi", "gnu"],
                "extras": extras,
            }
            for scheduler in schedulers
            for launcher in LAUNCHERS
        ],
    }
    (directory / "here.yaml").write_text(yaml.safe_dump(system))
    own = {k: v for k, v in os.environ.items() if not k.startswith(("RFM_", "NEARMETAL_"))}
    return subprocess.run(
        [
            *(Path(sys.executable).with_name("reframe"), "--nocolor", "--dry-run"),
            *("-c", "reframe_checks/tcp.py", "-c", "reframe_checks/affinity.py", "--system=here"),
        ],
        cwd=CHECKOUT,
        env={
            **own,
            "RFM_CONFIG_PATH": str(CHECKOUT / "site-config"),
            "RFM_RESOLVE_MODULE_CONFLICTS": "0",
            "RFM_PREFIX": str(directory),
            "NEARMETAL_SYSTEMS_PATH": str(directory),
            "PYTHONPATH": f"{CHECKOUT}:{directory}",
        },
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    """Job scripts of all partitions: function of scheduler, launcher, environment and check."""
    directory = tmp_path_factory.mktemp("launchers")
    (directory / "flux").mkdir()
    for name, text in BINDINGS.items():
        (directory / "flux" / f"{name}.py").write_text(text)
    done = dry(directory, SCHEDULERS)
    cases = len(SCHEDULERS) * len(LAUNCHERS) * len(("tcp", "affinity"))
    assert f"Ran {cases}/{cases} test case(s)" in done.stdout, done.stdout

    def read(scheduler: str, launcher: str, environ: str, check: str) -> str:
        place = directory / "stage" / "here" / f"{scheduler}-{launcher}" / environ
        return (place / check / "rfm_job.sh").read_text()

    return read


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_each_scheduler_with_each_launcher(scripts, scheduler, launcher):
    (sign, spread), (starts, binds) = SCHEDULERS[scheduler], LAUNCHERS[launcher]
    tcp = scripts(scheduler, launcher, "gnu", "tcp")
    affinity = scripts(scheduler, launcher, "openmpi", "affinity")
    assert tcp.count(f"{starts} sh task.sh > tasks.out\n") == 1
    assert tcp.count(f"    {starts} sh tcp.sh ") == 1
    directives = [line for line in tcp.splitlines() if sign and line.startswith(sign)]
    assert bool(directives) == bool(sign) and any(spread in line for line in directives or [""])
    assert f"    {starts} {binds} sh binding.sh\n" in affinity
    # The facts of the nodes: by srun in Slurm, whatever starts the program.
    slurm = sign == "#SBATCH"
    for script in (tcp, affinity):
        assert script.index("\nexport LC_ALL=C\n") < script.index("\nset -e\n")
    assert ("srun --mpi=none " in tcp) == slurm
    assert ("\nprte --daemonize " in tcp) == (launcher == "prun")
    assert ("--overlap" in tcp) == (slurm and launcher == "prun")


@pytest.mark.skipif("flux" in sys.modules, reason="this Python has Flux's bindings")
def test_without_its_bindings_flux_is_refused_with_the_fix(tmp_path):
    done = dry(tmp_path, ["slurm", "flux"])
    assert done.returncode == 1
    facts = [str(tmp_path / "here.yaml"), "here:flux-srun", "flux Python bindings", "Fix: "]
    assert all(fact in done.stdout for fact in [*facts, "flux-python"]), done.stdout
