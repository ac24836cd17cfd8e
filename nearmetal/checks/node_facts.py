"""Facts of a case: its nodes, its software, its checkout."""

from __future__ import annotations

import functools
import subprocess

import reframe.core.builtins as builtin
from reframe.core.exceptions import SanityError

from nearmetal.checkout import CHECKOUT
from nearmetal.checks import provenance
from nearmetal.checks.runtime import facts_of, image_in
from nearmetal.checks.settings import OF_HYPERVISOR
from nearmetal.checks.versions import Plugin
from nearmetal.model.facts import UNKNOWN, of_hypervisor


@functools.cache  # one run measures one revision
def git_revision() -> str:
    """Revision of this checkout, `-dirty` if changed since; `unknown` outside of git."""
    done = subprocess.run(
        ["git", "-C", CHECKOUT, "describe", "--always", "--dirty", "--abbrev=12"],
        capture_output=True,
        text=True,
    )
    return done.stdout.strip() or "unknown"


def of_interfaces(facts: dict[str, str], key: str) -> str:
    """A fact of each network interface, such as `eth0: veth`."""
    values = []
    for name, value in sorted(facts.items()):
        if name.startswith("nic.") and name.endswith(f".{key}"):
            values.append(f"{name.split('.')[1]}: {value}")
    return ", ".join(values) or "no network interface"


class NodeFacts(Plugin):
    """A check that stores facts of its nodes and of its software."""

    #: Facts of the run (src/provenance.sh). If nodes differ: `a | b`. :type: str
    kernel = builtin.variable(str, value="", loggable=True)
    hypervisor = builtin.variable(str, value="", loggable=True)
    cpu_model = builtin.variable(str, value="", loggable=True)
    governor = builtin.variable(str, value="", loggable=True)
    smt = builtin.variable(str, value="", loggable=True)
    thp = builtin.variable(str, value="", loggable=True)
    nic_driver = builtin.variable(str, value="", loggable=True)
    mtu = builtin.variable(str, value="", loggable=True)
    mpi_library = builtin.variable(str, value="", loggable=True)
    transport = builtin.variable(str, value="", loggable=True)
    compiler = builtin.variable(str, value="", loggable=True)
    revision = builtin.variable(str, value="", loggable=True)
    #: Name and digest of the environment's container image; '' without one. :type: str
    image = builtin.variable(str, value="", loggable=True)

    @builtin.run_before("sanity")
    def read_the_job(self):
        if self.is_dry_run():
            return
        # Also of a job that failed: `nearmetal explain` compares them with the baseline's.
        self.facts = provenance.of_nodes(self._read("provenance.before", missing=""))
        self._refuse_a_job_that_failed()
        self._record_provenance()

    def record_program(self, facts: dict, suite: str) -> None:
        """Record the MPI library and compiler that the first launch reports."""
        self.mpi_library = facts.get("mpi_library", f"not told by {suite}")
        self.compiler = facts.get("compiler", f"not told by {suite}")

    def nodes_that_start(self) -> int:
        """Number of the job's nodes that have to answer."""
        return self.num_nodes * self.num_components

    def _record_provenance(self) -> None:
        before, after = self._snapshots()
        # One process a node reports. A launcher that started all on one node would leave nodes out.
        expected = self.nodes_that_start()
        if len(before) != expected:
            raise SanityError(
                f"the job ran on {len(before)} node(s) ({', '.join(before)}) instead of {expected}"
            )
        before = provenance.with_foreign_processes(before, after)
        facts = provenance.stored(before)
        for name in ("kernel", "hypervisor", "cpu_model", "governor", "smt", "thp"):
            setattr(self, name, facts[name])
        self.nic_driver, self.mtu = of_interfaces(facts, "driver"), of_interfaces(facts, "mtu")
        self.revision, self.image = git_revision(), image_in(self.runtimes)
        # A guest cannot see its hypervisor's settings: the site's file tells them.
        told_by_site = {fact.key: fact.of(self.current_partition) for fact in OF_HYPERVISOR}
        self.facts = {
            **facts,
            **of_hypervisor(facts, told_by_site),
            **self.factors(),
            **facts_of(self.runtimes, self.target),
        }
        self._counters = before, after

    def factors(self) -> dict[str, str]:
        """Facts of the job itself: binding of its processes or threads, and pages of its memory."""
        binding = getattr(self, "binding", "") or getattr(self, "_binding", "")
        pages = getattr(self, "pages", "") or getattr(self, "page_size", "")
        return {"binding": str(binding or UNKNOWN), "pages": str(pages or UNKNOWN)}

    def expected_facts(self) -> dict[str, str]:
        """The case's facts, and those of its interfaces, its messages and its compiler."""
        return {
            **self.facts,
            "mtu": self.mtu,
            "transport": self.transport,
            "compiler": self.compiler,
        }
