"""The checks' files of facts say what the checks' sources say, and hold nothing unknown."""

import ast
import itertools
import re

import pytest
import yaml

from nearmetal.checkout import CHECKOUT
from nearmetal.checks import provenance
from nearmetal.compare import nearness
from nearmetal.expectations import entries, hardware, judge
from nearmetal.judge.explain import rules
from nearmetal.model import catalogue, metrics
from nearmetal.results.session import FACTS
from tests.support import units_of_checks
from tests.support.paths import RECORDED
from tests.support.said import lacking

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
        one.targets[0].id: ast.literal_eval(one.value.args[0])
        for one in node.body
        if isinstance(one, ast.Assign)
        and isinstance(one.value, ast.Call)
        and ast.unparse(one.value.func) == "Variable"
    }


def checks(found):
    """Names of the checks that are no duets: a duet takes the facts of its check."""
    names = {name for name, node in found.items() if "rfm.simple_test" in decorators(node)}
    return {name for name in names if not name.endswith(catalogue.DUET)}


FILES = {name: catalogue.check(name) for name in catalogue.names()}


def every_variable():
    """Display name and variable of an example of each variable of each file."""
    for name, check in FILES.items():
        for values in itertools.product(*check.parameters.values()):
            words = [f"%{key}={value}" for key, value in zip(check.parameters, values)]
            for declared in check.variables:
                for variable in catalogue.examples(declared):
                    yield " ".join([name, *words]), variable


def test_each_check_has_a_file_with_its_parameters():
    found = classes()
    assert set(FILES) == checks(found)
    for name, check in FILES.items():
        own = of_class(name, found, parameters)
        assert set(check.parameters) == set(own), name
        for parameter, values in own.items():
            if isinstance(values, ast.List):
                texts = [one.value for one in values.elts if isinstance(one, ast.Constant)]
                assert set(texts) <= set(check.parameters[parameter]), name


def test_each_duet_has_the_facts_of_its_check():
    found = classes()
    duets = {name for name in found if name.endswith(catalogue.DUET)} - set(FILES)
    assert duets
    for name in duets:
        assert catalogue.check(name) == catalogue.check(name.removesuffix(catalogue.DUET))
    check = "pingpong_duet %placement=intranode"
    assert catalogue.variable(check, "startup_latency_a").layer == "within/small"
    assert catalogue.variable(check, "startup_latency_ratio").aspect == catalogue.NONE


def test_variables_that_a_source_names_are_known_with_their_units():
    found = classes()
    for name, check in FILES.items():
        assert of_class(name, found, variables).items() <= check.units.items(), name


def test_units_of_variables_are_those_of_the_sources():
    units = {unit for check in FILES.values() for unit in check.units.values()}
    assert units == set(units_of_checks.units().units) - OF_NO_CHECK
    assert all(map(metrics.is_known, units))


def test_recorded_variables_are_known():
    for path in RECORDED.glob("session_lab.json"):
        for case in yaml.safe_load(path.read_text())["runs"][0]["testcases"]:
            for key, value in case["perfvalues"].items():
                known = catalogue.variable(case["display_name"], key.rsplit(":", 1)[-1])
                assert value[4] == known.unit


def test_every_name_of_a_file_is_known_elsewhere():
    layers = {"none", *rules_of_causes()}
    for check, name in every_variable():
        known = catalogue.variable(check, name)
        assert len(known.means.split()) <= 25, known.means
        assert known.layer.partition("/")[0] in layers, (check, name, known.layer)
        if known.limit:
            nearness.parsed(known.limit.of), nearness.parsed(known.limit.most)
        if known.plot and known.plot.by:
            assert known.plot.by in FILES[check.split(" ")[0]].parameters
        if known.plot and not (known.plot.by or known.plot.at):
            # Without a number, the partitions are on the x axis.
            assert known.numbers or known.plot.x == "partition", (check, name)


def rules_of_causes():
    """The layers that rules of likely causes name."""
    for rule in rules.load().rules:
        for layer in (*rule.moves, *rule.still):
            yield layer.partition("/")[0]


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda data: data.pop("method"), ["the file", "'method'"]),
        (lambda data: data["variables"]["share_lost"].pop("means"), ["share_lost", "'means'"]),
        (lambda data: data["variables"]["share_lost"].update(aspect="nois"), ["aspect", "nois"]),
        (lambda data: data["variables"]["share_lost"].update(layer={"a": "b"}), ["layer"]),
        (lambda data: data["variables"]["share_lost"].update(layer="nois"), ["layer", "nois"]),
        (lambda data: data["variables"]["share_lost"]["plot"].update(page="x"), ["plot.page"]),
        (lambda data: data["smoke"].update(setting={}), ["smoke", "'setting'", "settings"]),
        (lambda data: data["smoke"].pop("feature"), ["smoke", "'feature'", "environments"]),
        (
            lambda data: data["extras"]["osnoise_seconds"].pop("description"),
            ["extras.osnoise_seconds", "'description'"],
        ),
    ],
)
def test_an_error_names_file_and_key(tmp_path, change, words):
    data = yaml.safe_load((catalogue.FILES / "osnoise.yaml").read_text())
    change(data)
    path = tmp_path / "osnoise.yaml"
    path.write_text(yaml.safe_dump(data))
    with pytest.raises(catalogue.CatalogueError) as error:
        catalogue.load(path)
    assert not lacking(str(error.value), "osnoise.yaml", "Fix: ", *words)


def test_no_two_checks_have_the_same_key_of_extras():
    keys = [key for check in FILES.values() for key in check.extras]
    assert sorted(keys) == sorted(catalogue.extras())


def test_facts_of_the_script_are_known():
    facts = {*FACTS, *provenance.FACTS, provenance.FOREIGN, *entries.FACTS}
    facts |= {f"{kind}.eth0.{key}" for kind, keys in provenance.GROUP.items() for key in keys}
    [host] = provenance.parse((RECORDED / "provenance-host.txt").read_text()).values()
    script = (CHECKOUT / "reframe_checks/src/provenance.sh").read_text()
    facts |= set(host) | set(re.findall(r"^ +(?:file_)?fact ([a-z_]+) ", script, re.M))
    facts |= {f"nic.eth0.{key}" for key in re.findall(r'fact "nic\.\$1\.([a-z_]+)"', script)}
    facts = {fact for fact in facts if not provenance.COUNTER.fullmatch(fact)}
    listed = catalogue.facts()
    unknown = {fact for fact in facts if not any(catalogue.is_named(fact, one) for one in listed)}
    assert not unknown


def test_derived_numbers_have_a_function():
    assert set(hardware.numbers({})) == set(entries.DERIVED)
    assert set(judge.of_extras({"memory_gb": 1})) <= set(entries.OF_EXTRAS)


@pytest.mark.parametrize(
    "declared, name, is_it",
    [
        ("triad_N", "triad_16", True),
        ("triad_N", "triad_", False),
        ("efficiency_CLASS_N", "efficiency_A_4x2", True),
        ("mops_CLASS_N_guests_N", "mops_S_4_guests_2", True),
        ("nic.NAME.mtu", "nic.eth0.100.mtu", True),
        ("latency_1KiB", "latency_2KiB", False),
        ("bandwidth_SIZE", "bandwidth_1GiB", True),
    ],
)
def test_a_declared_name_stands_for_names(declared, name, is_it):
    assert catalogue.is_named(name, declared) == is_it
    assert all(catalogue.is_named(one, declared) for one in catalogue.examples(declared))
