"""`nearmetal doctor`: what a system lacks to run the checks, each with its fix."""

import os
import shutil
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path

from nearmetal import results
from nearmetal.cluster.cluster import Cluster
from nearmetal.commands.common import warn
from nearmetal.doctor import described, here, smoke
from nearmetal.doctor.described import Described
from nearmetal.doctor.finding import Finding, together
from nearmetal.errors import NearmetalError
from nearmetal.site.system import System, system_files
from nearmetal.util import suggest


def run(arguments) -> int:
    """Print what is missing; 2 if something is."""
    if not (arguments.no_jobs or smoke.CHECKS.is_dir()):
        raise NearmetalError(
            f"there is no {smoke.CHECKS}, whose checks are the smoke cases. Fix: run this in a "
            "checkout of Nearmetal's repository, or give --no-jobs"
        )
    name, _, partition = (arguments.system or system_of_host()).partition(":")
    system = System.named(name)
    if partition:
        system = system.only(partition)
    cluster = Cluster()
    cluster.ask_modules_system()
    schedulers = [partition["scheduler"] for partition in system.partitions]
    if not set(schedulers).isdisjoint(described.SLURM):
        cluster.ask_slurm()
    print(f"{name}: {system.path}")
    missing = [*here.findings(schedulers), *described.findings(Described(system, cluster))]
    directory = arguments.directory or results.default_database().parent / "doctor"
    if shutil.which("reframe"):
        with tempfile.TemporaryDirectory() as empty:  # the place of results is another question
            missing += here.configuration(name, system.path, smoke.environment(Path(empty)))
    printed = together(missing)
    for finding in printed:
        print(f"missing: {finding}", flush=True)
    if not missing:
        print("ok: commands, versions, partitions and modules")
    if arguments.no_jobs:
        print("smoke cases were not run (--no-jobs)")
    elif smokes_anywhere(system, missing):
        printed += run_smoke_cases(system, missing, directory.absolute(), arguments.wait)
    return summary(name, len(printed), arguments.no_jobs)


def system_of_host() -> str:
    """The system of RFM_SYSTEM, else the one whose host names match this host, as in ReFrame."""
    if os.environ.get("RFM_SYSTEM"):
        return os.environ["RFM_SYSTEM"]
    host = socket.gethostname()
    names, damaged = [], ""
    for file in system_files():
        if file.fault:
            damaged += f"\n  {file.fault}"
        elif file.matches(host):
            return file.name
        else:
            names.append(file.name)
    raise NearmetalError(
        f"no system's `hostnames` match this host, {host}: "
        f"{suggest.unknown(None, names)}. Fix: nearmetal doctor SYSTEM, or nearmetal init{damaged}"
    )


def environs_to_try(partition: dict, findings: Sequence[Finding]) -> list[str]:
    """The environments that nothing found so far keeps from running."""
    return [
        name
        for name in partition["environs"]
        if not any(finding.covers(partition["name"], name) for finding in findings)
    ]


def smokes_anywhere(system: System, findings: Sequence[Finding]) -> bool:
    return any(environs_to_try(partition, findings) for partition in system.partitions)


def run_smoke_cases(
    system: System, known: Sequence[Finding], directory: Path, wait: int
) -> list[Finding]:
    """Run a short case on each partition with each environment. Returns what is missing."""
    directory.mkdir(parents=True, exist_ok=True)
    findings: list[Finding] = []
    for partition in system.partitions:
        name = partition["name"]
        environs = environs_to_try(partition, known)
        for case in smoke.plan(partition, environs, system.environments):
            warn(f"running {case.check.strip('^$')} on {name} with {', '.join(case.environs)}")
            ran = smoke.run(system.name, name, case, directory, wait, warn)
            for line in smoke.lines_of(ran, name, case):
                print(line, flush=True)
            for finding in ran.findings:
                print(f"missing: {finding}", flush=True)
            findings += ran.findings
    return findings


def summary(name: str, findings: int, without_jobs: bool) -> int:
    """Print the end, and return the exit code.

    :arg findings: number of the lines that were printed.
    """
    if findings:
        print(f"{name}: findings: {findings}; cases that they concern do not run")
        return 2
    print(f"{name}: nothing is missing" + (" as far as no job shows it" * without_jobs))
    if not without_jobs:
        print(f"next:\n    reframe -c reframe_checks -r --system {name}")
    return 0
