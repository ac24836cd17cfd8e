"""Who is to blame: slow nodes, switches and links of a simulated fleet."""

import numpy as np
import pytest

from nearmetal.fleet import model, outliers, remeasured
from nearmetal.fleet.outliers import BOTH, INTO, OUT

NODES = 12
NOISE = 0.01


def fleet(seed: int = 1, *faults, nodes: int = NODES) -> np.ndarray:
    """Times of all links in us; each fault multiplies those of some links by a factor."""
    times = 50 * np.exp(np.random.default_rng(seed).normal(0, NOISE, (nodes, nodes)))
    for senders, receivers, factor in faults:
        times[np.ix_(senders, receivers)] *= factor
    return times


def others(*nodes: int) -> list[int]:
    return [node for node in range(NODES) if node not in nodes]


EVERY = others()


def named(times: np.ndarray) -> set[tuple]:
    return {(one.kind, one.nodes, one.direction) for one in outliers.of_links(model.fit(times))}


def test_a_healthy_fleet_has_no_suspect():
    assert sum(bool(named(fleet(seed))) for seed in range(60)) <= 3


@pytest.mark.parametrize(
    "faults, suspects",
    [
        ([([3], EVERY, 1.2)], {("node", (3,), OUT)}),
        ([(EVERY, [3], 1.2)], {("node", (3,), INTO)}),
        ([([3], EVERY, 1.2), (EVERY, [3], 1.3)], {("node", (3,), BOTH)}),
        ([([3], EVERY, 1.2), ([7], EVERY, 1.1)], {("node", (3,), OUT), ("node", (7,), OUT)}),
        ([([2], [5], 1.3)], {("link", (2, 5), OUT)}),
        ([([2], [5], 1.3), ([5], [2], 1.3)], {("link", (2, 5), BOTH)}),
        ([([0], EVERY, 1.3), ([2], [5], 1.3)], {("node", (0,), OUT), ("link", (2, 5), OUT)}),
        ([([4, 9], others(4, 9), 1.3)], {("path", (4, 9), OUT)}),
    ],
)
def test_a_fault_is_named_as_what_it_is_and_nothing_else(faults, suspects):
    assert named(fleet(2, *faults)) == suspects


def test_two_slow_nodes_that_are_slow_to_each_other_share_no_path():
    """The slower end decides a bandwidth: the effects of two slow nodes do not add up."""
    slow = [([4, 9], others(4, 9), 1.3), (others(4, 9), [4, 9], 1.3), ([4, 9], [4, 9], 1.3)]
    assert named(fleet(3, *slow)) == {("node", (4,), BOTH), ("node", (9,), BOTH)}


def test_a_switch_stands_for_its_nodes():
    switches = np.repeat([0, 1, 2, 3, 4, 5], 4)
    times = fleet(4, nodes=24)
    times[np.ix_(switches == 2, switches != 2)] *= 1.2
    fit = model.fit(times, switches)
    members = [np.flatnonzero(switches == name) for name in range(6)]
    [one] = outliers.of_links(fit, members)
    assert (one.kind, one.nodes, one.direction) == ("switch", (8, 9, 10, 11), OUT)
    assert one.change == pytest.approx(0.2, abs=0.03)


def test_pairs_of_one_switch_may_be_quicker_than_others():
    switches = np.repeat([0, 1, 2], 4)
    times = fleet(5)
    times[switches[:, None] != switches[None, :]] *= 2
    fit = model.fit(times, switches)
    assert outliers.of_links(fit, [np.flatnonzero(switches == name) for name in range(3)]) == []
    assert np.exp(fit.level) == pytest.approx([100, 50], rel=0.02)
    times = np.exp(fit.expected(np.array([0]), np.array([0, 1, 11])))
    assert times[0, 1:] == pytest.approx([50, 100], rel=0.03) and np.isnan(times[0, 0])


def test_links_that_were_not_measured_count_for_nothing():
    times = fleet(6, ([3], EVERY, 1.2))
    missing = np.random.default_rng(6).random(times.shape) < 0.4
    times[missing] = np.nan
    times[:, 5] = times[5, :] = np.nan
    fit = model.fit(times)
    assert [(one.kind, one.nodes) for one in outliers.of_links(fit)] == [("node", (3,))]
    assert np.isnan(fit.out[5]) and np.isnan(fit.into[5])


