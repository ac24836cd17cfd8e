"""Shares of bare metal: one direction, intervals, and variables that cannot be counted."""

import random

import pytest

from nearmetal import results
from nearmetal.compare import nearness
from nearmetal.compare.index import Index
from nearmetal.stats import bootstrap
from nearmetal.stats import nearness as stats_nearness
from nearmetal.stats.nearness import Pair, shares
from tests.support.recorded import session


def pair(base, other, lower=True, aspect="bandwidth", name="v"):
    return Pair(aspect, name, tuple(base), tuple(other), lower)


@pytest.mark.parametrize("lower, other", [(True, (4.0, 4.0)), (False, (1.0, 1.0))])
def test_less_is_worse_whatever_the_unit(lower, other):
    [share], remarks = shares([pair((2.0, 2.0), other, lower)])
    assert (share.value, share.interval, remarks) == (0.5, (0.5, 0.5), []) and share.differs


def test_a_share_is_the_geometric_mean_of_its_variables():
    [share], _ = shares([pair((1, 1), (2, 2)), pair((1, 1), (8, 8))])
    assert share.value == pytest.approx(0.25) and share.variables == 2


def test_the_interval_is_the_same_each_time_and_holds_the_share():
    pairs = [pair((1.0, 1.1, 0.9, 1.05), (1.0, 1.2, 0.95, 1.02))]
    [first], [again] = shares(pairs)[0], shares(pairs)[0]
    assert first == again and not first.differs
    assert first.interval[0] <= first.value <= first.interval[1]


@pytest.mark.parametrize(
    "wrong, reason",
    [
        (pair((0.0, 1.0), (1.0, 1.0)), "a value on the base is not positive"),
        (pair((1.0,), (float("nan"),)), "a value on the partition is not positive"),
        (pair((), (1.0, 1.0)), "no value on the base"),
        (pair((1.0,), ()), "no value on the partition"),
        (pair((1.0,), (1.0,), None), "its unit does not say what is better"),
    ],
)
def test_a_variable_that_cannot_be_counted_is_reported(wrong, reason):
    found, [remark] = shares([wrong])
    assert (found, remark.reason, remark.counted) == ([], reason, False)


def test_a_single_repeat_counts_without_an_interval_where_there_is_no_other():
    [share], [remark] = shares([pair((1.0,), (2.0, 2.0))])
    assert (share.value, share.interval, remark.counted) == (pytest.approx(0.5), None, True)
    assert nearness.cell(share) == "0.500 ?" and not share.differs


def test_a_single_repeat_does_not_hide_the_interval_of_its_aspect():
    [share], [remark] = shares([pair((1.0,), (4.0,)), pair((1, 1), (2, 2))])
    assert (share.value, share.interval) == (pytest.approx(0.5), (0.5, 0.5))
    assert (remark.reason, remark.counted) == ("one repeat: its spread is unknown", False)


@pytest.mark.parametrize(
    "check, variable, aspect",
    [
        ("pingpong %placement=internode", "startup_latency", "start-up latency"),
        ("pingpong %placement=internode", "peak_bandwidth", "bandwidth"),
        ("pingpong %placement=intranode", "startup_latency", "memory"),
        ("npb %benchmark=ep", "mops_B_8", "processor"),
        ("npb %benchmark=cg", "efficiency_B_8", "parallel efficiency"),
        ("hpcc", "hpl_of_dgemm", nearness.LEFT_OUT),
        ("new", "speed", nearness.UNKNOWN),
    ],
)
def test_data_give_the_aspect(check, variable, aspect):
    assert nearness.aspect(check, variable) == aspect


def test_a_recorded_session_has_shares_and_each_way_is_the_inverse():
    lab = results.parse_session(session("session_lab"), "here")
    values = Index(lab.values).places
    there, _ = nearness.between(values["native"], values["emulated"])
    back, _ = nearness.between(values["emulated"], values["native"])
    assert {share.aspect for share in there} == {"start-up latency", "bandwidth"}
    assert [share.value * other.value for share, other in zip(there, back)] == [
        pytest.approx(1)
    ] * 2
    text = nearness.render(nearness.to_base(lab, ["native", "passthrough", "emulated"]))
    assert (
        text.startswith("share of native left")
        and nearness.render(nearness.to_base(lab, ["native"])) == ""
    )


@pytest.mark.parametrize("sizes", [((5, 5),), ((7, 6), (2, 3)), ((300, 4), (5, 20), (6, 7))])
def test_numpy_draws_what_python_draws(sizes):
    draw = random.Random(1)
    pairs = [
        Pair(
            "a", "x", *(tuple(draw.uniform(1, 2) for _ in range(n)) for n in both), bool(number % 2)
        )
        for number, both in enumerate(sizes)
    ]
    assert bootstrap.drawn(pairs) == pytest.approx(stats_nearness.drawn(pairs), abs=1e-12)
