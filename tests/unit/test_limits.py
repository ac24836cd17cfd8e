"""Nearness to physical limits where no partition has a native link."""

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from nearmetal.compare import nearness, side_by_side
from nearmetal.expectations import judge
from nearmetal.judge import render
from nearmetal.judge.verdict import GateReport
from nearmetal.results import Case, Session, Value

UNITS = {
    "startup_latency": "us",
    "peak_bandwidth": "Gb/s",
    "triad_1": "MB/s",
    "triad_4": "MB/s",
    "efficiency_B_8": "% of ideal",
    "share_lost": "% lost",
    "hpl_of_peak": "% of peak",
}


def case(check: str, link_class="emulated", **samples) -> Case:
    values = tuple(
        Value(check, "gnu", "cc", name, sorted(of)[len(of) // 2], UNITS[name], tuple(of))
        for name, of in samples.items()
    )
    return Case(check, "cc", "gnu", values, {}, {}, None, None, link_class=link_class)


def session(*cases: Case) -> Session:
    return Session("u", "20261123T000000+0000", "ec2", tuple(cases))


WHOLE = session(
    case("pingpong %placement=internode", peak_bandwidth=[5.0, 5.2, 5.1]),
    case("pingpong %placement=intranode", peak_bandwidth=[50.0, 52.0, 51.0]),
    case("stream %binding=bound", triad_1=[1e4] * 3, triad_4=[2.5e4] * 3),
    case("npb %benchmark=ep", efficiency_B_8=[90.0] * 3),
    case("osnoise", share_lost=[2.0] * 3),
    case("hpcc %page_size=small", hpl_of_peak=[54.0] * 3),
)
CC = judge.of_extras({"link_speed_gbps": 10, "memory_gbps": 50})


def test_each_aspect_is_a_share_of_its_limit():
    found = nearness.to_limits(WHOLE, {"cc": CC})
    assert (found.base, found.places, found.remarks) == ("the limit", ("cc",), ())
    assert {aspect: shares[0].value for aspect, shares in found.rows} == pytest.approx(
        {
            "bandwidth": 0.51,
            "memory": 0.5,
            "processor": 0.54,
            "parallel efficiency": 0.9,
            "noise": 0.98,
        }
    )


def test_openmetrics_has_the_shares_that_compare_prints():
    report = GateReport(WHOLE, ())
    text = render.openmetrics([report], lambda system: {"cc": CC})
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert next(iter(families)) == "nearmetal_nearness_ratio"
    found = {
        sample.labels["aspect"]: sample.value
        for sample in families["nearmetal_nearness_ratio"].samples
        if sample.labels["base"] == nearness.LIMIT
    }
    assert found["bandwidth"] == pytest.approx(0.51) and len(found) == 5
    bounds = {
        sample.labels["bound"]: sample.value
        for sample in families["nearmetal_nearness_interval_ratio"].samples
        if sample.labels["aspect"] == "bandwidth"
    }
    assert bounds["low"] <= 0.51 <= bounds["high"]


def test_aspects_without_a_limit_are_said():
    found = nearness.to_limits(
        session(case("pingpong %placement=internode", startup_latency=[20.0, 21.0, 22.0])),
        {"cc": CC},
    )
    assert not found.rows
    [remark] = found.remarks
    assert "latency" in remark and "no limit is known" in remark


def test_a_limit_that_is_not_known_is_said():
    found = nearness.to_limits(WHOLE, {"cc": {"link_speed_gbps": "memory"}})
    assert "bandwidth" not in dict(found.rows) and "memory" not in dict(found.rows)
    assert found.remarks == (
        "bandwidth: no limit on cc: link_speed_gbps is 'memory'",
        "memory: no limit on cc: memory_gbps is not known",
    )


def test_compare_shows_it_first_only_where_no_link_is_native():
    text, _ = side_by_side.render(WHOLE, ["cc"], numbers=lambda: {"cc": CC})
    assert text.index("share of the limit left") < text.index("peak_bandwidth")
    native = session(case("osnoise", "native", share_lost=[2.0] * 3))
    assert nearness.has_native(native) and not nearness.has_native(WHOLE)
    assert "the limit" not in side_by_side.render(native, ["cc"], numbers=lambda: {"cc": CC})[0]
