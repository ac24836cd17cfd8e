"""What the login node lacks: Python, ReFrame, commands, and the way to the site's files."""

import importlib.metadata
import operator
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from nearmetal.checkout import CHECKOUT
from nearmetal.doctor.finding import Finding
from nearmetal.site import versions as supported

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
#: Lines of pyproject.toml, which Python 3.9 cannot read as TOML.
PYTHON = re.compile(r'^requires-python = "(.*)"$', re.MULTILINE)
PACKAGES = re.compile(r"^dependencies = \[(.*)\]$", re.MULTILINE)
COMPARE = {
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "~=": operator.ge,
}
COMPARISON = re.compile(r"(==|>=|<=|!=|>|<|~=)\s*([\d.]+)")


def findings(schedulers: Iterable[str], environment=os.environ) -> Iterator[Finding]:
    """What is missing, whatever the system's file says.

    :arg schedulers: those of the system's partitions.
    """
    yield from versions()
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
    what, _, fix = text[max(0, text.find("failed to load")) :].partition(". Fix: ")
    yield Finding(
        f"ReFrame refuses the configuration of {system}: {what}", fix or f"correct {path}"
    )


def versions() -> Iterator[Finding]:
    """Python and ReFrame, where their versions are not those that the package needs."""
    python, packages = needs()
    version = ".".join(map(str, sys.version_info[:3]))
    if not fits(version, python):
        fix = f"make the virtual environment with Python {python}"
        yield Finding(f"Python {version} is not {python}", fix, blocks=False)
    for needed in packages:
        match = re.fullmatch(r"reframe-hpc\s*\(?([^;)]*)\)?\s*(;.*)?", needed)
        if match and "extra" not in (match[2] or ""):
            yield from _reframe(match[1].strip())


def needs() -> tuple[str, list[str]]:
    """Python's version and the packages that Nearmetal needs, also where it is not installed."""
    try:
        python = importlib.metadata.metadata("nearmetal")["Requires-Python"] or ""
        return python, importlib.metadata.requires("nearmetal") or []
    except importlib.metadata.PackageNotFoundError:
        project = (CHECKOUT / "pyproject.toml").read_text()
        return PYTHON.findall(project)[0], re.findall('"(.*?)"', PACKAGES.findall(project)[0])


def _reframe(condition: str) -> Iterator[Finding]:
    try:
        version = importlib.metadata.version("reframe-hpc")
    except importlib.metadata.PackageNotFoundError:
        yield Finding("ReFrame is not installed", f"pip install 'reframe-hpc{condition}'")
        return
    if why := supported.refused(version):
        what, _, fix = why.partition(". Fix: ")
        yield Finding(what, fix, blocks=False)


def fits(version: str, condition: str) -> bool:
    """Whether a version meets a condition such as `>=3.11,<4`."""
    ours = _numbers(version)
    for sign, text in COMPARISON.findall(condition):
        other = _numbers(text)
        width = max(len(ours), len(other))
        left, right = (each + (0,) * (width - len(each)) for each in (ours, other))
        # `~=4.7` is 4.7 or a later 4.
        release = len(other) - 1 if sign == "~=" else 0
        compare = COMPARE[sign]
        if not compare(left, right) or left[:release] != right[:release]:
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, match[0].split("."))) if match else (0,)
