"""Build the lab's node image, Debian stable, with mmdebstrap.

All labs of a host use one image for the same inputs.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from nearmetal.lab import cache
from nearmetal.lab.cache import ImageError

HERE = Path(__file__).parent
LOCK = HERE / "requirements.lock"
SUITE, ROLLING = "trixie", "sid"
#: Python of that suite; wheels are downloaded for it.
PYTHON = "3.13"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def packages(listed: str = "packages.txt") -> tuple[list[str], list[str]]:
    """Packages of the stable suite, and those of the rolling suite (`name/sid`)."""
    lines = [line.split("#")[0].strip() for line in (HERE / listed).read_text().splitlines()]
    names = [line for line in lines if line]
    rolling = [name.removesuffix(f"/{ROLLING}") for name in names if name.endswith(f"/{ROLLING}")]
    return [name for name in names if "/" not in name], rolling


def mirror() -> str:
    """URL of Debian's archive: NEARMETAL_MIRROR, else that of this host's apt.

    On a host of another distribution it is mmdebstrap's default.
    """
    if "NEARMETAL_MIRROR" in os.environ:
        return os.environ["NEARMETAL_MIRROR"]
    listed = subprocess.run(
        [
            "apt-get",
            "indextargets",
            "--format",
            "$(ORIGIN) $(LABEL) $(REPO_URI)",
            "Created-By: Packages",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    # The archive has the label Debian. Debian-Security, backports and third parties have others.
    for line in listed.splitlines():
        match = re.fullmatch(r"Debian Debian (\S+)", line)
        if match:
            return match[1]
    default = re.search(
        r"""mirror\s*=\s*'(https?://[^']+/debian)'""",
        Path(shutil.which("mmdebstrap") or "mmdebstrap").read_text(),
    )
    if default:
        return default[1]
    raise ImageError("this host's apt configuration has no Debian mirror: set NEARMETAL_MIRROR=URL")


def key() -> str:
    """Digest of everything that the image is made from."""
    digest = hashlib.sha256(platform.machine().encode())
    for path in (
        HERE / "packages.txt",
        HERE / "customize.sh",
        HERE / "mariadb.cnf",
        Path(__file__),
        LOCK,
    ):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def ensure(say=print) -> Path:
    """The image's root directory, built if this host has none. Raises ImageError."""
    return cache.built("node image", f"image-{key()}", "about a minute and a half", _build, say)


def _build(work: Path, say) -> None:
    stable, rolling = packages()
    archive = mirror()
    (work / "sources.list").write_text(
        f"deb {archive} {SUITE} main\ndeb [check-valid-until=no] {archive} {ROLLING} main\n"
    )
    # Only the named packages come from the rolling suite.
    (work / "preferences").write_text(
        f"Package: *\nPin: release n={ROLLING}\nPin-Priority: -1\n"
        + "".join(
            f"\nPackage: {name}\nPin: release n={ROLLING}\nPin-Priority: 990\n" for name in rolling
        )
    )
    wheels = work / "wheels"
    machine = platform.machine()
    download = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--require-hashes",
        "--requirement",
        LOCK,
        "--only-binary=:all:",
        "--python-version",
        PYTHON,
        "--dest",
        wheels,
        *(f"--platform=manylinux{tag}_{machine}" for tag in ("2014", "_2_17", "_2_28")),
    ]
    with cache.running(download) as fetch:
        _bootstrap(work, stable + rolling, say)
        if fetch.wait() != 0:
            raise ImageError(
                f"the packages of {LOCK.name} could not be downloaded for Python {PYTHON}: "
                "see pip's error above; is the package index reachable?"
            )
    with cache.running([HERE / "customize.sh", work / "root", wheels, LOCK]) as customize:
        if customize.wait() != 0:
            raise ImageError(f"{HERE / 'customize.sh'} failed: see its error above")


def _bootstrap(work: Path, packages: list[str], say) -> None:
    install = "install -D -m 644"
    mmdebstrap(
        "node image",
        work,
        [
            "--variant=apt",
            *(
                f"--dpkgopt=path-exclude=/usr/share/{name}/*"
                for name in ("man", "doc", "locale", "info")
            ),
            # Large files for linking MPI statically and for making Java run-times.
            "--dpkgopt=path-exclude=/usr/lib/*/libmpich.a",
            "--dpkgopt=path-exclude=/usr/lib/jvm/*/jmods/*",
            # SLEPc's package depends on development files of all libraries that it can use.
            *(
                f"--dpkgopt=path-exclude=/usr/{path}"
                for path in (
                    "share/javascript/*",
                    "libexec/valgrind/*",
                    "lib/*/valgrind/*",
                    "lib/debug/*",
                    "lib/*/liblapack*.a",
                    "lib/*/libhdf5*.a",
                    "lib/*/lib?mumps.a",
                    "lib/*/libfftw3*.a",
                    "lib/*/lib*scotch*.a",
                    "lib/*/libcrypto.a",
                )
            ),
            # For tools that read C, graphics, double precision in GROMACS, and other potentials and
            # basis sets.
            *(
                f"--dpkgopt=path-exclude=/usr/{name}"
                for name in (
                    "lib/*/libclang-[0-9]*",
                    "lib/*/libgallium-*",
                    "lib/*/libvtkRendering*",
                    "lib/*/libvtkFilters*",
                    "lib/*/libgromacs_d.so.*",
                    "lib/*/libgromacs_mpi_d.so.*",
                    "share/proj/*",
                    "share/lammps/potentials/*",
                    "share/nwchem/libraryps/*",
                )
            ),
            # Java's alternatives need this directory.
            '--setup-hook=mkdir -p "$1/usr/share/man/man1"',
            # Before the installation of the server, which makes its files by it.
            f'--setup-hook={install} "{HERE}/mariadb.cnf" "$1/etc/mysql/mariadb.conf.d/99-lab.cnf"',
            f'--setup-hook={install} "{work}/preferences" "$1/etc/apt/preferences.d/rolling"',
            f"--include={','.join(packages)}",
            SUITE,
            str(work / "root"),
            str(work / "sources.list"),
        ],
        say,
    )


def mmdebstrap(what: str, work: Path, arguments: list, say, before: tuple = ()) -> None:
    """Run mmdebstrap with its temporary files in `work`. Raises ImageError.

    Every 15 s `say` gets the last line of its log.

    :arg what: "node image", for example, in messages.
    :arg before: command prefix.
    """
    log = cache.cache_dir() / "image-build.log"
    command = [
        *before,
        "mmdebstrap",
        "--mode=root",
        "--format=directory",
        f"--keyring={KEYRING}",
        "--aptopt=APT::Install-Recommends false",
        "--dpkgopt=force-unsafe-io",
        *arguments,
    ]
    with (
        open(log, "w") as output,
        cache.running(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "TMPDIR": str(work)},
        ) as build,
    ):
        started = time.monotonic()
        code = _wait(build, 15)
        while code is None:
            last = log.read_text(errors="replace").rstrip().rsplit("\n", 1)[-1]
            say(f"{what}: {time.monotonic() - started:3.0f} s: {last[:90]}")
            code = _wait(build, 15)
    if code != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        raise ImageError(
            f"mmdebstrap failed (exit {code}); the end of {log}:\n{tail}\n"
            "If a package is no longer in the archive, correct packages.txt or guest-packages.txt "
            f"in {HERE}."
        )


def _wait(process, seconds) -> int | None:
    """Exit code of the process; None if it still runs after so many seconds."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
