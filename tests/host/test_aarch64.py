"""Our C programs on aarch64: built by a cross compiler, run and verified on an emulated processor.

The tests marked `whole` run the others of the programs and kernels.
"""

import os
import re

import pytest

from nearmetal.checks.parsing.npb import parse_npb
from nearmetal.checks.parsing.osnoise import parse_noise
from nearmetal.checks.parsing.pingpong import parse_imb
from tests.support import aarch64
from tests.support.paths import CHECKOUT
from tests.support.programs import run

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="needs root to unpack packages: run it as root, as CI does"
)
#: Vectors of 512 bits, as A64FX has them.
SVE, SVE_512 = "-march=armv8.2-a+sve", "max,sve512=on"
PINGPONG = ("pingpong", 2, "--iterations", 5, "--max-bytes", 64)
OTHERS = [
    ("collectives", 2, "--max-bytes", 4096, "--max-time", 0.01, "--iterations", 20),
    ("launch", 2, "--ranks", 2),
    ("nodes", 2, "--seconds", 1, "--megabytes", 1, "--repeats", 2, "--at-once", 1),
    ("links", 2, "--seconds", 6),
    ("congestion", 4, "--seconds", 6, "--rounds", 1, "--traffic", 1, "--victims", 2),
]
#: Where Debian has the eigensolver's libraries and, without its alternatives, a BLAS.
SLEPC = [
    f"usr/lib/{name}/aarch64-linux-gnu-complex"
    for name in ("slepcdir/slepc3.22", "petscdir/petsc3.22")
]
BLAS = ":".join(f"/usr/lib/aarch64-linux-gnu/{name}" for name in ("blas", "lapack"))


@pytest.fixture(scope="module")
def root():
    return aarch64.sysroot()


@pytest.fixture(scope="module")
def programs(root, tmp_path_factory):
    return aarch64.install(root, tmp_path_factory.mktemp("aarch64") / "programs")


def verified(kernel, done):
    assert done.returncode == 0, done.stdout + done.stderr
    [result] = parse_npb(done.stdout)
    assert (result.kernel, result.npb_class) == (kernel.upper(), "S")


@pytest.mark.parametrize(
    "kernel",
    ["cg", "is", "mg", *(pytest.param(name, marks=pytest.mark.whole) for name in ("ep", "ft"))],
)
def test_class_s_verifies(root, programs, kernel):
    verified(kernel, run(aarch64.emulated(root, programs / f"nearmetal-npb-{kernel}", "S")))


@pytest.mark.parametrize(
    "kernel",
    ["mg", *(pytest.param(name, marks=pytest.mark.whole) for name in ("cg", "ep", "ft", "is"))],
)
def test_class_s_verifies_with_vectors_of_512_bits(root, tmp_path, kernel):
    program = aarch64.build(root, f"npb/{kernel}.c", tmp_path / kernel, SVE)
    listing = run(["aarch64-linux-gnu-objdump", "-d", program]).stdout
    assert re.search(r"\bz\d+\.[bhsd]\b", listing), "the compiler made no use of SVE"
    verified(kernel, run(aarch64.emulated(root, program, "S", processor=SVE_512)))


@pytest.mark.parametrize("kernel", ["is", pytest.param("cg", marks=pytest.mark.whole)])
def test_two_processes_of_debians_open_mpi_verify(root, programs, kernel):
    verified(kernel, run(aarch64.launched(root, 2, programs / f"nearmetal-npb-{kernel}", "S")))


def test_pingpong_verifies(root, programs):
    name, processes, *options = PINGPONG
    done = run(aarch64.launched(root, processes, programs / f"nearmetal-{name}", *options))
    assert done.returncode == 0, done.stderr
    [measured] = parse_imb(done.stdout)
    assert measured.facts["verified"] == "sizes=7"


@pytest.mark.whole
@pytest.mark.parametrize("name, processes, options", [(name, n, rest) for name, n, *rest in OTHERS])
def test_each_other_program_ends_well(root, programs, name, processes, options):
    done = run(aarch64.launched(root, processes, programs / f"nearmetal-{name}", *options))
    assert done.returncode == 0 and "nearmetal complete" in done.stdout, done.stdout + done.stderr


def test_programs_without_mpi(root, programs, tmp_path):
    done = run(aarch64.emulated(root, programs / "nearmetal-osnoise", "--seconds", 0.1))
    [noise] = parse_noise(done.stdout)
    assert noise.cores
    few = ["--elements", 100000, "--ntimes", 2]
    done = run(aarch64.emulated(root, programs / "nearmetal-stream", *few))
    assert done.returncode == 0 and "Solution Validates" in done.stdout, done.stderr
    pages = aarch64.build(root, "pages.c", tmp_path / "pages")
    # The emulator knows no huge pages.
    assert "usage: pages small|large" in run(aarch64.emulated(root, pages)).stderr
    copies = CHECKOUT / "mpj-native" / "src" / "test" / "c" / "copies.c"
    assert aarch64.build(root, copies, tmp_path / "copies").exists()


@pytest.mark.whole
def test_the_eigensolver_verifies(tmp_path):
    root = aarch64.sysroot("libslepc-complex3.22-dev")
    words = [f"-I{root}/{place}/include -L{root}/{place}/lib" for place in SLEPC]
    words.append("-Wl,--no-as-needed,--allow-shlib-undefined -lslepc_complex -lpetsc_complex")
    program = aarch64.build(root, "eigen.c", tmp_path / "eigen", " ".join(words))
    command = aarch64.emulated(root, program, "--side", 12)
    done = run(command, timeout=600, QEMU_SET_ENV=f"LD_LIBRARY_PATH={BLAS}", OMP_NUM_THREADS="1")
    assert done.returncode == 0 and "SUCCESSFUL" in done.stdout, done.stdout + done.stderr
