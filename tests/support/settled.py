"""Prints the settings of all checks after ReFrame's setup, as JSON by case.

    python -m tests.support.settled SYSTEM [NAME=VALUE ...]

NAME=VALUE is a value of ReFrame's option -S. The options -P and --repeat are ReFrame's too.
"""

import argparse
import json
import os
import sys

import reframe.core.runtime as runtime
from reframe.core.config import load_config
from reframe.core.exceptions import SanityError, SkipTestError
from reframe.frontend.executors import generate_testcases
from reframe.frontend.loader import RegressionCheckLoader
from reframe.frontend.testgenerators import parameterize_tests, repeat_tests

from tests.support.paths import CHECKOUT

CHECKS = [CHECKOUT / "reframe_checks", CHECKOUT / "reframe_checks/duet"]


def after_setup(case) -> dict:
    """Settings of a case by name, the longest time that its job may wait, and its fault or ''."""
    fault = ""
    try:
        case.check.setup(case.partition, case.environ)
    except SanityError as error:
        fault = str(error)
    except SkipTestError:
        pass  # it has settings nevertheless
    return {
        "settings": {name: getattr(case.check, name) for name in case.check.settings()},
        "max_pending_time": case.check.max_pending_time,
        "fault": fault,
    }


def cases_of(arguments) -> list:
    given = dict(pair.split("=", 1) for pair in arguments.settings)
    loader = RegressionCheckLoader([str(path) for path in CHECKS], external_vars=given)
    cases = generate_testcases(loader.load_all())
    if arguments.parameterize:
        name, value = arguments.parameterize.split("=", 1)
        cases = parameterize_tests(cases, {name: [value]})
    return repeat_tests(cases, arguments.repeat) if arguments.repeat else cases


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("system")
    parser.add_argument("settings", nargs="*")
    parser.add_argument("-P", "--parameterize")
    parser.add_argument("--repeat", type=int)
    arguments = parser.parse_args()
    configuration = load_config(os.fspath(CHECKOUT / "site-config/settings.py"))
    configuration.select_subconfig(arguments.system)
    configuration.add_sticky_option("general/resolve_module_conflicts", False)
    runtime.init_runtime(configuration)
    settled = {
        f"{case.check.display_name} @{case.partition.name}+{case.environ.name}": after_setup(case)
        for case in cases_of(arguments)
        if not case.check.is_fixture()
    }
    json.dump(settled, sys.stdout)


if __name__ == "__main__":
    main()
