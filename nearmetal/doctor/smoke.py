"""Runs short cases by ReFrame on each partition, and reads why one failed."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from nearmetal import results
from nearmetal.checkout import CHECKOUT
from nearmetal.checks import failures
from nearmetal.cluster import ask, reasons
from nearmetal.doctor.finding import Finding
from nearmetal.model import catalogue
from nearmetal.results import Case, Database, ResultsError
from nearmetal.util import documents, files, sanitize

CAUSES = Path(__file__).resolve().parent / "causes.yaml"
CHECKS = CHECKOUT / "reframe_checks"
#: ReFrame's line on a skipped case: its environment, and the reason.
SKIPPED = re.compile(r"^\[ +SKIP +\] .*@\S+\+(\S+) \[(.*)\]$", re.MULTILINE)
#: Most bytes of a job's output that are read.
MOST = 1 << 20
#: Seconds for a case of some seconds, with a JVM and a slow file system. Slurm ends it then.
LIMIT = 120
#: Seconds for ReFrame to load the checks and to compile, and for Slurm to end a job.
BESIDE = 180
#: Seconds until doctor says that a case still runs; and until it looks for ReFrame's lines.
PROGRESS, LOOK = 30, 1
#: Most lines of a job's stderr that are shown.
MOST_LINES = 8
#: Seconds for ReFrame to cancel its jobs.
GRACE = 30
#: Slurm's words on a job that it does not take.
SLURMS = re.compile(r"(?:\b(?:sbatch|srun): error|submission failed|due to reason): (?P<words>.+)")
#: The sentences of nearmetal/checks/waiting.py, with their fix.
OWN = re.compile(
    r"((?:Slurm never starts|sbatch refused|it waited in the queue).*?)"
    r"\. Fix: (.*?)(?: \(files: \S+\))?$"
)
#: ReFrame's line on a case that waits (nearmetal/checks/waiting.py).
WAITS = "Waiting: "


@dataclass(frozen=True)
class SmokeCase:
    """A check that shows whether programs of some environments run."""

    check: str  #: for ReFrame's -n
    environs: tuple[str, ...]
    settings: tuple[str, ...]  #: for ReFrame's -S


def plan(partition: dict, environs: Sequence[str], known: Mapping[str, dict]) -> list[SmokeCase]:
    """The smoke cases of a partition, by the checks' files of facts.

    :arg environs: those to try.
    """
    cases = []
    for check in catalogue.checks():
        if check.smoke is None:
            continue
        smoke = check.smoke.on(partition["extras"].get("nodes", 2))
        fit = [name for name in environs if smoke.feature in known[name].get("features", ())]
        if not fit:
            continue
        pattern = f"^{check.name}"
        for name, value in smoke.parameters.items():
            pattern += f"%{name}={value}"
        if not smoke.parameters:
            pattern += "$"
        settings = tuple(f"{check.name}.{name}={value}" for name, value in smoke.settings.items())
        cases.append(SmokeCase(pattern, tuple(fit), settings))
    return cases


def command(system: str, partition: str, smoke: SmokeCase, wait: int) -> list[str]:
    """ReFrame's command for one smoke case of each environment. Spack installs nothing."""
    short = ("repeats=1", "spare_repeats=0", "spack_missing=skip")
    limits = (f"max_pending_time={wait}s", f"time_limit={LIMIT}s")
    names = "|".join(map(re.escape, smoke.environs))
    beside = Path(sys.executable).with_name("reframe")
    reframe = shutil.which("reframe") or str(beside)
    words = [
        *(reframe, "--nocolor", "-c", str(CHECKS), "-r", "--system", f"{system}:{partition}"),
        *("-n", smoke.check, "-p", f"^({names})$", "--skip-performance-check"),
    ]
    for setting in (*smoke.settings, *short, *limits):
        words += ["-S", setting]
    return words


