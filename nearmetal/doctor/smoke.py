"""Runs short cases by ReFrame on each partition, and reads why one failed."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nearmetal import results, strict_yaml
from nearmetal.checkout import CHECKOUT
from nearmetal.doctor.finding import Finding
from nearmetal.results import Case, Database, ResultsError

CAUSES = Path(__file__).resolve().parent / "causes.yaml"
CHECKS = CHECKOUT / "reframe_checks"
#: ReFrame's line on a skipped case: its environment, and the reason.
SKIPPED = re.compile(r"^\[ +SKIP +\] .*@\S+\+(\S+) \[(.*)\]$", re.MULTILINE)
#: Most characters of a job's output that are read.
MOST = 100_000


@dataclass(frozen=True)
class Smoke:
    """A check that shows whether programs of some environments run."""

    check: str  #: for ReFrame's -n
    environs: tuple[str, ...]
    settings: tuple[str, ...]  #: for ReFrame's -S


def plan(partition: dict, environs: Sequence[str], known: Mapping[str, dict]) -> list[Smoke]:
    """The smoke cases of a partition: two processes with MPI, one program without.

    :arg environs: those to try.
    """
    nodes = partition["extras"].get("nodes", 2)
    features = {name: set(known[name].get("features", ())) for name in environs}
    mpi = [name for name in environs if "mpi" in features[name]]
    java = [name for name in environs if "mpj" in features[name]]
    serial = [name for name in environs if "serial" in features[name]]
    per_node = 1 if nodes > 1 else 2
    placement = "internode" if nodes > 1 else "intranode"
    found = [
        Smoke("^launch$", tuple(mpi), ("launch.processes=2", f"launch.ranks_per_node={per_node}")),
        Smoke("^osnoise$", tuple(serial), ("osnoise.seconds=0.1",)),
        Smoke(
            f"^pingpong%placement={placement}",
            tuple(java),
            ("pingpong.max_time=0.01", "pingpong.max_bytes=65536", "pingpong.java_warm_up=1"),
        ),
    ]
    return [one for one in found if one.environs]


def command(system: str, partition: str, smoke: Smoke, wait: int) -> list[str]:
    """ReFrame's command for one smoke case of each environment. Spack installs nothing."""
    short = ("repeats=1", "spare_repeats=0", "spack_missing=skip", f"max_pending_time={wait}s")
    settings = (*smoke.settings, *short)
    names = "|".join(re.escape(name) for name in smoke.environs)
    beside = Path(sys.executable).with_name("reframe")
    reframe = shutil.which("reframe") or str(beside)
    return [
        *(reframe, "--nocolor", "-c", str(CHECKS), "-r", "--system", f"{system}:{partition}"),
        *("-n", smoke.check, "-p", f"^({names})$", "--skip-performance-check"),
        *(word for setting in settings for word in ("-S", setting)),
    ]


def environment(directory: Path) -> dict[str, str]:
    """The variables of ReFrame, whose results go to a directory of their own.

    A smoke case is no measurement: among the results of the suite it would be the newest session.
    """
    own = ("RFM_SYSTEM", "RFM_REPORT_FILE", "RFM_REPORT_JUNIT", "RFM_CONFIG_FILES")
    kept = {name: text for name, text in os.environ.items() if name not in own}
    return {
        "RFM_CONFIG_PATH": str(CHECKOUT / "site-config"),
        **kept,
        "RFM_PREFIX": str(directory),
        # A system's file may say `stagedir` and `outputdir`, which a prefix does not move.
        "RFM_STAGE_DIR": str(directory / "stage"),
        "RFM_OUTPUT_DIR": str(directory / "output"),
        "RFM_ENABLE_RESULTS_STORAGE": "1",
        "RFM_SQLITE_DB_FILE": str(directory / "results.db"),
    }


@dataclass(frozen=True)
class Ran:
    """What became of the smoke cases of one partition."""

    passed: tuple[str, ...]  #: environments
    findings: tuple[Finding, ...]


