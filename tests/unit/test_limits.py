"""Nearness to physical limits where no partition has a native link."""

import pytest

from nearmetal import compare, limits
from nearmetal.results import Case, Session, Value

UNITS = {
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
CC = {"link_speed_gbps": 10, "memory_gbps": 50}


def test_each_aspect_is_a_share_of_its_limit():
    found = limits.nearness(WHOLE, {"cc": CC})
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


def test_a_limit_that_is_not_known_is_said():
    found = limits.nearness(WHOLE, {"cc": {"link_speed_gbps": "memory"}})
    assert "bandwidth" not in dict(found.rows) and "memory" not in dict(found.rows)
    assert found.remarks == (
        "bandwidth: no limit on cc: link_speed_gbps is 'memory'",
        "memory: no limit on cc: memory_gbps is not known",
    )


def test_compare_shows_it_first_only_where_no_link_is_native():
    text, _ = compare.render(WHOLE, ["cc"], numbers=lambda: {"cc": CC})
    assert text.index("share of the limit left") < text.index("peak_bandwidth")
    native = session(case("osnoise", "native", share_lost=[2.0] * 3))
    assert limits.has_native(native) and not limits.has_native(WHOLE)
    assert "the limit" not in compare.render(native, ["cc"], numbers=lambda: {"cc": CC})[0]
