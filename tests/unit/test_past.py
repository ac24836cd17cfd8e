"""What nodes added to the times in earlier sweeps."""

import math

import pytest

from nearmetal.fleet import findings, node_history
from nearmetal.results import parse_session
from tests.support import sweeps


def read(data: dict):
    [one] = [found for case in parse_session(data, "here").cases if (found := findings.read(case))]
    return one


def test_a_sweep_of_links_has_three_ways_and_one_of_nodes_a_way_a_metric():
    slow = {(2, 4): (20, 3, 9)}
    links = node_history.ways(read(sweeps.session(sweeps.links_of(slow))))
    assert [one.words for one in links] == [
        "start-up latency",
        "bandwidth, sends",
        "bandwidth, receives",
    ]
    nodes = node_history.ways(read(sweeps.session_of_nodes(sweeps.nodes_of())))
    assert len(nodes) == 5
    assert node_history.ways(read(sweeps.session_of_congestion(sweeps.beside_traffic()))) == []


def test_the_slowest_come_first_and_before_them_who_was_not_measured():
    values = {(2, "memory"): 90.0, (5, "noise"): math.nan}
    ways = node_history.ways(read(sweeps.session_of_nodes(sweeps.nodes_of(values))))
    assert node_history.slowest(ways, 2) == [5, 2]
    assert node_history.percent(ways[2], 5) is None
    part = node_history.percent(ways[0], 2)
    assert part.low < part.value < part.high and part.value == pytest.approx(102, abs=3)
    assert str(part).startswith("+10")


def test_as_many_sweeps_are_kept_as_a_page_shows(monkeypatch):
    one = read(sweeps.session_of_nodes(sweeps.nodes_of()))
    monkeypatch.setattr(node_history, "MOST_SWEEPS", 2)
    found = node_history.Collector(["n3", "gone"])
    for number in range(4):
        found.add(str(number), one)
    assert found.full and [then.started for then in found.found] == ["0", "1"]
    assert set(found.found[0].effects["memory"]) == {"n3"}
    monkeypatch.setattr(node_history, "MOST_LINKS", 1)
    found = node_history.Collector(["n3"])
    found.add("0", one)
    assert not found.full  # the newest one always counts
    found.add("1", one)
    assert found.full and len(found.found) == 1
    assert node_history.Collector([]).full
