"""mpj-native, from the checkout that this repository is part of."""
import pathlib

from spack.package import *

CHECKOUT = pathlib.Path(__file__).resolve().parents[6]
#: The digest of its sources, so that others are another hash. `make spack-lock` writes it, `make release-check` checks it.
DIGEST = "422395fa14aab4dd76b5e59ea8fc7014bd00c75a3c0c896ba1d34540638c7d84"
SOURCES = CHECKOUT / "mpj-native"
#: What the digest is of.
BUILT = ("build.sh", "src/main")


class MpjNative(Package):
    """Message passing in Java by the mpiJava 1.2 API over the native MPI library, by java.lang.foreign."""

    homepage = "https://reframe-hpc.readthedocs.io"  # of the framework whose checks use it
    has_code = False  # it is here already

    license("BSD-3-Clause", checked_by="nearmetal")

    version("0.1.0")

    depends_on("mpi", type=("link", "run"))
    depends_on("openjdk@22:", type=("build", "run"))

    def install(self, spec, prefix):
        shell = which("sh", required=True)
        script = CHECKOUT / "reframe_checks" / "src" / "digest.sh"
        found = shell(str(script), str(SOURCES), *BUILT, output=str).strip()
        if found != DIGEST:
            raise InstallError(f"the lock is of other sources: {SOURCES} has the digest {found}, the recipe {DIGEST}. "
                               "Fix: make spack-lock, or use the sources of the release")
        classes = join_path(prefix.lib, "mpj-native")
        mkdirp(classes)
        shell(str(SOURCES / "build.sh"), classes, extra_env={"JAVA_HOME": spec["openjdk"].prefix})
        Executable(spec["openjdk"].prefix.bin.jar)("--create", "--file", join_path(prefix.lib, "mpj-native.jar"), "-C", classes, ".")
        install(str(SOURCES / "LICENSE"), prefix)

    def setup_run_environment(self, env: EnvironmentModifications) -> None:
        env.set("MPJ_NATIVE_HOME", self.prefix)

    def test_classes(self):
        """the class that all programs start with is there"""
        javap = Executable(self.spec["openjdk"].prefix.bin.javap)
        assert "Init" in javap("-cp", join_path(self.prefix.lib, "mpj-native"), "mpi.MPI", output=str)