def run(system: str, partition: str, smoke: Smoke, directory: Path, wait: int) -> Ran:
    """Run the smoke cases. ReFrame's output and the jobs' stay in the directory."""
    database = directory / "results.db"
    before, started = _newest(database, system), time.time()
    words = command(system, partition, smoke, wait)
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environment(directory),
        )
    except OSError as error:
        return Ran(
            (),
            (
                Finding(
                    f"{words[0]} cannot be started: {error.strerror}",
                    "activate the virtual environment",
                    partition,
                ),
            ),
        )
    after = _newest(database, system)
    if before and after and after.uuid == before.uuid:
        after = None  # ReFrame stored no case
    cases = {case.environ: case for case in after.cases} if after else {}
    passed, found = [], []
    for name in smoke.environs:
        case = cases.get(name)
        if case is None:
            found.append(of_output(done.stdout, partition, name))
        elif ran(case):
            passed.append(name)
        else:
            stage = directory / "stage" / system / partition / name
            found.append(of_case(case, outputs(stage, started), stage))
    return Ran(tuple(passed), tuple(found))


def ran(case: Case) -> bool:
    """Whether the program ran, however fast."""
    return case.failure is None or case.phase == "performance"


def _newest(database: Path, system: str) -> results.Session | None:
    if not database.exists():
        return None
    try:
        return results.load_session(Database(database), system)
    except ResultsError:
        return None


def outputs(stage: Path, since: float) -> str:
    """What the jobs below a directory wrote since a time, in seconds since 1970."""
    texts = []
    for path in sorted(stage.rglob("rfm_*")):
        try:
            if path.suffix in (".err", ".out") and path.stat().st_mtime >= since - 1:
                with open(path, errors="replace") as opened:
                    texts.append(opened.read(MOST))
        except OSError:
            continue
    return "\n".join(texts)


@functools.cache
def causes() -> list[tuple[re.Pattern, str, str]]:
    """Pattern of a failed job's words, what is missing, and the fix."""
    rows = strict_yaml.load(CAUSES.read_bytes())
    return [
        (re.compile("|".join(row["words"]), re.IGNORECASE), row["what"], row["fix"]) for row in rows
    ]


def explained(text: str) -> tuple[str, str] | None:
    """What is missing and the fix, by what a failed case wrote; None if no rule knows it."""
    for pattern, what, fix in causes():
        if match := pattern.search(text):
            groups = {name: value or "" for name, value in match.groupdict().items()}
            return what.format(**groups), fix
    return None


def of_case(case: Case, text: str, stage: Path) -> Finding:
    """The finding of a smoke case that failed."""
    failure = " ".join((case.failure or "").split())
    if known := explained(f"{failure}\n{text}"):
        return Finding(*known, case.partition, case.environ)
    what = f"the smoke case {case.check} failed: {failure[:300]}".rstrip(".")
    return Finding(what, f"read the job's files below {stage}", case.partition, case.environ)


def of_output(text: str, partition: str, environ: str) -> Finding:
    """The finding of a case that ReFrame did not run, from ReFrame's output."""
    reasons = {match[1]: match[2] for match in SKIPPED.finditer(text)}
    if environ in reasons:
        what = f"the smoke case is skipped: {reasons[environ][:300]}".rstrip(".")
        return Finding(what, "follow the reason", partition, environ)
    if known := explained(text):
        return Finding(*known, partition, environ)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    what = f"ReFrame ran no smoke case: {(errors or lines or ['it wrote nothing'])[0][:300]}"
    return Finding(what.rstrip("."), "run `reframe -l` with this --system", partition, environ)


def lines_of(found: Ran, partition: str, smoke: Smoke) -> Iterator[str]:
    """Lines on the environments whose case passed."""
    for name in found.passed:
        yield f"ok: {partition}, {name}: {smoke.check.strip('^$')} ran"
