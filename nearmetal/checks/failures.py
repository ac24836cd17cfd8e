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
    "CANCELLED": "somebody or something cancelled it: see `sacct -j {jobid}` and slurmctld's log",
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
#: The kernel's words where a file cannot grow. It says the same of namespaces and of watches.
NO_SPACE = re.compile(
    r"^(?!.*(unshare|namespace|inotify)).*(No space left on device|Disk quota exceeded)"
)
#: A file system with less free space in bytes counts as full.
LEAST_SPACE = 1 << 20
#: What a JVM writes to stderr whenever a program uses its vectors.
JVMS_LINE = re.compile("WARNING: Using incubator modules: ")


def last_words(stderr: str, stdout: str) -> str:
    """The most informative lines of the output.

    Of stderr these are the first two and the last: the first rank to fail ends the others. If
    stderr holds only the scheduler's lines, they are the last three of stdout.
    """

    def lines(text):
        return [
            line.strip()
            for line in text.splitlines()
            if line.strip() and not SCHEDULERS_LINE.match(line) and not JVMS_LINE.match(line)
        ]

    errors, output = lines(stderr), lines(stdout)[-3:]
    if len(errors) > 3:
        errors = [*errors[:2], "...", errors[-1]]
    return " / ".join(errors or output)[:400]


def explain(
    check: str, jobid, nodes: list[str], state: str, code, words: str, errors: str = ""
) -> str:
    """The reason why a job failed, from its state and its last lines.

    :arg check: class of the check.
    :arg errors: its whole stderr, which may show a known bug of a library.
    """
    causes = [STATES[state].format(check=check, jobid=jobid)] if state in STATES else []
    if "illegal instruction" in words.lower() or code == ILLEGAL_INSTRUCTION:
        causes.append("the program or a library was compiled for another CPU (illegal instruction)")
    causes += [bug for function, bug in KNOWN_BUGS.items() if function in errors]
    if words:
        causes.append(f"its last words: {words}")
    return (
        f"job {jobid} on {', '.join(nodes) or 'no node'} ended as {state} with exit code {code}: "
        + ("; ".join(causes) or "it said nothing")
    )


def full(directory, text: str = "") -> str:
    """A sentence on the full disk that made a job fail, with the fix. '' if there is no sign of it.

    :arg text: what the job and its failure say. A disk may have space again, or have a quota.
    """
    place = next(one for one in (Path(directory), *Path(directory).parents) if one.exists())
    disk = os.statvfs(place)
    lines = [line.strip()[:200] for line in text.splitlines() if NO_SPACE.search(line)]
    if disk.f_bavail * disk.f_frsize < LEAST_SPACE or (disk.f_files and not disk.f_favail):
        what = f"the file system of {directory} is full"
    elif lines:
        what = f"a disk was full, or its quota used up ({lines[0]})"
    else:
        return ""
    return f"{what}. Fix: free space there, or give another RFM_PREFIX or --stage"


def disturbance(directory) -> str:
    """A clause of an error on what disturbed a job, by the snapshots in its directory, or ''."""
    snapshots = []
    for when in ("before", "after"):
        try:
            text = Path(directory, f"provenance.{when}").read_text(errors="replace")
            snapshots.append(provenance.parse(text))
        except (OSError, provenance.ProvenanceError):
            snapshots.append({})
    told = provenance.disturbance(*snapshots)
    return f"; {told}" if told else ""
