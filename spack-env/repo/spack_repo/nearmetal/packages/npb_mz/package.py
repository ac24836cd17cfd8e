import os

from spack_repo.builtin.build_systems.makefile import MakefilePackage

from spack.package import *

#: Picks the program that was built for so many processes; the launcher says how many there are.
BY_PROCESSES = """#!/bin/sh
exec "$0.${SLURM_NTASKS:-${OMPI_COMM_WORLD_SIZE:-${PMI_SIZE:-1}}}" "$@"
"""


def is_counts(text: str) -> bool:
    """Spack takes a default of several such values for one."""
    return all(count.isdigit() for count in text.split(","))


class NpbMz(MakefilePackage):
    """The multi-zone NAS Parallel Benchmarks BT-MZ, SP-MZ and LU-MZ, MPI x OpenMP (NAS-03-010).

    NASA's own archive wants a registration; this is its text as a public repository keeps it.
    """

    homepage = "https://www.nas.nasa.gov/software/npb.html"
    git = "https://github.com/tpatki/NPB3.3.1-MZ.git"

    license("NASA-1.3", checked_by="nearmetal")

    version("3.3.1", commit="05b7c0e68b1c2921dc3733e34bb9d6672c6c5c2f")

    variant("names", default="bt,sp", values=("bt", "sp", "lu"), multi=True, description="Benchmarks")
    variant("classes", default="S,W,A,B,C", values=tuple("SWABCD"), multi=True, description="Sizes")
    variant("nprocs", default="1,2,4,8,16", values=is_counts, multi=True, description="Numbers of processes")

    depends_on("c", type="build")
    depends_on("fortran", type="build")
    depends_on("mpi")

    parallel = False
    build_directory = "NPB3.3-MZ-MPI"

    @property
    def counts(self):
        return ",".join(self.spec.variants["nprocs"].value).split(",")

    def edit(self, spec, prefix):
        fortran = "-O3 " + self.compiler.openmp_flag + (" -fallow-argument-mismatch" if spec.satisfies("%gcc@10:") else "")
        settings = {"F77": spec["mpi"].mpif77, "FLINK": spec["mpi"].mpif77, "FFLAGS": fortran, "FLINKFLAGS": fortran,
                    "CC": spec["mpi"].mpicc, "CLINK": spec["mpi"].mpicc, "CFLAGS": "-O3", "CLINKFLAGS": "-O3",
                    "F_LIB": "", "F_INC": "", "C_LIB": "", "C_INC": "", "UCC": spack_cc, "BINDIR": "../bin", "RAND": "randi8"}
        with working_dir(self.build_directory):
            mkdirp("bin")
            with open(join_path("config", "make.def"), "w", encoding="utf-8") as file:
                file.writelines(f"{name} = {value}\n" for name, value in settings.items())

    def build(self, spec, prefix):
        with working_dir(self.build_directory):
            for name in spec.variants["names"].value:
                for size in spec.variants["classes"].value:
                    for count in self.counts:
                        make(f"{name}-mz", f"CLASS={size}", f"NPROCS={count}")

    def install(self, spec, prefix):
        install_tree(join_path(self.build_directory, "bin"), prefix.bin)
        for name in spec.variants["names"].value:
            for size in spec.variants["classes"].value:
                path = join_path(prefix.bin, f"{name}-mz.{size}.x")
                for count in self.counts:
                    os.rename(join_path(prefix.bin, f"{name}-mz.{size}.{count}"), f"{path}.{count}")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(BY_PROCESSES)
                set_executable(path)
