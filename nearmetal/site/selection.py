"""What a run of the suite selects: recorded with its cases, and never nothing."""

import functools
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reframe.core.exceptions import ReframeError
from reframe.core.logging import getlogger
from reframe.core.runtime import runtime
from reframe.frontend.executors import Runner
from reframe.frontend.executors.policies import SerialExecutionPolicy
from reframe.utility import osext

from nearmetal.checkout import CHECKOUT
from nearmetal.site import foreign, stage
from nearmetal.site.system import environments_file, read_environments
from nearmetal.util import command, suggest

#: The page that says how a site gives features.
FEATURES = "docs/cluster.md#features"
#: The page that lists the settings of each check.
SETTINGS = "docs/checks.md"
#: Directory of the shipped environments of Spack.
SPACK_ENV = CHECKOUT / "spack-env"
#: Feature that no software gives -> what gives it.
STORAGE = ". Fix: write `{}: DIRECTORY` in a partition's extras"
PROVIDED = {
    "storage_local": STORAGE.format("storage_local"),
    "storage_shared": STORAGE.format("storage_shared"),
    "storage_scratch": STORAGE.format("storage_scratch"),
    "rdma": ". Fix: write `rdma: true` in its extras, if its programs reach the NIC by verbs",
    "libfabric_provider": ". Fix: write `libfabric_provider: PROVIDER` in its extras, such as efa",
    "fleet": ". Fix: give it to a partition of many nodes (docs/fleet.md)",
    "vswitch": ". Fix: give it to an environment of a partition whose nodes are guests of one host",
}
#: ReFrame's options besides -n that choose cases: with one, absent checks are not reported.
OTHERS = (
    *("prgenv", "exclude_names", "tags", "exclude_tags", "filter_expr", "maintainers"),
    *("gpu_only", "cpu_only", "failed", "restore_session", "distribute"),
)


def recorded() -> dict:
    """What ReFrame was asked for beyond the names of tests, wherever it was said.

    A command line alone does not hold it: variables such as RFM_SYSTEM and ReFrame's modes say it
    too.
    """
    config = runtime().site_config
    return {
        "system": config.subconfig_system,
        "database": osext.expandvars(config.get("storage/0/sqlite_db_file") or ""),
        "environs": config.get("general/0/valid_env_names") or [".*"],
        "paths": [str(Path(path).resolve()) for path in config.get("general/0/check_search_path")],
    }


def why_nothing() -> str:
    """Why ReFrame selected no test case, and what to do, as one sentence."""
    system = runtime().system
    name = runtime().site_config.subconfig_system
    # The first source is ReFrame's own configuration.
    if len(runtime().site_config.sources) < 2:
        return (
            "no test case is selected, because ReFrame has no configuration but its own: "
            "set RFM_CONFIG_PATH to the directory site-config of this checkout"
        )
    if system.name == "generic":
        return (
            "no test case is selected, because the system is ReFrame's own 'generic': give yours "
            "with --system, or add this host's name to `hostnames` in your system's file"
        )
    names = {environ.name for _, environ in _environs()}
    if not names:
        return (
            f"no test case is selected, because {name} has no environment whose name "
            f"begins with {' or '.join(recorded()['environs'])}: correct -p, or `environs` of the "
            "partition in your system's file"
        )
    if not any(_features_of_environs()):
        return (
            f"no test case is selected, because no environment of {name} "
            f"({', '.join(sorted(names))}) has "
            "features, by which checks choose: give it `features` in environments.yaml or in your "
            "system's file"
        )
    return (
        f"no test case is selected on {name}: correct the options that choose tests "
        "(-n, -x, -t, -E, -p, --system, --distribute), which `reframe -l` with the same options "
        "shows"
    )


def absent_checks() -> str:
    """What is wrong with the paths after -c, as one sentence; '' if all are there."""
    absent = [path for path in recorded()["paths"] if not Path(path).exists()]
    if not absent:
        return ""
    return (
        f"there is no {', '.join(absent)}, where ReFrame was to find checks: correct -c; ours are "
        "the directory reframe_checks of a checkout"
    )


def why_nowhere(valid_systems: list[str], valid_prog_environs: list[str]) -> str:
    """Why a check has no case on this system: the features that nothing there has."""
    partitions = runtime().system.partitions
    features = [{*partition.features, *partition.extras} for partition in partitions]
    if lack := lacking(valid_systems, features):
        return f"no partition has the feature {lack} ({FEATURES}){PROVIDED.get(lack, '')}"
    if lack := lacking(valid_prog_environs, _features_of_environs()):
        fix = PROVIDED.get(lack) or provider(lack)
        return f"no environment has the feature {lack} ({FEATURES}){fix}"
    wanted = f"{' or '.join(valid_systems)} with {' or '.join(valid_prog_environs)}"
    return f"no partition and environment are {wanted}"


@functools.cache  # several checks ask
def provider(feature: str) -> str:
    """The shipped environment of Spack that has a feature, with the command that installs it.

    '' if none has.
    """
    path = environments_file()
    if not path.is_file():
        return ""
    for name, environment in read_environments(path).items():
        directory = environment.get("extras", {}).get("spack_env")
        if directory and feature in environment.get("features", []):
            place = SPACK_ENV / directory
            lock = min(place.glob("locks/*.lock"), default=place / "spack.lock")
            return (
                f". Fix: add {name} to the environs of a partition, then run: "
                f"{spack_install(place, lock)}"
            )
    return ""


