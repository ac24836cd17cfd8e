"""The runtime of Spack: environments with the feature `spack`, verified by a fixture.

The fixture `spack_install` also installs where `spack_missing` is `install`. Elsewhere a case is
skipped if its software is not installed.
"""

import shlex
from types import SimpleNamespace

import reframe.core.runtime as runtime
from reframe.core.fixtures import FixtureRegistry, TestFixture

from nearmetal.checks.parsing.spack import measured
from nearmetal.checks.runtime.bare import Bare
from nearmetal.checks.spack_install import LOAD, spack_install
from nearmetal.checks.spack_store import absence


def from_spack(environ) -> bool:
    """Whether Spack installs the software of an environment."""
    return "spack" in environ.features


class Spack(Bare):
    """Others' programs that Spack installed, and ours, which its compilers build."""

    def __init__(self, environ, partition, installer):
        super().__init__(environ, partition)
        self._find_installer = installer

    @property
    def _installer(self):
        # Not in the constructor: ReFrame has resolved the check's dependencies only later.
        return self._find_installer(self.environ)

    def skip_reason(self, launcher):
        if self._installer:
            return ""
        return absence(self.environ, self.partition)

    def env_setup(self):
        return [f". {shlex.quote(f'{self._installer.stagedir}/{LOAD}')}"]

    def env_teardown(self):
        # `load.sh` keeps the PATH that it found.
        return ["PATH=$spackless"]

    def packages(self):
        return {
            f"spack.{node.name}": f"{node.version}/{node.hash}"
            for node in measured(self._installer.lock)
        }


def have_it_installed(check, further_environs=()) -> dict[tuple[str, str], str]:
    """Let ReFrame run `spack_install` before a check, in the environments that need it.

    A declared fixture (`fixture(spack_install, scope="environment")`) would run in all environments
    of the check, and most need none. So the needed ones are added to ReFrame's registry directly.

    Software that is absent, and that `spack_missing` does not install, has no fixture: the runtime
    then skips the case with the reason. A skipped fixture would skip it without one.

    :arg further_environs: names of further environments that the check needs.
    :returns: the fixture's name by partition and environment.
    """
    declared = TestFixture(spack_install, scope="environment")
    registry, names = FixtureRegistry(), {}

    def needs(case, fixture) -> bool:
        (partition, environ), (where, what) = case, fixture
        return partition == where and what in (environ, *further_environs)

    for partition, environ in _needed(check, further_environs):
        installs = check.before_setup("spack_missing", partition) == "install"
        if not installs and absence(environ, partition):
            continue
        # What the registry reads of a check.
        place = SimpleNamespace(
            valid_systems=[partition.fullname], valid_prog_environs=[environ.name]
        )
        [name] = registry.add(declared, 0, place)
        names[partition.fullname, environ.name] = name
        check.depends_on(name, needs)
    check._rfm_fixture_registry = registry
    # What `reframe --list` reads. ReFrame copies the check, and could not copy the class itself.
    listed = SimpleNamespace(__name__=spack_install.__name__)
    check._rfm_fixture_space = {"spack": SimpleNamespace(cls=listed, scope=declared.scope)}
    return names


def _needed(check, further_environs):
    """The partitions and environments of a check whose software Spack installs."""
    valid = runtime.valid_sysenv_comb(check.valid_systems, check.valid_prog_environs)
    for partition, environs in valid.items():
        names = {environ.name for environ in environs}
        if names:
            names |= set(further_environs)
        for environ in partition.environs:
            if environ.name in names and from_spack(environ):
                yield partition, environ
