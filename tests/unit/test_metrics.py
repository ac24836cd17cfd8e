"""One place knows units: it reads every unit that a check uses, and whatever needs a direction asks
it."""

import re

import pytest
import yaml

from nearmetal import results
from nearmetal.checkout import PACKAGE
from nearmetal.judge import baseline
from nearmetal.model import metrics
from tests.support import units_of_checks

#: The variables of a duet, and of a check of others, have the units of those that they are made of.
TAKEN_OVER = {"duet/base.py", "measured.py"}


def test_every_unit_of_every_check_is_known():
    found = units_of_checks.units()
    assert len(found.units) > 10
    unknown = {unit: places for unit, places in found.units.items() if not metrics.is_known(unit)}
    assert not unknown, "add their parts to nearmetal/model/units.yaml"


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
    assert not metrics.is_known(unit)


def test_every_unit_of_published_figures_is_known():
    schema = yaml.safe_load((PACKAGE / "compare" / "published-schema.yaml").read_text())
    units = schema["$defs"]["figure"]["properties"]["unit"]["enum"]
    assert units and all(map(metrics.is_known, units))


#: Units of ReFrame's hpctestlib and of the public suites of CSCS, EESSI and excalibur-tests.
LESS = (
    *("s", "sec", "seconds", "Seconds", "usec", "us", "µs", "μs", "ms", "microseconds", "minutes"),
    *("min", "h", "hours", "s/timestep", "s/step", "sec/step", "seconds per iteration", "ms/iter"),
    *("days/ns",),
)
MORE = (
    *("MB/sec", "MBytes/sec", "MB/second", "MBytes/second", "MB/s", "MiB/s", "Mbit/s", "Gb/s"),
    *("GBps", "Gbps", "KB/s", "GFLOPS", "GFlop/s", "GFLOP/s", "GFLop/s", "GF/s", "Gflops/s"),
    *("Gflops", "Gflops/seconds", "Tflop/s", "img/sec", "images/s", "timesteps/s", "ns/day"),
    *("MLUPS", "MLUP/s", "GUP/s", "GUPS", "MDOF/s", "Mcells/s", "katom-step/s", "iter/s", "it/s"),
    *("IOPS", "kIOPS", "IO/s", "Mop/s", "GTEPS", "tokens/s", "samples/sec", "GB/s/node"),
)
#: An amount, an unknown word, and words whose case makes them something else.
WITHOUT = (
    "MB",
    "GiB",
    "count",
    "nodes",
    "W",
    "C",
    "GHz",
    "loops/ms",
    "errors/s",
    "mb/s",
    "%",
    "s/s",
)


@pytest.mark.parametrize(
    "units, better",
    [(LESS, metrics.LESS), (MORE, metrics.MORE), (WITHOUT, metrics.UNKNOWN)],
    ids=["less", "more", "without a direction"],
)
def test_units_of_public_suites_have_a_direction_by_their_parts(units, better):
    found = {unit: metrics.unit(unit).better for unit in units}
    assert found == dict.fromkeys(units, better)


@pytest.mark.parametrize(
    "one, other",
    [
        ("usec", "us"),
        ("MBytes/sec", "MB/s"),
        ("Gflops/seconds", "GFLOPS"),
        ("s/timestep", "seconds per step"),
    ],
)
def test_spellings_of_one_unit_are_equal(one, other):
    assert metrics.unit(one) == metrics.unit(other)


def test_each_spelling_is_of_one_part():
    spellings = [one for entry in metrics._data()["parts"] for one in entry["spellings"]]
    assert len(spellings) == len(set(spellings)) == len(metrics._spellings())


def test_no_other_place_derives_a_direction_from_a_unit():
    for path in (*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.js")):
        if path.name != "metrics.py" and "parsing" not in path.parts:
            found = re.search(r'endswith\("/s"\)|% of peak|ns/day|detours/s', path.read_text())
            assert not found, path


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
    for unit in (*LESS, *MORE, *WITHOUT):
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
