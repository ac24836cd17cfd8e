"""The multi-zone versions of the NAS Parallel Benchmarks, MPI x OpenMP."""

import reframe as rfm
import reframe.core.builtins as builtin
from reframe.core.exceptions import SanityError

from nearmetal.checks.output import all_of
from nearmetal.checks.scaling import Hybrid

from .npb import npb_base

#: Value of the parameter -> value of the setting `binding`.
BINDINGS = {"bound": "core", "unbound": "none"}
#: Classes that take less than some seconds. The programs print hundredths of one.
SHORT = ("S", "W")


@rfm.simple_test
class npb_mz(Hybrid, npb_base):
    """Mop/s, seconds and parallel efficiency of BT-MZ and SP-MZ over processes with threads, bound
    and unbound.

    Method: NPB-MZ 3.3 or 3.4 (NAS-03-010), for environments with the feature `npb_mz`. The official
    programs are on PATH as `bt-mz.CLASS.x`. Each run is verified by its own values. Processes hold
    zones, and threads share the loops over a zone.

    Why: memory is near the core of the thread that touched it first. Where threads wander it is far
    away: in a guest, or where the guest's virtual CPUs wander on the host. Bound threads stay, but
    feel each detour of the hypervisor.

    Reproduces: the HPC Cloud slides 11 and 12. Partitions of `aist` run it so by default.

    - Slide 11, seconds on one node of 8 cores, KVM with and without binding: `-S
      npb_mz.npb_class=C -S npb_mz.processes=1 -S npb_mz.threads=8`.
    - Slide 12, BT-MZ on 1 to 16 nodes: KVM loses 2 points of parallel efficiency, EC2 14. `-S
      npb_mz.processes=1,2,4,8,16 -S npb_mz.ranks_per_node=1 -S npb_mz.threads=8`.

    The slides do not tell the class, nor how many processes shared the cores. Class C alone fits
    their seconds and the axis of slide 12.

    Read: `mops_C_8x4` is the Mop/s of 8 processes of 4 threads, `elapsed_C_8x4` their seconds
    (from class A on). `efficiency_C_8x4` is that value over 8 times the Mop/s of one process. It is
    relative to the fewest processes of the same round. `nearmetal compare` and the report show
    bound and unbound side by side. Bound far above unbound: threads wander between NUMA nodes.
    """

    #: The program. `bt-mz` has zones of very different sizes, `sp-mz` of equal ones. :values:
    #: `bt-mz`, `sp-mz`
    benchmark = builtin.parameter(["bt-mz", "sp-mz"], loggable=True)
    #: Whether each process and each of its threads has its own cores. :values: `bound`, `unbound`
    threads_are = builtin.parameter(list(BINDINGS), loggable=True)

    own_extras = {
        "processes": "npb_mz_processes",
        "ranks_per_node": "npb_mz_ranks_per_node",
        "threads": "npb_mz_threads",
    }
    valid_prog_environs = ["+mpi +npb_mz"]
    tags = {"mpi", "openmp", "cpu", "memory", "network"}

    def use_processes(self, most, *which):
        """Bound or not, as the parameter has it."""
        self.decide(
            "binding",
            BINDINGS[self.threads_are],
            f"but {self.display_name} sets it: select with -n 'npb_mz%threads_are=...'",
        )
        super().use_processes(most, *which)

    def build(self):
        self.run_official()

    def name_variables(self):
        self.name_mops()
        if self.npb_class in SHORT:
            return
        for count in self.counts:
            name = f"elapsed_{self.npb_class}_{self.called(count)}"
            self.define(name, "s", lambda run: run.seconds, on=count)

    def read_output(self, text):
        super().read_output(text)
        for run in all_of(self.runs):
            if run.threads != run.processes * self.threads:
                raise SanityError(
                    f"{run.processes} processes had {run.threads} threads instead of "
                    f"{self.threads} each: does the job hide cores, or was the program built "
                    "without OpenMP?"
                )
