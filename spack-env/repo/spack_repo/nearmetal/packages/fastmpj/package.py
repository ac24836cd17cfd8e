"""FastMPJ: closed, and its site is gone. A site that has its installer runs it by this; it is never redistributed."""
import os

from spack.package import *

#: What was published: an installer of IzPack, for TCP/IP and shared memory.
INSTALLER = "fastmpj_for_tcpip_and_shared_memory.jar"
#: What Nearmetal's launcher puts on the class path.
JARS = ("runtime", "mpj", "xxdev", "jhwloc", "niodev", "smdev-shared", "smdev-unshared")


class Fastmpj(Package):
    """FastMPJ, message passing in Java by the mpiJava 1.2 API. Put your own fastmpj_for_tcpip_and_shared_memory.jar into the
    directory where you call Spack: `spack install --no-checksum fastmpj`. Who has an installation needs no Spack: FMPJ_HOME
    names its directory."""

    homepage = "http://gac.udc.es/~rreye/fastmpj/"
    url = f"file:///your/own/{INSTALLER}"
    manual_download = True

    license("UNKNOWN", checked_by="nearmetal")

    # The installer is offered nowhere any more, so that nobody here could take its checksum.
    version("1.0_7", expand=False)

    depends_on("openjdk@17:", type=("build", "run"))

    def url_for_version(self, version):
        return f"file://{os.getcwd()}/{INSTALLER}"

    def install(self, spec, prefix):
        stage = self.stage.source_path
        # In its console mode 1 is "continue", "accept" and "select"; where it asks for the directory, a directory of that name.
        # Each of its questions reads ahead, so there are many more answers than questions.
        answers = join_path(stage, "answers")
        with open(answers, "w") as text:
            text.write("1\n" * 1000000)
        java = Executable(join_path(spec["openjdk"].prefix.bin, "java"))
        with open(answers) as text:
            java("-Djava.awt.headless=true", f"-Duser.home={stage}", "-jar", self.stage.archive_file,
                 "-console", "-language", "eng", input=text)
        installed = join_path(stage, "1")
        if missing := [name for name in JARS if not os.access(join_path(installed, "lib", f"{name}.jar"), os.R_OK)]:
            raise InstallError(f"{INSTALLER} installed no lib/{missing[0]}.jar. Run it yourself (java -jar {INSTALLER} "
                               "-console) and give the directory as FMPJ_HOME in the environment's env_vars")
        install_tree(installed, prefix)

    def setup_run_environment(self, env: EnvironmentModifications) -> None:
        env.set("FMPJ_HOME", self.prefix)

    def test_jars(self):
        """what Nearmetal's launcher puts on the class path is there"""
        for jar in JARS:
            assert os.access(join_path(self.prefix.lib, f"{jar}.jar"), os.R_OK), jar