def test_a_fleet_without_any_value_has_no_suspect():
    fit = model.fit(np.full((4, 4), np.nan))
    assert outliers.of_links(fit) == [] and np.isnan(fit.out).all()


def test_values_that_are_no_matrix_of_times_are_refused():
    with pytest.raises(ValueError, match="square"):
        model.fit(np.ones((2, 3)))
    with pytest.raises(ValueError, match="not positive"):
        model.fit(np.array([[1.0, 0.0], [1.0, 1.0]]))


def test_latencies_have_one_direction():
    times = fleet(7)
    times = np.sqrt(times * times.T)
    times[3, :] *= 1.2
    times[:, 3] *= 1.2
    [one] = outliers.of_links(model.fit(times), each_way=False)
    assert (one.kind, one.nodes, one.direction) == ("node", (3,), BOTH)


@pytest.mark.parametrize(
    "fault", [([3], EVERY, 1.2), (EVERY, [3], 1.2), ([2], [5], 1.3), ([4, 9], others(4, 9), 1.3)]
)
def test_what_is_slow_again_is_confirmed_and_what_is_quick_again_is_not(fault):
    fit = model.fit(fleet(10, fault))
    suspects = outliers.of_links(fit)
    assert remeasured.judged(suspects, fit, fleet(11)) == ([], [])
    [one], _ = remeasured.judged(suspects, fit, fleet(11, fault))
    assert (one.kind, one.nodes) == (suspects[0].kind, suspects[0].nodes)
    assert one.change == pytest.approx(fault[2] - 1, abs=0.05)


def test_noise_in_a_link_of_most_nodes_hides_no_slow_node():
    fault = ([3], EVERY, 1.2)
    noise = [([i], [i + 1], 1.5) for i in (1, 4, 6, 8, 10)] + [([0], [2], 1.5)]
    fit = model.fit(fleet(10, fault, *noise))
    suspects = outliers.of_links(fit)
    assert {node for one in suspects for node in one.nodes} == set(EVERY)
    found, unknown = remeasured.judged(suspects, fit, fleet(11, fault))
    assert [(one.kind, one.nodes) for one in found] == [("node", (3,))]
    assert not unknown
    # A link that is slow in both sweeps is not among the healthy ones, nor hides others.
    found, unknown = remeasured.judged(suspects, fit, fleet(11, fault, *noise))
    assert {one.nodes for one in found} == {one.nodes for one in suspects} and not unknown


def test_without_healthy_links_nothing_is_judged():
    fit = model.fit(fleet(10, ([3], EVERY, 1.2)))
    suspects = outliers.of_links(fit)
    alone = np.full((NODES, NODES), np.nan)
    assert remeasured.judged(suspects, fit, alone) == ([], suspects)
    alone[3, 1] = 90
    assert remeasured.judged(suspects, fit, alone) == ([], suspects)


def test_a_suspect_that_was_not_measured_again_is_not_judged():
    fit = model.fit(fleet(10, ([3], EVERY, 1.2)))
    suspects, fresh = outliers.of_links(fit), fleet(11)
    fresh[3, :] = fresh[:, 3] = np.nan
    assert remeasured.judged(suspects, fit, fresh) == ([], suspects)


def test_nodes_that_differ_in_receiving_by_nature_are_not_confirmed_as_slow_to_receive():
    """Sends of these nodes are alike, so they do not show how much receives differ."""
    natural = np.exp(np.random.default_rng(12).normal(0, 0.05, NODES))
    natural[3] = 1.08
    fit = model.fit(fleet(12) * natural)
    suspect = outliers.Suspect("node", (3,), INTO, 0.1, 0.0)
    assert remeasured.judged([suspect], fit, fleet(13) * natural) == ([], [])


def test_noise_that_only_slows_confirms_no_link():
    """Each fresh value is judged by the slow side of the noise, which is the longer one."""
    generator = np.random.default_rng(15)
    times = np.exp(generator.exponential(0.05, (2, 40, 40)))
    fit = model.fit(times[0])
    ends = [tuple(map(int, pair)) for pair in generator.permutation(40)[:40].reshape(-1, 2)]
    suspects = [outliers.Suspect("link", pair, OUT, 0.3, 0.0) for pair in ends]
    # Noise alone gives one of 20 links such a value in each tenth sweep.
    times[1][ends[0]] = np.exp(0.05 * np.log(200))
    assert remeasured.judged(suspects, fit, times[1]) == ([], [])
