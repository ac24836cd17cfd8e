"""What the login node lacks: ReFrame, commands, and the way to the site's files."""

import importlib.metadata
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from nearmetal.checkout import CHECKOUT
from nearmetal.doctor.finding import Finding
from nearmetal.site import versions

#: Scheduler -> the commands by which ReFrame uses it.
COMMANDS = {
    "slurm": ("sbatch", "squeue", "scancel", "sacct"),
    "squeue": ("sbatch", "squeue", "scancel"),
    "pbs": ("qsub", "qstat", "qdel"),
    "torque": ("qsub", "qstat", "qdel"),
    "pbspro": ("qsub", "qstat", "qdel"),
    "lsf": ("bsub", "bjobs", "bkill"),
    "flux": ("flux",),
    "sge": ("qsub", "qstat", "qdel"),
    "oar": ("oarsub", "oarstat", "oardel"),
}
#: Seconds for ReFrame to load its configuration.
PATIENCE = 120


def findings(schedulers: Iterable[str], environment=os.environ) -> Iterator[Finding]:
    """What is missing, whatever the system's file says.

    :arg schedulers: those of the system's partitions.
    """
    yield from version_of_reframe()
    if not environment.get("RFM_CONFIG_PATH") and not environment.get("RFM_CONFIG_FILES"):
        yield Finding(
            "RFM_CONFIG_PATH is not set, so that `reframe` does not find the site's files",
            f"export RFM_CONFIG_PATH={CHECKOUT / 'site-config'}",
            blocks=False,
        )
    for place in filter(None, environment.get("RFM_CONFIG_PATH", "").split(":")):
        # A relative one is found from some directories alone.
        if not Path(place).is_absolute() or not Path(place).exists():
            yield Finding(
                f"RFM_CONFIG_PATH has {place}, which is relative or not there, so that `reframe` "
                "finds it from some directories or from none",
                f"export RFM_CONFIG_PATH={CHECKOUT / 'site-config'}",
                blocks=False,
            )
    if not shutil.which("reframe"):
        yield Finding("`reframe` is not on PATH", "activate the virtual environment", blocks=False)
    for scheduler in dict.fromkeys(schedulers):
        missing = [name for name in COMMANDS.get(scheduler, ()) if not shutil.which(name)]
        if missing:
            yield Finding(
                f"the scheduler {scheduler} needs {', '.join(missing)}, which PATH lacks",
                "run this on a login node, or add their directory to PATH",
            )


def configuration(system: str, path: Path, variables: Mapping[str, str]) -> Iterator[Finding]:
    """What the installed ReFrame says of the configuration that it cannot load."""
    # The installed ReFrame may be of another environment than this Python.
    words = [str(shutil.which("reframe")), "--nocolor", "--system", system]
    words += ["--show-config=systems/0/name"]
    try:
        done = subprocess.run(
            words,
            env=dict(variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=PATIENCE,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        yield Finding(f"ReFrame cannot load the configuration ({error})", "run `reframe -V`")
        return
    if done.returncode == 0:
        return
    text = " ".join(done.stdout.split())
    why = text[max(0, text.find("failed to load")) :]
    sentence = f"ReFrame refuses the configuration of {system}: {why}"
    yield Finding.of(sentence, fix=f"correct {path}")


def version_of_reframe() -> Iterator[Finding]:
    """A ReFrame that is older than the package needs."""
    if why := versions.refused(importlib.metadata.version("reframe-hpc")):
        yield Finding.of(why, blocks=False)
