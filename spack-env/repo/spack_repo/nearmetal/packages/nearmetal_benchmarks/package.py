"""Nearmetal's own programs, from the checkout that this repository is part of."""
import hashlib
import pathlib

from spack.package import *

CHECKOUT = pathlib.Path(__file__).resolve().parents[6]
#: Of the programs' text, so that another is another hash; tests/test_spack.py holds it to be true.
DIGEST = "a9b55c36d505a665c3c9dfd0c4a274fd0ce93d216abc3535742cdcee4dcee1a2"
SOURCES = CHECKOUT / "reframe_checks" / "src"
#: Programs by their source and flags, as the checks build them.
MPI = {"pingpong": "-O2", "collectives": "-O2", **{f"npb/{kernel}": "-O3" for kernel in ("cg", "ep", "ft", "is", "mg")}}
SERIAL = {"stream": "-O2 -fopenmp", "osnoise": "-O2 -pthread"}


def digest(sources: pathlib.Path) -> str:
    """SHA-256 over names and contents in the order of the names."""
    whole = hashlib.sha256()
    for path in sorted(path for path in sources.rglob("*") if path.suffix in (".c", ".h", ".java") or path.name == "jvm.sh"):
        whole.update(f"{path.relative_to(sources)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()


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

    def install(self, spec, prefix):
        if (found := digest(SOURCES)) != DIGEST:
            raise InstallError(f"{SOURCES} has the digest {found}, this recipe {DIGEST}: enter the former as DIGEST")
        mkdirp(prefix.bin)
        for programs, compiler in ((MPI, spec["mpi"].mpicc), (SERIAL, spack_cc)):
            for source, flags in programs.items():
                Executable(compiler)(
                    "-std=c11", *flags.split(), f'-DNEARMETAL_CFLAGS="{flags}"', str(SOURCES / f"{source}.c"), "-o",
                    join_path(prefix.bin, self.program(source)), "-lm")
        if "+java" in spec:
            self.install_java(spec, prefix)

    @staticmethod
    def program(source: str) -> str:
        return "nearmetal-" + source.replace("/", "-")

    def install_java(self, spec, prefix):
        javac = Executable(spec["openjdk"].prefix.bin.javac)
        library, classes, launch = (spec["mpj-express"].prefix.lib.join("mpj.jar"), prefix.share.java.classes,
                                    prefix.share.java.launch)
        javac("--release", "17", "-d", launch, *sorted(map(str, (SOURCES / "java" / "launch").glob("*.java"))))
        javac("--release", "17", "-cp", library, "-d", classes, *sorted(map(str, (SOURCES / "java").glob("*.java"))))
        Executable(spec["openjdk"].prefix.bin.java)("-cp", f"{launch}:{library}", "launch.Confine", launch)
        install(str(SOURCES / "java" / "launch" / "jvm.sh"), prefix.share.java)

    def test_programs(self):
        """each program teaches its usage"""
        for source in (*MPI, *SERIAL):
            if source.startswith("npb/") or source == "stream":
                continue
            assert "Usage" in Executable(join_path(self.prefix.bin, self.program(source)))("--help", output=str)

    def test_verified(self):
        """EP of class S gives the official sums"""
        assert "SUCCESSFUL" in Executable(join_path(self.prefix.bin, self.program("npb/ep")))("S", output=str)
