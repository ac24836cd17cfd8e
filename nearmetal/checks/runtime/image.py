"""The runtime of container images: environments with `image` in their extras."""

import functools
import shlex
from pathlib import Path

from nearmetal.checks import sources
from nearmetal.checks.programs import installed_name
from nearmetal.checks.runtime.bare import Bare
from nearmetal.checks.settings import IMAGE
from nearmetal.locks import images_lock

#: Directory of the programs in Java within an image.
JAVA = "/opt/nearmetal/share/java"
#: The image sees the job's files but not the user's home. Ranks of a node share namespaces: in
#: separate ones the kernel denies access to each other's memory.
OPTIONS = "--no-home --sharens"


@functools.cache
def locked() -> dict:
    """The entries of the lock. Raises ImagesError."""
    if not (path := images_lock.lock_path()).exists():
        raise images_lock.ImagesError(
            f"{path} cannot be read (there is none): make images-lock writes it"
        )
    return images_lock.read_lock(path)


#: What a built image is, by its name. Raises ImagesError.
record_of = functools.cache(images_lock.read_record)


def image_of(environ) -> str:
    """The name of the environment's image. '' if it has none."""
    return IMAGE.of(environ, default="")


class Image(Bare):
    """Programs within a container image, which Apptainer runs on each node."""

    @property
    def name(self) -> str:
        return image_of(self.environ)

    @property
    def path(self) -> Path:
        return images_lock.image_path(self.name)

    @property
    def record(self) -> dict:
        """What was built. Raises ImagesError."""
        return record_of(images_lock.record_path(self.name))

    @property
    def platform(self) -> str:
        """The command that runs images. '' if the partition has none."""
        for name in ("apptainer", "singularity"):
            if name in self.partition.features:
                return name
        return ""

    @property
    def image(self) -> str:
        return f"{images_lock.label(self.name, self.record)} {self.record['digest']}"

    def skip_reason(self, launcher):
        if not self.platform:
            where = "container_platforms in its system's file"
            return f"{self.partition.fullname} has no Apptainer ({where})"
        if not self.path.exists():
            return f"there is no {self.path}{self._contents()}: make images builds it"
        try:
            entry, built = locked().get(self.name), self.record
        except images_lock.ImagesError as error:
            return str(error)
        if entry is None:
            return f"the lock has no image {self.name}: make images-lock"
        # An image that somebody built of other software would measure that software.
        if other := images_lock.differences(entry, built):
            return f"{self.path} is not as locked ({other[0]}): make images builds it anew"
        return ""

    def _contents(self) -> str:
        """The library in brackets, if the lock has it and the image's name is another."""
        try:
            return images_lock.label(self.name, locked()[self.name]).removeprefix(self.name)
        except (images_lock.ImagesError, KeyError):
            return ""

    def skip_reason_of(self, program):
        if program.is_ours:
            return ""
        return f"{program.path} is not in the image {self.name}, which has our own programs"

    def is_compiled(self, program):
        return False

    def build_commands(self, program):
        return ["true"]  # the job verifies the digest of the image

    def command(self, program):
        return self.within(installed_name(program.source))

    def _sources(self):
        """The digest in the record. The run warns if it differs from the checkout's."""
        digest = self.record["sources"]
        sources.warn_of_others(self.environ.name, digest)
        return digest

    def within(self, command: str) -> str:
        """The command line that runs a command of the image."""
        return f"{self.platform} exec {OPTIONS} {shlex.quote(str(self.path))} {command}"

    def preparations(self, launch, by_srun, tasks):
        meet = self.within(f"{installed_name('launch.c')} --ranks {tasks}")
        return [*self.verifications(by_srun), meeting(launch(meet))]

    def trial(self, command):
        return self.within("true")

    def verifications(self, by_srun):
        """The command that verifies the image.

        It fails with the reason if the digest differs, if the image does not run here, or if srun
        and the image use different PMIs.
        """
        digest = self.record["digest"].removeprefix("sha256:")
        pmi = self.record["pmi"] if by_srun else "none"
        return [shlex.join(["sh", "image.sh", self.platform, str(self.path), digest, pmi])]


def meeting(launch: str) -> str:
    """The command that starts all processes once. If they cannot meet, it ends with an error."""
    return (
        f"timeout 120 {launch} > image.trial || {{ "
        'echo "image.sh: the processes of the image did not meet in MPI_Init: '
        "does this node's srun "
        "speak to the image's MPI library (apptainer inspect shows its versions), and do all nodes "
        'have the image?" >&2; exit 1; }'
    )
