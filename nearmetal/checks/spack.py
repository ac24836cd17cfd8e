"""Checks in environments with the feature `spack`: one fixture installs the software for all of a partition."""

import shlex
from types import SimpleNamespace

import reframe as rfm
import reframe.core.builtins as builtin
import reframe.core.runtime as runtime
from reframe.core.fixtures import FixtureRegistry, TestFixture

from nearmetal.checks.parsing.spack import measured
from nearmetal.checks.spack_install import LOAD, spack_install


def from_spack(environ) -> bool:
    return "spack" in environ.features


class FromSpack(rfm.RegressionTestPlugin):
    """A check that runs in environments with the feature `spack` too. Part of the base of all checks."""

    #: Names of environments that the check needs besides its own (of a duet, B's).
    further_environs = ()

    # Last, when the check has settled where it runs. `spack = fixture(spack_install, scope='environment')` would have a case in
    # each environment of a check, of which most need none; this has ReFrame do the same for those that do.
    @builtin.run_after("init", always_last=True)
    def have_it_installed(self):
        declared = TestFixture(spack_install, scope="environment")
        # By this `reframe --list` names it.
        self._rfm_fixture_space = {
            "spack": SimpleNamespace(
                cls=SimpleNamespace(__name__=spack_install.__name__), scope=declared.scope
            )
        }
        self._rfm_fixture_registry, self._installers = FixtureRegistry(), {}
        for partition, environs in runtime.valid_sysenv_comb(
            self.valid_systems, self.valid_prog_environs
        ).items():
            names = {environ.name for environ in environs} | set(
                self.further_environs if environs else ()
            )
            for environ in partition.environs:
                if environ.name in names and from_spack(environ):
                    where = SimpleNamespace(
                        valid_systems=[partition.fullname], valid_prog_environs=[environ.name]
                    )
                    name, *_ = self._rfm_fixture_registry.add(declared, 0, where)
                    self._installers[partition.fullname, environ.name] = name
                    self.depends_on(name, self._needs)

    def _needs(self, case, fixture) -> bool:
        (partition, environ), (where, what) = case, fixture
        return partition == where and what in (environ, *self.further_environs)

    def _installer(self, environ):
        return self.getdep(
            self._installers[self.current_partition.fullname, environ.name], environ.name
        )

    @builtin.run_before("compile")
    def build_with_it(self):
        self.prebuild_cmds += self.arrival_in(self.current_environ)

    def arrival_in(self, environ) -> list[str]:
        """Commands that put the software of an environment on PATH, beyond its modules and variables."""
        return (
            [f". {shlex.quote(f'{self._installer(environ).stagedir}/{LOAD}')}"]
            if from_spack(environ)
            else []
        )

    def departure_from(self, environ) -> list[str]:
        """Commands that take it away again."""
        return ["PATH=$spackless"] if from_spack(environ) else []

    def facts_of(self, environ) -> dict[str, str]:
        """What is recorded of an environment's software with each result."""
        facts = super().facts_of(environ)
        if from_spack(environ):
            facts |= {
                f"spack.{node.name}": f"{node.version}/{node.hash}"
                for node in measured(self._installer(environ).lock)
            }
        return facts
