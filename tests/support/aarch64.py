"""Our C programs for aarch64: cross compiled with Debian's arm64 libraries, emulated by QEMU."""

import hashlib
import os
import subprocess
from pathlib import Path

from nearmetal.checks.programs import flags_of
from nearmetal.lab import cache, image
from tests.support.paths import SOURCES
from tests.support.programs import STRICT, run

#: What the programs are linked with, and the launcher. Their dependencies come with them.
PACKAGES = ("libc6-dev", "libgcc-14-dev", "libopenmpi-dev", "openmpi-bin")
OPENMPI = "usr/lib/aarch64-linux-gnu/openmpi"
#: The compiler as a script, which install.sh takes as CC and MPICC.
COMPILER = '#!/bin/sh\nexec {} "$@" {}\n'


def sysroot(*further: str) -> Path:
    """Debian's arm64 packages, unpacked: no script of theirs ran. Needs root.

    :arg further: packages.
    """
    packages = ",".join([*PACKAGES, *further])

    def unpack(work: Path, say) -> None:
        (work / "sources.list").write_text(f"deb {image.mirror()} {image.SUITE} main\n")
        words = ["--variant=extract", "--architectures=arm64", f"--include={packages}"]
        # The interpreter of programs is /lib/ld-linux-aarch64.so.1.
        words.append('--setup-hook=ln -s usr/lib "$1/lib"')
        places = [str(work / "root"), str(work / "sources.list")]
        image.mmdebstrap("arm64 libraries", work, [*words, image.SUITE, *places], say)

    key = hashlib.sha256(f"{image.SUITE} {packages}".encode()).hexdigest()[:16]
    takes = "half a minute, 0.7 GB"
    return cache.built("arm64 libraries", f"layer-arm64-{key}", takes, unpack, print)


def compiler(root: Path, flags: str = "") -> tuple[list[str], list[str]]:
    """The words before the sources, and the libraries after them."""
    strict = ["aarch64-linux-gnu-gcc", f"--sysroot={root}", *STRICT, *flags.split()]
    mpi = root / OPENMPI
    return [*strict, f"-I{mpi}/include"], [f"-L{mpi}/lib", "-Wl,--as-needed", "-lmpi", "-lm"]


def build(root: Path, source: str | Path, program: Path, flags: str = "") -> Path:
    """Compile one source, by its line `Build:` if it has one."""
    before, after = compiler(root, flags)
    own = flags_of().get(str(source), ("-O2",))
    done = run([*before, *own, SOURCES / source, "-o", program, *after])
    assert done.returncode == 0, done.stderr
    return program


def install(root: Path, prefix: Path) -> Path:
    """Build all programs as images have them. Returns their directory."""
    prefix.mkdir()
    before, after = compiler(root)
    script = prefix / "compiler"
    script.write_text(COMPILER.format(" ".join(before), " ".join(after)))
    script.chmod(0o755)
    compilers = {"CC": str(script), "MPICC": str(script)}
    command = ["sh", SOURCES / "install.sh", prefix, "mpi", "serial"]
    subprocess.run(command, check=True, env=os.environ | compilers)
    return prefix / "bin"


def emulated(root: Path, program: Path, *options, processor: str = "max") -> list:
    return ["qemu-aarch64", "-L", root, "-cpu", processor, program, *options]


def launched(root: Path, processes: int, program: Path, *options) -> list:
    """The command that starts a program by Debian's launcher, emulated like the program.

    Each process is an emulator: the kernel here starts no program for another processor.
    """
    # mpirun only starts this one, and would look for it in /usr/bin.
    launcher = emulated(root, root / "usr/bin/prterun", "--personality", "ompi")
    words = ["--allow-run-as-root", "--oversubscribe", "-n", processes]
    return [*launcher, *words, *emulated(root, program, *options)]
