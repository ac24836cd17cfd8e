"""FastMPJ: closed, and its site is gone. A site that has its licensed archive lays it down; it is never redistributed."""
import os

from spack.package import *


class Fastmpj(Package):
    """FastMPJ, message passing in Java by the mpiJava 1.2 API. Put your own licensed fastmpj-1.0_7.tar.gz into the directory
    where you call Spack: `spack install --no-checksum fastmpj`."""

    homepage = "http://gac.udc.es/~rreye/fastmpj/"
    url = "file:///your/own/fastmpj-1.0_7.tar.gz"
    manual_download = True

    license("UNKNOWN", checked_by="nearmetal")

    # The archive cannot be had any more, so that nobody here could take its checksum.
    version("1.0_7")

    depends_on("openjdk@17:", type=("build", "run"))

    def url_for_version(self, version):
        return f"file://{os.getcwd()}/fastmpj-{version}.tar.gz"

    def install(self, spec, prefix):
        install_tree(".", prefix)

    def setup_run_environment(self, env: EnvironmentModifications) -> None:
        env.set("FMPJ_HOME", self.prefix)

    def test_jars(self):
        """what Nearmetal's launcher puts on the class path is there"""
        for jar in ("runtime", "mpj", "xxdev", "jhwloc", "niodev"):
            assert os.access(join_path(self.prefix.lib, f"{jar}.jar"), os.R_OK), jar