def environment(directory: Path) -> dict[str, str]:
    """The variables of ReFrame, whose results go to a directory of their own.

    A smoke case is no measurement: among the results of the suite it would be the newest session.
    """
    kept = dict(os.environ)
    for name in ("RFM_SYSTEM", "RFM_REPORT_FILE", "RFM_REPORT_JUNIT", "RFM_CONFIG_FILES"):
        kept.pop(name, None)
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

    passed: tuple[str, ...] = ()  #: environments
    findings: tuple[Finding, ...] = ()
    errors: Mapping[str, str] = field(default_factory=dict)  #: environment -> its jobs' stderr


def run(
    system: str,
    partition: str,
    smoke: SmokeCase,
    directory: Path,
    wait: int,
    tell: Callable[[str], None],
) -> Ran:
    """Run the smoke cases. ReFrame's output and the jobs' stay in the directory.

    :arg tell: is called with a sentence on progress.
    """
    database = directory / "results.db"
    # Sessions of earlier calls are in the same database.
    before, started = _newest(database, system), time.time()
    words = command(system, partition, smoke, wait)
    seconds = len(smoke.environs) * (wait + LIMIT) + BESIDE
    try:
        output = _watched(words, environment(directory), seconds, tell)
    except OSError as error:
        what = f"{words[0]} cannot be started: {error.strerror}"
        return Ran(findings=(Finding(what, "activate the virtual environment", partition),))
    after = _newest(database, system)
    if before and after and after.uuid == before.uuid:
        after = None  # ReFrame stored no case
    cases = {}
    if after:
        cases = {case.environ: case for case in after.cases}
    passed, findings, errors = [], [], {}
    for name in smoke.environs:
        case, stage = cases.get(name), directory / "stage" / system / partition / name
        if case and ran(case):
            passed.append(name)
            continue
        texts = outputs(stage, started)
        errors[name] = texts.get(".err", "")
        if case:
            findings.append(of_case(case, "\n".join(texts.values()), stage))
        else:
            findings.append(of_output(output, partition, name))
    return Ran(tuple(passed), tuple(findings), errors)


def _watched(
    words: list[str], variables: dict[str, str], seconds: float, tell: Callable[[str], None]
) -> str:
    """The output of ReFrame, which is ended after some seconds. Raises OSError."""
    with tempfile.TemporaryFile() as sink:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT, env=variables
        )

        def output() -> str:
            return os.pread(sink.fileno(), MOST, 0).decode(errors="replace")

        try:
            if not _ends(process, output, seconds, tell):
                return f"{output()}\nERROR: ReFrame had no end within {seconds:.0f} s\n"
            return output()
        finally:
            if process.poll() is None:
                ask.end(process, GRACE)


def _ends(
    process: subprocess.Popen,
    output: Callable[[], str],
    seconds: float,
    tell: Callable[[str], None],
) -> bool:
    """Whether ReFrame ends within some seconds. Its lines on waiting cases are told at once."""
    begin = time.monotonic()
    printed, due = 0, PROGRESS
    while (passed := time.monotonic() - begin) < seconds:
        with suppress(subprocess.TimeoutExpired):
            process.wait(LOOK)
        waiting = [line for line in output().splitlines() if line.startswith(WAITS)]
        # ReFrame's output is read from its beginning each time.
        for line in waiting[printed:]:
            tell(line)
        printed = len(waiting)
        if process.returncode is not None:
            return True
        if passed > due:
            tell(f"still running, for {passed:.0f} s of at most {seconds:.0f}")
            due += PROGRESS
    return False


def _beginning(path: Path) -> str:
    """The beginning of an ordinary file; '' of another one."""
    try:
        with files.opened(path, None) as opened:
            return opened.read(MOST).decode(errors="replace")
    except OSError:
        return ""


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


def outputs(stage: Path, since: float) -> dict[str, str]:
    """What the jobs below a directory wrote since a time, in seconds since 1970, by suffix."""
    texts: dict[str, list[str]] = {".err": [], ".out": []}
    for path in sorted(stage.rglob("rfm_*")):
        with suppress(OSError):
            if path.suffix in texts and path.lstat().st_mtime >= since - 1:
                texts[path.suffix].append(_beginning(path))
    return {suffix: "\n".join(parts) for suffix, parts in texts.items()}


