"""known.yaml says what the checks' sources say: their names, parameters, variables and facts."""

import ast
import re

import pytest
import yaml

from nearmetal.checkout import CHECKOUT
from nearmetal.checks import provenance
from nearmetal.expectations import entries, hardware, judge, known
from nearmetal.model import metrics
from nearmetal.results.session import FACTS
from tests.support import units_of_checks
from tests.support.paths import RECORDED

SOURCES = [*(CHECKOUT / "reframe_checks").rglob("*.py"), CHECKOUT / "nearmetal/checks/link.py"]
#: Names of units in the sources that are no check's.
OF_NO_CHECK = {"1"}


def classes():
    """Class -> whether it is a check, its bases, its parameters, and functions with units."""
    found = {}
    for path in SOURCES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                found[node.name] = node
    return found


def decorators(node):
    return [ast.unparse(one) for one in node.decorator_list]


def of_class(name, found, what):
    """What a class and its bases define."""
    node = found.get(name)
    if node is None:
        return {}
    own = {}
    for base in node.bases:
        own |= of_class(ast.unparse(base), found, what)
    return own | what(node)


def parameters(node):
    return {
        one.targets[0].id: one.value.args[0]
        for one in node.body
        if isinstance(one, ast.Assign)
        and isinstance(one.value, ast.Call)
        and ast.unparse(one.value.func) == "builtin.parameter"
    }


def variables(node):
    return {
        one.name: ast.literal_eval(decorator.args[0])
        for one in node.body
        if isinstance(one, ast.FunctionDef)
        for decorator in one.decorator_list
        if isinstance(decorator, ast.Call)
        and ast.unparse(decorator.func) == "builtin.performance_function"
    }


def test_all_checks_are_known_with_their_parameters():
    found = classes()
    checks = {name for name, node in found.items() if "rfm.simple_test" in decorators(node)}
    assert set(known.checks()) == checks
    for name in checks:
        own = of_class(name, found, parameters)
        assert set(known.checks()[name].parameters) == set(own), name
        for parameter, values in own.items():
            if isinstance(values, ast.List):
                texts = [one.value for one in values.elts if isinstance(one, ast.Constant)]
                assert set(texts) <= set(known.checks()[name].parameters[parameter]), name


def test_variables_that_a_source_names_are_known_with_their_units():
    found = classes()
    for name, check in known.checks().items():
        if check.variables is not None:
            assert of_class(name, found, variables).items() <= check.variables.items(), name


def test_units_of_variables_are_those_of_the_sources():
    units = {unit for check in known.checks().values() for unit in (check.variables or {}).values()}
    assert units == set(units_of_checks.units().units) - OF_NO_CHECK
    assert all(map(metrics.is_known, units))


def test_recorded_variables_are_known():
    for path in RECORDED.glob("session_lab.json"):
        for case in yaml.safe_load(path.read_text())["runs"][0]["testcases"]:
            for key, value in case["perfvalues"].items():
                check, variable = case["name"].split(" ")[0], key.rsplit(":", 1)[-1]
                named = known.checks()[check].variables
                assert value[4] in [
                    u for name, u in named.items() if known.is_named(variable, name)
                ]


def test_facts_of_the_script_are_known():
    facts = {*FACTS, *provenance.FACTS, provenance.FOREIGN, *entries.FACTS}
    facts |= {f"{kind}.eth0.{key}" for kind, keys in provenance.GROUP.items() for key in keys}
    [host] = provenance.parse((RECORDED / "provenance-host.txt").read_text()).values()
    script = (CHECKOUT / "reframe_checks/src/provenance.sh").read_text()
    facts |= set(host) | set(re.findall(r"^ +(?:file_)?fact ([a-z_]+) ", script, re.M))
    facts |= {f"nic.eth0.{key}" for key in re.findall(r'fact "nic\.\$1\.([a-z_]+)"', script)}
    facts = {fact for fact in facts if not provenance.COUNTER.fullmatch(fact)}
    listed = yaml.safe_load(known.FILE.read_text())["facts"]
    unknown = {fact for fact in facts if not any(known.is_named(fact, one) for one in listed)}
    assert not unknown


def test_derived_numbers_have_a_function():
    assert set(hardware.numbers({})) == set(entries.DERIVED)
    assert set(judge.of_extras({"memory_gb": 1})) <= set(entries.OF_EXTRAS)


@pytest.mark.parametrize(
    "known_name, name, is_it",
    [
        ("triad_N", "triad_16", True),
        ("triad_N", "triad_", False),
        ("efficiency_CLASS_N", "efficiency_A_4x2", True),
        ("mops_CLASS_N_guests_N", "mops_S_4_guests_2", True),
        ("nic.NAME.mtu", "nic.eth0.100.mtu", True),
        ("latency_1KiB", "latency_2KiB", False),
    ],
)
def test_a_known_name_stands_for_names(known_name, name, is_it):
    assert known.is_named(name, known_name) == is_it
    assert all(known.is_named(one, known_name) for one in known.examples(known_name))
