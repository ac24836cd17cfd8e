"""The bench of fleets: what it simulates, and the promises that it holds the analysis to."""

import numpy as np
import pytest

from bench import fleet as bench
from bench import fleet_nodes

#: Sweeps of a test, and the most of them that may raise an alarm at 5 % (99.9 %).
SWEEPS, MOST = 100, 13


@pytest.mark.parametrize(
    "noise",
    [
        pytest.param((0.02, fleet_nodes.NORMAL), marks=pytest.mark.whole),
        pytest.param((0.10, fleet_nodes.NORMAL), marks=pytest.mark.whole),
        (0.05, fleet_nodes.HEAVY),
        (0.05, fleet_nodes.SLOWING),
    ],
)
def test_few_whole_sweeps_of_healthy_nodes_raise_an_alarm(noise):
    """Latency and bandwidth, alone and together, of sixteen nodes that differ by nature."""
    found = bench.rows(np.random.default_rng(1), 16, "", 0, 0, SWEEPS, noise)
    assert found["sweep"].alarms <= MOST and found["confirmed"].alarms <= MOST / 2
    assert found["sweep"].sweeps == SWEEPS


@pytest.mark.parametrize("kind", bench.KINDS)
def test_a_large_fault_is_named_as_what_it_is(kind):
    found = bench.rows(np.random.default_rng(2), 128, kind, 1, 0.3, 1, (0.02, fleet_nodes.NORMAL))
    assert (found["confirmed"].right, found["confirmed"].alarms) == (1, 0)


def test_a_sweep_has_the_faults_of_its_fleet():
    one = bench.fleet(np.random.default_rng(3), 16, 4, "switch", 1, 1.0)
    swept = one.sweep(np.random.default_rng(3), 0, (0.02, fleet_nodes.NORMAL))
    [(_, nodes)] = one.faults
    times = 1 / swept.gbps
    others = [node for node in range(16) if node not in nodes]
    assert times[np.ix_(nodes, others)].min() > 1.8 > times[np.ix_(others, range(16))].max()
    assert np.array_equal(swept.latency_us[0, 1:], swept.latency_us[1:, 0])
    assert swept.latency_us.max() < 1.5 and len(swept.members) == 4


@pytest.mark.parametrize("alarms, broken", [(5, False), (9, False), (10, True), (30, True)])
def test_a_promise_is_broken_where_chance_does_not_explain_it(alarms, broken):
    assert bench.surely_too_many(bench.Tally(sweeps=100, alarms=alarms)) is broken


def test_the_time_of_a_sweep_by_the_model():
    lines = {
        tuple(line.split()[:2]): line.split()[2:] for line in bench.times_of_sweeps().split("\n")
    }
    assert lines["128", "together"][:2] == ["1", "127"]
    assert lines["1024", "alone"][:2] == ["5238", "11"]


@pytest.mark.parametrize("noise, kind", fleet_nodes.NOISES)
def test_few_sweeps_of_healthy_nodes_raise_an_alarm_by_their_metrics(noise, kind):
    found = fleet_nodes.rows(np.random.default_rng(4), 16, 0, 0.0, 50, noise, kind)
    assert found["sweep"][2] <= 7 and found["confirmed"][2] <= 5


def test_a_node_that_is_slow_in_one_metric_is_named_in_it():
    found = fleet_nodes.rows(np.random.default_rng(5), 128, 1, 0.3, 5, 0.02, fleet_nodes.NORMAL)
    assert found["confirmed"] == (5, 5, 0)