@functools.cache
def causes() -> list[tuple[re.Pattern, str, str, bool]]:
    """Pattern of a failed job's words, what is missing, the fix, and whether it is a symptom."""
    rows = []
    for row in documents.read(CAUSES):
        pattern = re.compile("|".join(row["words"]), re.IGNORECASE)
        rows.append((pattern, row["what"], row["fix"], row.get("symptom", False)))
    return rows


def explained(text: str) -> tuple[str, str] | None:
    """What is missing and the fix, by what a failed case wrote; None if no rule knows it.

    The first line that a rule knows counts: what follows a failure is often its consequence.
    A symptom, such as processes that are alone, counts where no line names its cause.
    """
    symptom = None
    for line in failures.without_consequences(text).splitlines():
        for pattern, what, fix, is_symptom in causes():
            if match := pattern.search(line):
                groups = {name: value or "" for name, value in match.groupdict().items()}
                cause = what.format(**groups).rstrip(), fix
                if not is_symptom:
                    return cause
                symptom = symptom or cause
                break
        if refused := _refused(line):
            return refused
    return symptom


def _refused(line: str) -> tuple[str, str] | None:
    """Why Slurm refuses the job, and the fix, by reasons.yaml; None if the line is no refusal."""
    match = SLURMS.search(line)
    if not match:
        return None
    words = match["words"].strip()
    known = reasons.reason_of(words)
    # What passes is a refusal only where ReFrame has ended the job for it.
    if known is None or (known.passes and "due to reason" not in line):
        return None
    return f"Slurm does not take the job ({words}): {known.means}", known.fix


def of_case(case: Case, text: str, stage: Path) -> Finding:
    """The finding of a smoke case that failed."""
    failure = case.failure or ""
    place = case.partition, case.environ
    flat = " ".join(failure.split())
    if own := OWN.search(flat):
        return Finding(own[1], own[2], *place)
    # ReFrame joins the lines of a failure.
    last_words = failure.replace(" / ", "\n")
    if known := explained(f"{last_words}\n{text}"):
        return Finding(*known, *place)
    what = f"the smoke case {case.check} failed: {failures.shortened(flat)}".rstrip(".")
    return Finding(what, f"read the job's files below {stage}", *place)


def of_output(text: str, partition: str, environ: str) -> Finding:
    """The finding of a case that ReFrame did not run, from ReFrame's output."""
    reasons = {match[1]: match[2] for match in SKIPPED.finditer(text)}
    if environ in reasons:
        what = f"the smoke case is skipped: {failures.shortened(reasons[environ])}".rstrip(".")
        return Finding(what, "follow the reason", partition, environ)
    if known := explained(text):
        return Finding(*known, partition, environ)
    lines = list(filter(None, map(str.strip, text.splitlines())))
    errors = [line for line in lines if "error" in line.lower()]
    first = (errors or lines or ["it wrote nothing"])[0]
    what = f"ReFrame ran no smoke case: {failures.shortened(first)}"
    return Finding(what.rstrip("."), "run `reframe -l` with this --system", partition, environ)


def lines_of(ran: Ran, partition: str, smoke: SmokeCase) -> Iterator[str]:
    """Lines on the environments whose case passed, and the stderr of the others' jobs."""
    check = smoke.check.strip("^$")
    for name in ran.passed:
        yield f"ok: {partition}, {name}: {check} ran"
    for name, errors in ran.errors.items():
        lines = list(filter(None, map(str.rstrip, errors.splitlines())))
        if lines:
            yield f"stderr of {check} on {partition} with {name}:"
        if len(lines) > MOST_LINES:
            lines = [*lines[: MOST_LINES - 1], "...", lines[-1]]
        yield from (f"    {failures.shortened(sanitize.line(line), 200)}" for line in lines)
