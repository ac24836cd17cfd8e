"""MPJ Express, as upstream's Git has it: its site, which held the archives, is gone."""
import glob

from spack.package import *

#: Upstream's jars (build.xml) that Nearmetal's launcher puts on a class path, and what is in each of them. The device
#: for Myrinet and the daemons, which the launcher does without, are left out.
PACKAGES = ("mpi", "mpjbuf", "mpjdev", "mpjdev/javampjdev", "mpjdev/natmpjdev", "xdev", "xdev/niodev", "xdev/smpdev")
MPI_EXP = ("mpi/MPIException", "mpjdev/MPJDevException", "mpjdev/Request*", "mpjdev/Status", "mpjdev/CompletionHandler",
           "mpjdev/Constants")
JARS = {"mpj": ("mpi/*", "mpjbuf/*", "mpjdev/*", "mpjdev/javampjdev/*", "mpjdev/natmpjdev/*", "xdev/*", "xdev/niodev/*"),
        "mpiExp": MPI_EXP, "mpi": ("mpi/*",), "mpjbuf": ("mpjbuf/*",), "xdev": ("xdev/*",), "smpdev": ("xdev/smpdev/*",),
        "mpjdev": ("mpjdev/*", "mpjdev/javampjdev/*", "mpjdev/natmpjdev/*")}


class MpjExpress(Package):
    """Message passing in Java by the mpiJava 1.2 API: between JVMs over TCP (niodev) and between threads of one (smpdev)."""

    homepage = "https://github.com/mpjexpress-project/mpjexpress"
    git = "https://github.com/mpjexpress-project/mpjexpress.git"

    license("MIT", checked_by="nearmetal")

    version("0.44", tag="v0.44", commit="c0a9c41d0fa6e90e351b760cfa14cdb1c965eaab")

    depends_on("perl", type="build")  # its sources are made from templates
    depends_on("openjdk@17:", type=("build", "run"))

    def install(self, spec, prefix):
        java = spec["openjdk"].prefix.bin
        for templates in ("mpi", "mpjbuf"):
            with working_dir(join_path("src", templates)):
                which("perl", required=True)("generate.pl")
        sources = [path for part in PACKAGES for path in sorted(glob.glob(f"src/{part}/*.java"))]
        Executable(java.javac)("-nowarn", "-encoding", "ISO-8859-1", "-cp", "lib/log4j-1.2.11.jar", "-sourcepath", "src",
                               "-d", "classes", *sources)
        mkdirp(prefix.lib)
        with working_dir("classes"):
            apart = {path for pattern in MPI_EXP for path in glob.glob(f"{pattern}.class")}
            for name, patterns in JARS.items():
                found = {path for pattern in patterns for path in glob.glob(f"{pattern}.class")}
                if name in ("mpi", "mpjdev"):
                    found -= apart
                Executable(java.jar)("--create", "--file", join_path(prefix.lib, f"{name}.jar"), *sorted(found))
        install("lib/log4j-1.2.11.jar", prefix.lib)
        install_tree("conf", prefix.conf)
        install("LICENSE.txt", prefix)

    def setup_run_environment(self, env: EnvironmentModifications) -> None:
        env.set("MPJ_HOME", self.prefix)

    def test_classes(self):
        """the classes that Nearmetal's launcher starts are there"""
        javap = Executable(self.spec["openjdk"].prefix.bin.javap)
        for jar, name in (("mpj", "xdev.niodev.NIODevice"), ("smpdev", "xdev.smpdev.SMPDevProcess"), ("mpj", "mpi.MPI")):
            assert name in javap("-cp", join_path(self.prefix.lib, f"{jar}.jar"), name, output=str)
