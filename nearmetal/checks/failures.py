"""Explain why a job failed, from its state and its output."""

import os
import re
from pathlib import Path

from nearmetal.checks import provenance

#: Job states that name the cause themselves.
STATES = {
    "TIMEOUT": (
        "it ran into its time limit: a rank hangs or the limit is too short (-S "
        "{check}.time_limit=...)"
    ),
    "NODE_FAIL": (
        "a node was lost, or could not be given the job: is slurmd or munged down there? see "
        "`sinfo -R`"
    ),
    "OUT_OF_MEMORY": "it ran out of memory",
    "CANCELLED": "somebody or something cancelled it: see {log}",
    "BOOT_FAIL": "a node did not boot",
    "DEADLINE": "its deadline passed",
}
#: Exit code of a program that SIGILL ended, as the shell reports it.
ILLEGAL_INSTRUCTION = 128 + 4
#: A function in a backtrace -> the known bug that it shows, and the fix.
KNOWN_BUGS = {
    "mca_pml_ob1_recv_frag_callback_match": (
        "Open MPI 5.0 ended in MPI_Init, since another rank sent already (open-mpi/ompi#12495): "
        "rerun with --max-retries=2, or while the nodes are less busy"
    ),
}
#: What Slurm writes to stderr about every step that failed, whatever failed.
SCHEDULERS_LINE = re.compile(
    r"(srun|slurmstepd)[^:]*(: error)?: "
    r"(launch|Job step|got SIG|forcing|Terminating|.*Exited with exit code|\*\*\* )"
)
#: What srun writes about a task that ended badly: its number, and how it ended.
TASK_ENDED = re.compile(r"srun: error: \S+: tasks? [\d,-]+: (?P<how>\w+)")
#: How tasks end that Slurm ends itself, because another one failed.
ENDED_BY_SLURM = ("Killed", "Terminated")
#: Most characters of a failure's quotation.
MOST = 400
#: The kernel's words where a file cannot grow. It says the same of namespaces and of watches.
NO_SPACE = re.compile(
    r"^(?!.*(unshare|namespace|inotify)).*(No space left on device|Disk quota exceeded)"
)
#: Directories for temporary files, which each node has for itself.
TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm")
#: A path in such a line.
PATH = re.compile(r"(?<![\w.])/[\w.+/-]+")
#: A file system with less free space in bytes counts as full.
LEAST_SPACE = 1 << 20
#: What a JVM writes to stderr whenever a program uses its vectors.
JVMS_LINE = re.compile("WARNING: Using incubator modules: ")


def last_words(stderr: str, stdout: str) -> str:
    """The most informative lines of the output.

    Of stderr these are the first two and the last: the first rank to fail ends the others. If
    stderr holds only the scheduler's lines, they are the last three of stdout.
    """

    errors, output = _lines(stderr), _lines(stdout)[-3:]
    if len(errors) > 3:
        errors = [*errors[:2], "...", errors[-1]]
    return shortened(" / ".join(errors or output))


def _lines(text: str) -> list[str]:
    """The lines that the job's programs wrote."""
    lines = filter(None, map(str.strip, without_consequences(text).splitlines()))
    others = re.compile(f"{SCHEDULERS_LINE.pattern}|{JVMS_LINE.pattern}")
    return [line for line in lines if not others.match(line)]


def without_consequences(text: str) -> str:
    """The text without srun's lines on tasks that it ended because another one had failed."""
    kept, has_failed = [], False
    for line in text.splitlines():
        ended = TASK_ENDED.search(line)
        if not (ended and has_failed and ended["how"] in ENDED_BY_SLURM):
            kept.append(line)
        has_failed = has_failed or bool(ended)
    return "\n".join(kept)


def shortened(text: str, most: int = MOST) -> str:
    """The text; its beginning, up to the end of a word, if it is longer."""
    if len(text) <= most:
        return text
    cut = text[: most - 4]
    return f"{cut.rpartition(' ')[0] or cut} ..."


def explain(
    check: str,
    jobid,
    nodes: list[str],
    state: str,
    code,
    words: str,
    errors: str = "",
    why: str = "",
    accounting: bool = True,
) -> str:
    """The reason why a job failed, from its state and its last lines.

    :arg check: class of the check.
    :arg errors: its whole stderr, which may show a known bug of a library.
    :arg why: the reason for which ReFrame cancelled it.
    :arg accounting: whether Slurm keeps exit codes, and `sacct` finds the job.
    """
    log = "slurmctld's log"
    if accounting:
        log = f"`sacct -j {jobid}` and {log}"
    causes = []
    if why:
        causes.append(why)
    elif state in STATES:
        causes.append(STATES[state].format(check=check, log=log))
    if "illegal instruction" in words.lower() or code == ILLEGAL_INSTRUCTION:
        causes.append("the program or a library was compiled for another CPU (illegal instruction)")
    causes += [bug for function, bug in KNOWN_BUGS.items() if function in errors]
    if words:
        causes.append(f"its last words: {words}")
    how = f"ended as {state} with exit code {code}"
    if not accounting and state == "COMPLETED":
        how = "ended early (without accounting, Slurm keeps no exit code)"
    cause = "; ".join(causes) or "it said nothing"
    return f"job {jobid} on {', '.join(nodes) or 'no node'} {how}: {cause}"


def full(directory, text: str = "") -> str:
    """A sentence on the full disk that made a job fail, with the fix. '' if there is no sign of it.

    :arg text: what the job and its failure say. A disk may have space again, or have a quota.
    """
    place = Path(directory)
    while not place.exists():
        place = place.parent
    disk = os.statvfs(place)
    lines = [shortened(line.strip(), 200) for line in text.splitlines() if NO_SPACE.search(line)]
    if disk.f_bavail * disk.f_frsize < LEAST_SPACE or (disk.f_files and not disk.f_favail):
        what = f"the file system of {directory} is full"
    elif lines and (other := _temporary(lines[0], place)):
        return (
            f"the file system of {other} on a node was full, or its quota used up ({lines[0]}). "
            "Fix: free space there, or name another directory as TMPDIR in the partition's env_vars"
        )
    elif lines:
        what = f"a disk was full, or its quota used up ({lines[0]})"
    else:
        return ""
    return f"{what}. Fix: free space there, or give another RFM_PREFIX or --stage"


def _temporary(line: str, place: Path) -> str:
    """The directory for temporary files that a line names; '' if it names none, or the results'."""
    paths = list(map(Path, PATH.findall(line)))
    for directory in TEMPORARY:
        named = any(path.is_relative_to(directory) for path in paths)
        if named and not place.is_relative_to(directory):
            return directory
    return ""


def disturbance(directory) -> str:
    """A clause of an error on what disturbed a job, by the snapshots in its directory, or ''."""
    snapshots = []
    for when in ("before", "after"):
        try:
            text = Path(directory, f"provenance.{when}").read_text(errors="replace")
            snapshots.append(provenance.parse(text))
        except (OSError, provenance.ProvenanceError):
            snapshots.append({})
    clause = provenance.disturbance(*snapshots)
    if not clause:
        return ""
    return f"; {clause}"
