"""One table of units: every unit that a check uses is in it, and whatever needs a direction asks
it."""

import re
from pathlib import Path

import pytest
import yaml

from nearmetal import metrics, results
from nearmetal.gate import baseline
from tests.support import units_of_checks

CI = Path(metrics.__file__).parent
#: The variables of a duet, and of a check of others, have the units of those that they are made of.
TAKEN_OVER = {"duet/base.py", "measured.py"}


def test_every_unit_of_every_check_is_in_the_table():
    found = units_of_checks.units()
    assert len(found.units) > 10
    unknown = {unit: places for unit, places in found.units.items() if unit not in metrics.UNITS}
    assert not unknown, "add them to nearmetal/metrics.py"


def test_every_unit_of_a_check_can_be_read_from_its_source():
    unread = {place.split(":")[0] for place in units_of_checks.units().unread}
    assert unread == TAKEN_OVER, "give the unit as text, or as a loop over literals"


def test_every_unit_of_a_check_says_what_is_better():
    """But for the ratio within a duet's pairs, which `nearmetal duet` does not judge by."""
    units = set(units_of_checks.units().units)
    assert {unit for unit in units if metrics.unit(unit).lower_is_better is None} == {"1"}


@pytest.mark.parametrize(
    "source, unit",
    [
        ('performance_function("furlongs")', "furlongs"),
        ('sn.make_performance_function(self.f, "furlongs", 1)', "furlongs"),
        ('self.name_values("speed", "furlongs/fortnight", 1)', "furlongs/fortnight"),
        ('{n: sn.make_performance_function(f, u, n) for n, u in {"a": "ells"}.items()}', "ells"),
    ],
)
def test_a_new_check_with_an_unknown_unit_is_found(tmp_path, source, unit):
    (tmp_path / "new.py").write_text(f"def name_variables(self):\n    {source}\n")
    assert set(units_of_checks.units(tmp_path).units) == {unit}
    assert unit not in metrics.UNITS


def test_every_unit_of_published_figures_is_in_the_table():
    schema = yaml.safe_load((CI / "published-schema.yaml").read_text())
    assert set(map(str, schema["$defs"]["figure"]["properties"]["unit"]["enum"])) <= set(
        metrics.UNITS
    )


@pytest.mark.parametrize("path", [*CI.rglob("*.py"), *CI.rglob("*.js")], ids=lambda path: path.name)
def test_no_other_place_derives_a_direction_from_a_unit(path):
    if path.name != "metrics.py" and "parsing" not in path.parts:
        assert not re.search(r'endswith\("/s"\)|% of peak|ns/day|detours/s', path.read_text())


@pytest.mark.parametrize(
    "unit, bounds",
    [
        ("us", [None, 0.25]),
        ("s/step", [None, 0.25]),
        ("detours/s", [None, 0.25]),
        ("% lost", [None, 0.25]),
        ("x sockets", [None, 0.25]),
        ("Gb/s", [-0.25, None]),
        ("% of ideal", [-0.25, None]),
        ("% of peak", [-0.25, None]),
        ("ns/day", [-0.25, None]),
        ("furlongs", [-0.25, 0.25]),
    ],
)
def test_a_reference_bounds_the_worse_side(unit, bounds):
    assert baseline.bounds(metrics.unit(unit).lower_is_better, 0.01) == bounds


def test_a_lower_bound_keeps_a_rate_of_nothing_from_passing():
    assert baseline.bounds(False, 0.5) == [-baseline.LOWEST, None]


def test_the_gate_the_references_and_the_table_agree_on_every_unit():
    for unit in metrics.UNITS:
        value = results.Value("c", "e", "p", "v", 1.0, unit)
        lower, upper = baseline.bounds(metrics.unit(unit).lower_is_better, 0.01)
        assert value.lower_is_better == {(True, False): True, (False, True): False}.get(
            (lower is None, upper is None)
        )


def test_units_of_one_quantity_convert():
    for small, large, factor in (("us", "s", 1e6), ("Mb/s", "Gb/s", 1e3), ("s", "min", 60)):
        one, other = metrics.unit(small), metrics.unit(large)
        assert one.quantity == other.quantity
        assert other.scale / one.scale == pytest.approx(factor)
    assert metrics.unit("MB/s").scale == pytest.approx(8 * metrics.unit("Mb/s").scale)


def test_units_are_printed_as_people_write_them():
    assert metrics.printed("us") == "µs" and metrics.printed("1") == metrics.printed(1) == ""
    assert metrics.printed("Gb/s") == "Gb/s" and metrics.printed("furlongs") == "furlongs"
