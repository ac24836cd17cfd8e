# ruff: noqa: F821 -- names that ReFrame puts into the body of a class
"""A check as in ReFrame's tutorial: it chooses and builds by `omp_flag`."""

import reframe as rfm
import reframe.utility.sanity as sn


@rfm.simple_test
class threads(rfm.RegressionTest):
    """Counts the threads of an OpenMP program."""

    valid_systems = ["*"]
    valid_prog_environs = ["+openmp +omp_flag"]
    build_system = "SingleSource"
    sourcepath = "threads.c"
    env_vars = {"OMP_NUM_THREADS": 2}
    reference = {"*": {"count": (2, 0, 0, "threads")}}

    @run_before("compile")
    def take_the_compilers_option(self):
        self.build_system.cflags = ["-O2", self.current_environ.extras["omp_flag"]]

    @sanity_function
    def validate(self):
        return sn.assert_found(r"^threads: \d+", self.stdout)

    @performance_function("threads")
    def count(self):
        return sn.extractsingle(r"^threads: (\d+)", self.stdout, 1, int)
