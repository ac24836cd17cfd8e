"""NPB-MZ reports seconds as the HPC Cloud slides do, and runs on AIST's cluster by default."""

from types import SimpleNamespace

import pytest
import yaml

from reframe_checks.npb_mz import npb_mz
from tests.support.paths import CHECKOUT


class Fake(SimpleNamespace):
    """A check after its run, with two rounds on 1 and 2 processes."""

    define, over_runs = npb_mz.define, npb_mz.over_runs

    def name_mops(self):
        """The variables that npb has as well."""
        self.perf_variables["mops"] = None

    def called(self, count):
        return f"{count}x8"

    def over_launches(self, name, values, within):
        return name, values


def fake(npb_class: str) -> Fake:
    rounds = [
        {count: SimpleNamespace(seconds=seconds / count) for count in (2, 1)}
        for seconds in (138.01, 139.0)
    ]
    return Fake(npb_class=npb_class, counts=[2, 1], runs=rounds, perf_variables={})


def test_the_seconds_of_each_launch_are_a_variable_beside_mops():
    check = fake("C")
    npb_mz.name_variables(check)
    assert list(check.perf_variables) == ["mops", "elapsed_C_2x8", "elapsed_C_1x8"]
    measured = check.perf_variables["elapsed_C_1x8"]
    assert measured.unit == "s" and measured.evaluate() == ("elapsed_C_1x8", [138.01, 139.0])


@pytest.mark.parametrize("npb_class", ["S", "W"])
def test_classes_of_hundredths_of_a_second_have_no_seconds(npb_class):
    check = fake(npb_class)
    npb_mz.name_variables(check)
    assert list(check.perf_variables) == ["mops"]


def test_aist_runs_it_by_default_as_slide_12_does():
    system = yaml.safe_load((CHECKOUT / "site-config/systems/aist.yaml").read_text())
    features = {one["name"]: one["features"] for one in system["environments"]}
    for partition in system["partitions"]:
        assert any("npb_mz" in features.get(name, ()) for name in partition["environs"])
        extras = partition["extras"]
        threads, per_node = extras["npb_mz_threads"], extras["npb_mz_ranks_per_node"]
        assert threads * per_node == extras["cores_per_node"] == 8
        assert extras["npb_mz_processes"] == "1,2,4,8,16" and extras["npb_class"] == "C"