def spack_install(environment: Path, lock: Path) -> str:
    """The command that installs an environment of Spack by one of its locks."""
    command = shlex.join(["spack", "-e", str(environment), "install", "--only-concrete"])
    own = environment / "spack.lock"
    if lock != own:
        command = f"{shlex.join(['cp', str(lock), str(own)])} && {command}"
    return command


def _environs() -> Iterator[tuple]:
    """Each partition of the system with each of its environments."""
    for partition in runtime().system.partitions:
        for environ in partition.environs:
            yield partition, environ


def _features_of_environs() -> list[set[str]]:
    """The names by which checks choose each environment of the system."""
    return [foreign.known_features(environ, partition) for partition, environ in _environs()]


def lacking(specs: list[str], have: list[set[str]]) -> str:
    """The features that each of ReFrame's selectors asks for and that nothing has, as words.

    '' if one of them asks only for what is there.
    """
    known = set().union(*have)
    alternatives = []
    for spec in specs:
        wanted = {word[1:] for word in spec.split() if word.startswith("+")}
        if wanted <= known:
            return ""
        alternatives.append(" and ".join(sorted(wanted - known)))
    return " or ".join(alternatives)


def unknown_variable(classes: set) -> str:
    """What is wrong with the first `-S` that sets nothing in our checks; '' if none is wrong.

    ReFrame only warns, and measures for minutes what nobody asked for.

    :arg classes: of the chosen checks.
    """
    ours = sorted(filter(_is_ours, classes), key=_name)
    for text in asked_variables():
        place = text.partition("=")[0]
        test, _, name = place.rpartition(".")
        # Without a check, -S is for all of them: one suffices.
        meant, subject = ours, "no chosen check has a variable"
        if test:
            meant = [check for check in ours if _name(check) == test.partition(".")[0]]
            subject = f"{' or '.join(map(_name, meant))} has no variable"
        if meant and not any(_has(check, place) for check in meant):
            known: set[str] = set()
            known.update(*(check.var_space.vars for check in meant))
            ending = "."
            if guess := suggest.did_you_mean(name, sorted(known)):
                ending = f"; {guess}"
            return f"-S {text}: {subject} {name!r}{ending} Fix: correct -S ({SETTINGS})"
    return ""


def asked_variables() -> list[str]:
    """The values of all options `-S`."""
    try:
        return command.parse(shlex.join(sys.argv)).given("vars") or []
    except command.CommandError:
        return []


def _name(check: type) -> str:
    return check.__name__


def _is_ours(check: Any) -> bool:
    return hasattr(check, "no_baseline")


def _has(check: Any, place: str) -> bool:
    """Whether a check has the variable of `-S [CHECK.][FIXTURE.]NAME`."""
    words = place.split(".")
    if words[0] == check.__name__:
        words = words[1:]
    return words[0] in check.var_space or words[0] in check.fixture_space


class RefusingRunner(Runner):
    """ReFrame's runner, which fails a run of no test case, or of checks that are not there.

    By itself ReFrame passes both. It also says nothing of a check that no partition can run.
    """

    #: Display name of a check that has no case on this system -> the reason.
    nowhere: dict[str, str] = {}

    def runall(self, testcases, restored_cases=None):
        fault = absent_checks()
        if not fault and not testcases:
            fault = why_nothing()
        fault = fault or unknown_variable({type(case.check) for case in testcases})
        if fault:
            raise ReframeError(fault)
        for line in by_reason(chosen(self.nowhere)):
            getlogger().info(f"Not on {recorded()['system']}: {line}")
        ours = {case.partition for case in testcases if _is_ours(case.check)}
        places = sorted(ours, key=lambda partition: partition.fullname)
        for line in foreign.notes(places, isinstance(self.policy, SerialExecutionPolicy)):
            getlogger().info(f"Another configuration: {line}")
        directories = set()
        for case in testcases:
            place = case.partition.fullname.replace(":", "/")
            directories.add(f"{place}/{case.environ.name}/{case.check.short_name}")
        with stage.claimed(runtime().stage_prefix, directories, self.policy.dry_run_mode):
            super().runall(testcases, restored_cases)


def chosen(checks: dict[str, str]) -> dict[str, str]:
    """The checks that the options choose by name. {} where other options choose too."""
    try:
        options = command.parse(shlex.join(sys.argv))
        names = options.given("names") or []
        if any(map(options.given, OTHERS)):
            return {}
        chosen = {}
        for name, reason in checks.items():
            plain = name.replace(" ", "")
            if not names or any(re.search(pattern, plain) for pattern in names):
                chosen[name] = reason
        return chosen
    except (command.CommandError, re.error):
        return {}


def by_reason(checks: dict[str, str]) -> list[str]:
    """One line for each reason, with the checks that have it."""
    names: dict[str, list[str]] = {}
    for name, reason in checks.items():
        names.setdefault(reason, []).append(name)
    return [f"{', '.join(sorted(checks))}: {reason}" for reason, checks in names.items()]


def report_nowhere(check) -> None:
    """Have the running ReFrame say that a check has no case on this system, and why."""
    cli: Any = sys.modules.get("reframe.frontend.cli")
    runner = cli and cli.Runner
    if hasattr(runner, "nowhere"):
        why = why_nowhere(check.valid_systems, check.valid_prog_environs)
        runner.nowhere[check.display_name] = why


def refuse_empty_runs() -> None:
    """Have the running ReFrame fail where it has no test case or no checks. It has no option for
    that.

    Only its command's runner sees what all options together have left. ReFrame may load this module
    twice. Other programs load checks too, without that command.
    """
    cli: Any = sys.modules.get("reframe.frontend.cli")
    if cli and cli.Runner is Runner:
        cli.Runner = RefusingRunner
