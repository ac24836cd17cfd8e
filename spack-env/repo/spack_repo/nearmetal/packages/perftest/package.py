from spack_repo.builtin.build_systems.autotools import AutotoolsPackage

from spack.package import *


class Perftest(AutotoolsPackage):
    """Latency and bandwidth of RDMA Read, Write and Send between two nodes (ib_read_lat, ib_write_bw, ...)."""

    homepage = "https://github.com/linux-rdma/perftest"
    git = "https://github.com/linux-rdma/perftest.git"

    license("GPL-2.0-only OR BSD-2-Clause", checked_by="nearmetal")

    version("26.04.17", tag="26.04.17", commit="720b61082454e189b1f21835ec175536a944afc3")

    depends_on("c", type="build")
    depends_on("autoconf", type="build")
    depends_on("automake", type="build")
    depends_on("libtool", type="build")
    depends_on("m4", type="build")
    depends_on("rdma-core")
    depends_on("pciutils")

    def test_version(self):
        """the programs that Nearmetal's rdma check starts say their version"""
        for program in ("ib_read_lat", "ib_read_bw", "ib_write_lat", "ib_write_bw", "ib_send_lat", "ib_send_bw"):
            assert "Version" in which(join_path(self.prefix.bin, program), required=True)("--version", output=str, error=str)
