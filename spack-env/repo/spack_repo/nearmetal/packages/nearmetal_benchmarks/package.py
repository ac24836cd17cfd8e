"""Nearmetal's own programs, from the checkout that this repository is part of."""
import pathlib

from spack.package import *

CHECKOUT = pathlib.Path(__file__).resolve().parents[6]
#: The digest of the sources, so that others are another hash. `make spack-lock` writes it, `make release-check` checks it.
DIGEST = "1adb67cee1881d9076fc89ff907aba99d8534a871c5f0807e409a87cab191e30"
SOURCES = CHECKOUT / "reframe_checks" / "src"


class NearmetalBenchmarks(Package):
    """PingPong, collectives, kernels of NPB, STREAM and the noise of the system, in C and, with +java, in Java."""

    homepage = "https://reframe-hpc.readthedocs.io"  # of the framework whose checks these are
    has_code = False  # it is here already

    license("BSD-3-Clause", checked_by="nearmetal")

    version("0.1.0")

    variant("java", default=False, description="The programs in Java too, for MPJ Express")

    depends_on("c", type="build")
    depends_on("mpi")
    depends_on("mpj-express", when="+java", type=("build", "run"))
    depends_on("openjdk@17:", when="+java", type=("build", "run"))  # an external mpj-express brings none

    def install(self, spec, prefix):
        shell = which("sh", required=True)
        found = shell(str(SOURCES / "digest.sh"), output=str).strip()
        if found != DIGEST:
            raise InstallError(f"the lock is of other sources: {SOURCES} has the digest {found}, the recipe {DIGEST}. "
                               "Fix: make spack-lock, or use the sources of the release")
        environment = {"MPICC": spec["mpi"].mpicc, "CC": spack_cc}
        if "+java" in spec:
            environment |= {"JAVA_HOME": spec["openjdk"].prefix, "MPJ_HOME": spec["mpj-express"].prefix}
        shell(str(SOURCES / "install.sh"), prefix, "mpi", "serial", *["java"] * ("+java" in spec), extra_env=environment)

    def program(self, name: str):
        return Executable(join_path(self.prefix.bin, f"nearmetal-{name}"))

    def test_programs(self):
        """each program teaches its usage"""
        for name in ("pingpong", "collectives", "launch", "osnoise"):
            assert "Usage" in self.program(name)("--help", output=str)

    def test_verified(self):
        """EP of class S gives the official sums"""
        assert "SUCCESSFUL" in self.program("npb-ep")("S", output=str)

    def test_java(self):
        """the programs in Java and the class that starts them are there"""
        if "+java" not in self.spec:
            raise SkipTest("the programs in Java were not asked for")
        javap, java = Executable(self.spec["openjdk"].prefix.bin.javap), join_path(self.prefix.share, "java")
        for place, name in (("classes", "PingPong"), ("launch", "launch.NearmetalRun")):
            assert "main" in javap("-cp", join_path(java, place), name, output=str)
