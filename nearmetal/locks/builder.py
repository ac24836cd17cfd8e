"""Builds images by Apptainer, as an ordinary user: this host's, or that of the lab's node image
where this host has none."""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from nearmetal.checkout import CHECKOUT
from nearmetal.lab import cache
from nearmetal.lab import image as node_image
from nearmetal.locks import sif

HERE = Path(__file__).resolve().parent

#: What an image holds, as CycloneDX lists it (stages/finish.sh).
LIST = "/opt/nearmetal/share/sbom.cdx.json"


class BuildError(RuntimeError):
    """An image could not be built; the message has the builder's last words."""


def digest_of(path: Path) -> str:
    with open(path, "rb") as image:
        return f"sha256:{hashlib.file_digest(image, 'sha256').hexdigest()}"


class Builder:
    """Runs Apptainer in a directory of its own: this host's, or that of the lab's node image."""

    def __init__(self, say):
        self.own = shutil.which("apptainer") is not None
        parent = cache.cache_dir()
        if self.own:
            parent = Path(tempfile.gettempdir())
        self._places = ExitStack()
        self.arguments = {}
        try:
            self._places.enter_context(cache.interruptible())
            self.work = self._places.enter_context(
                cache.work_directory(parent, "nearmetal-images-")
            )
            self.out = self.work / "user"
            self.out.mkdir()
            if not self.own:
                self._make_base(say)
        except BaseException:
            self.close()
            raise

    def _make_base(self, say) -> None:
        """Debian from this host's archive, unpacked by the user who builds."""
        self.node = node_image.ensure(say)
        say("base: Debian from this host's archive")
        command = [
            *("mmdebstrap", "--mode=root", "--variant=apt", "--format=tar"),
            *(f"--keyring={node_image.KEYRING}", "--dpkgopt=force-unsafe-io"),
            *(node_image.SUITE, self.out / "base.tar", node_image.mirror()),
        ]
        # mmdebstrap builds below TMPDIR: here, so that it goes with the rest.
        places = {"SOURCE_DATE_EPOCH": "0", "TMPDIR": str(self.work)}
        if self._ended(command, env={**os.environ, **places}):
            raise BuildError(f"mmdebstrap failed: {self.last_words()}")
        unpack = 'mkdir base && tar -xf base.tar --exclude="./dev/*" -C base && rm base.tar'
        self.run("sh", "-c", unpack, where="/work")
        self.arguments = {"bootstrap": "localimage", "base": "/work/base"}

    def _ended(self, command, **options) -> int:
        """Exit code of a command that writes into the log, and that ends where this process
        does."""
        with (
            open(self.work / "log", "a") as log,
            cache.running(
                command,
                contained=not self.own,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                **options,
            ) as process,
        ):
            return process.wait()

    def run(self, *command, where="/checkout", epoch=0) -> None:
        """In the checkout, or the builder's own directory. BuildError."""
        environment = {
            # Apptainer and mksquashfs write it in place of the present time.
            "SOURCE_DATE_EPOCH": str(epoch),
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "LC_ALL": "C",
        }
        if self.own:
            line: list = list(command)
            directory = {"/checkout": CHECKOUT, "/work": self.out}[where]
            environment["APPTAINER_TMPDIR"] = str(self.out)
            environment["APPTAINER_CACHEDIR"] = f"{self.out}/cache"
            for name in {"PATH", "HOME", "USER"} & os.environ.keys():
                environment[name] = os.environ[name]
        else:
            enter = ("sh", "-c", 'cd "$0"; exec "$@"', where)
            line = [HERE / "builder.sh", self.node, self.work, CHECKOUT, *enter, *command]
            directory = CHECKOUT
        if code := self._ended(line, cwd=directory, env=environment):
            raise BuildError(
                f"{' '.join(map(str, line[-4:]))} failed (exit {code}): {self.last_words()}"
            )

    def last_words(self) -> str:
        return "\n".join((self.work / "log").read_text(errors="replace").splitlines()[-25:])

    def image(self, stack: str, software: str, revision: str, epoch: int) -> tuple[Path, dict]:
        """The image, pinned, and what it says of itself. BuildError.

        :arg epoch: the time in the image, in seconds since 1970: two builds are equal to the bit.
        """
        target = f"/work/{stack}"
        if self.own:
            target = f"{self.out}/{stack}"
        values = {
            **self.arguments,
            "software": software,
            "revision": revision,
            "created": datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        arguments = [f"--build-arg={key}={value}" for key, value in values.items()]
        files = (f"{target}.sif", f"containers/{stack}.def")
        self.run("apptainer", "build", "--force", *arguments, *files, epoch=epoch)
        read = (
            f'apptainer exec --unsquash "$0.sif" cat {LIST} > "$0.list" && apptainer inspect '
            '--labels --json "$0.sif" > "$0.labels"'
        )
        self.run("sh", "-c", read, target)
        path = self.out / f"{stack}.sif"
        try:
            # Else two builds of the same files would have two digests.
            sif.pin(path, epoch)
        except sif.SifError as error:
            raise BuildError(f"{error}: this Apptainer writes another format") from None
        inspected = json.loads((self.out / f"{stack}.labels").read_text())
        labels = inspected["data"]["attributes"]["labels"]
        packages = {}
        for component in json.loads((self.out / f"{stack}.list").read_text())["components"]:
            if "version" in component:
                packages[component["name"]] = component["version"]
        return path, {
            "digest": digest_of(path),
            "bytes": path.stat().st_size,
            "pmi": labels["org.nearmetal.pmi"],
            "software": software,
            "sources": labels["org.nearmetal.sources"],
            "revision": revision,
            "packages": packages,
        }

    def close(self) -> None:
        """Remove what was made on the way."""
        self._places.close()
