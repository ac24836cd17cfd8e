"""What launchers are given: the number of processes, and how to bind them."""

import importlib.util
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest
from reframe.core.backends import getlauncher
from reframe.core.exceptions import ConfigError

from nearmetal.site.configuration import refuse_unusable_scheduler
from nearmetal.site.launchers import OPTIONS, advice, binding_options, with_binding
from nearmetal.site.system import System
from tests.support.said import lacking


def test_reframe_knows_prun():
    launcher = getlauncher("prun")()
    launcher.options = ["--bind-to", "core"]
    line = launcher.run_command(SimpleNamespace(num_tasks=4))
    assert line == "prun --personality ompi -n 4 --bind-to core"
    assert launcher.start[0].startswith("prte --daemonize")


def test_launchers_are_those_of_reframe_and_know_each_binding():
    for name, options in OPTIONS.items():
        assert set(options) == {"none", "core", "numa"}
        assert name == "srun-mpj" or getlauncher(name)
    assert binding_options("srun", "numa") == ["--cpu-bind=ldoms"]
    assert binding_options("mpiexec", "core") == ["--bind-to", "core"]
    assert binding_options("mpirun-intelmpi", "core") == ["-genv", "I_MPI_PIN_DOMAIN", "core"]
    assert binding_options("alps", "core") == []


@pytest.mark.parametrize(
    "launcher, binding, facts",
    [
        ("srun", "core", ["`srun --cpu-bind=cores`", "TaskPlugin=task/affinity", "slurm.conf"]),
        ("mpirun", "core", ["`mpirun --map-by core --bind-to core`"]),
        ("mpirun-openmpi", "numa", ["`mpirun --bind-to numa`"]),
        ("mpirun-intelmpi", "core", ["`mpirun -genv I_MPI_PIN_DOMAIN core`"]),
        ("prun", "core", ["`prun --map-by core --bind-to core`"]),
        ("alps", "core", ["option of alps", "core"]),
    ],
)
def test_the_advice_names_the_launchers_option(launcher, binding, facts):
    assert not lacking(advice(launcher, binding), *facts)


@pytest.mark.parametrize(
    "name, options",
    [
        ("mpirun", ["--site", "--bind-to", "none"]),
        ("srun", ["--site", "--cpu-bind=none"]),
        ("ssh", ["--site"]),
    ],
)
def test_a_launcher_binds_after_the_sites_options_and_stays_as_it_is(name, options):
    launcher = SimpleNamespace(registered_name=name, options=["--site"])
    assert with_binding(launcher, "none").options == options
    assert with_binding(launcher, "").options == launcher.options == ["--site"]


@pytest.mark.skipif(bool(importlib.util.find_spec("flux")), reason="Flux's bindings are installed")
@pytest.mark.parametrize(
    "asked, here, refused",
    [
        ("site", False, True),
        ("site:batch", False, True),
        ("site:login", False, False),
        ("other", True, False),
        ("", True, True),
        ("", False, False),
    ],
)
def test_a_scheduler_without_its_library_is_refused_where_it_is_chosen(asked, here, refused):
    partitions = [{"name": "login", "scheduler": "local"}, {"name": "batch", "scheduler": "flux"}]
    hostnames = ["^no such host$", *([f"^{socket.gethostname()}$"] if here else [])]
    document = {"name": "site", "hostnames": hostnames}
    systems = [System(Path("/etc/site.yaml"), document, {}, tuple(partitions))]
    if not refused:
        refuse_unusable_scheduler(asked, systems)
        return
    with pytest.raises(ConfigError) as error:
        refuse_unusable_scheduler(asked, systems)
    facts = ["/etc/site.yaml", "site:batch", "scheduler: flux", "Fix: ", "flux-python"]
    assert not lacking(str(error.value), *facts)
