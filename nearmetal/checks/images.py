"""Environments whose programs come in an image (`image` in their extras): what it is, and how it is run."""

import functools
import shlex

from nearmetal.checks import sources
from nearmetal.checks.settings import IMAGE
from nearmetal.locks import images_lock

#: Where programs in Java are within an image.
JAVA = "/opt/nearmetal/share/java"
#: Reaches the files of the job and leaves the user's own out; ranks of a node share namespaces, or the kernel would keep them
#: from each other's memory.
OPTIONS = "--no-home --sharens"


@functools.cache
def locked() -> dict:
    """The entries of the lock. ImagesError."""
    if not (path := images_lock.lock_path()).exists():
        raise images_lock.ImagesError(
            f"{path} cannot be read (there is none): make images-lock writes it"
        )
    return images_lock.read_lock(path)


def image_of(environ) -> str:
    """The name of the environment's image; '' if its programs come in none."""
    return IMAGE.of(environ, default="")


def obstacle(environ, partition) -> str:
    """Why this environment cannot run in that partition; '' if it can."""
    name, path = image_of(environ), images_lock.directory() / f"{image_of(environ)}.sif"
    if not platform(partition):
        return f"{partition.fullname} has no Apptainer (container_platforms in its system's file)"
    if not path.exists():
        return f"there is no {path}: make images builds it"
    try:
        return "" if name in locked() else f"the lock has no image {name}: make images-lock"
    except images_lock.ImagesError as error:
        return str(error)


def platform(partition) -> str:
    return next((name for name in ("apptainer", "singularity") if name in partition.features), "")


def command(environ, partition, program: str) -> str:
    """The command line that runs a program of the image."""
    return f"{platform(partition)} exec {OPTIONS} {shlex.quote(str(images_lock.directory() / f'{image_of(environ)}.sif'))} {program}"


def called(environ) -> str:
    """Name and digest, as they are recorded."""
    return f"{image_of(environ)} {locked()[image_of(environ)]['digest']}"


def sources_of(environ) -> str:
    """The digest of the sources that the image's programs were built from, if its lock has it."""
    return locked()[image_of(environ)].get("sources", sources.UNKNOWN)


def verification(environ, partition, by_srun: bool) -> str:
    """The command that a job runs first: it ends with one sentence where the image is another, or cannot run there, or where srun
    does not speak what its MPI library does."""
    entry = locked()[image_of(environ)]
    return shlex.join(
        [
            "sh",
            "image.sh",
            platform(partition),
            str(images_lock.directory() / f"{image_of(environ)}.sif"),
            entry["digest"].removeprefix("sha256:"),
            entry["pmi"] if by_srun else "none",
        ]
    )


def trial(launch: str) -> str:
    """The command that has all processes of the image meet once: those that cannot would wait in MPI_Init for ever."""
    return (
        f'timeout 120 {launch} > image.trial || {{ echo "image.sh: the processes of the image did not meet in MPI_Init: does '
        "this node's srun speak to the image's MPI library (apptainer inspect shows its versions), and do all nodes have "
        'the image?" >&2; exit 1; }'
    )
