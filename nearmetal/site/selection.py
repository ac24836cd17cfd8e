"""What a run of the suite selects: recorded with its cases, and never nothing."""

import sys
from pathlib import Path
from typing import Any

from reframe.core.exceptions import ReframeError
from reframe.core.runtime import runtime
from reframe.frontend.executors import Runner


def recorded() -> dict:
    """What ReFrame was asked for beyond the names of tests, wherever it was said.

    A command line alone does not hold it: variables such as RFM_SYSTEM and ReFrame's modes say it
    too.
    """
    config = runtime().site_config
    return {
        "system": config.subconfig_system,
        "environs": config.get("general/0/valid_env_names") or [".*"],
        "paths": [str(Path(path).resolve()) for path in config.get("general/0/check_search_path")],
    }


def why_nothing() -> str:
    """Why ReFrame selected no test case, and what to do, as one sentence."""
    asked = recorded()
    system = runtime().system
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
    environs = [environ for partition in system.partitions for environ in partition.environs]
    if not environs:
        return (
            f"no test case is selected, because {asked['system']} has no environment whose name "
            f"begins with {' or '.join(asked['environs'])}: correct -p, or `environs` of the "
            "partition in your system's file"
        )
    if not any(environ.features for environ in environs):
        names = ", ".join(sorted({environ.name for environ in environs}))
        return (
            f"no test case is selected, because no environment of {asked['system']} ({names}) has "
            "features, by which checks choose: give it `features` in environments.yaml or in your "
            "system's file"
        )
    return (
        f"no test case is selected on {asked['system']}: correct the options that choose tests "
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


class RefusingRunner(Runner):
    """ReFrame's runner, which fails a run of no test case, or of checks that are not there.

    By itself ReFrame passes both.
    """

    def runall(self, testcases, restored_cases=None):
        fault = absent_checks()
        if not fault and not testcases:
            fault = why_nothing()
        if fault:
            raise ReframeError(fault)
        super().runall(testcases, restored_cases)


def refuse_empty_runs() -> None:
    """Have the running ReFrame fail where it has no test case or no checks. It has no option for
    that.

    Only its command's runner sees what all options together have left. ReFrame may load this module
    twice. Other programs load checks too, without that command.
    """
    cli: Any = sys.modules.get("reframe.frontend.cli")
    if cli and cli.Runner is Runner:
        cli.Runner = RefusingRunner
