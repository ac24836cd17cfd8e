"""Published ratios beside the ratios of a session."""

import re
from dataclasses import replace

import pytest

from nearmetal.compare import published, published_ratios
from nearmetal.report import page
from nearmetal.results import Case, Session, Value

FIGURES = [
    figure
    for figure in published.load()
    if figure.relative_to is not None and figure.variable not in published.BENDS
]


def case(check: str, partition: str, environ="openmpi", unit="Mop/s", workload=None, **values):
    found = tuple(
        Value(check, environ, partition, name, value, unit, (value,) * 3)
        for name, value in values.items()
    )
    return Case(
        check,
        partition,
        environ,
        found,
        {},
        {},
        None,
        None,
        link_class=partition,
        workload=workload or {},
    )


def session(*cases: Case) -> Session:
    return Session("u", "20261123T000000+0000", "here", tuple(cases))


def here(figures, *cases) -> dict[str, list[float]]:
    """Own ratios by the figure's variable and what it is relative to."""
    return {
        f"{one.figure.variable} to {one.figure.relative_to}": [own.value for own in one.here]
        for one in published_ratios.beside(session(*cases), figures)
    }


def of(check: str, **wanted):
    return [
        one
        for one in FIGURES
        if one.check == check and all(getattr(one, key) == value for key, value in wanted.items())
    ]


def test_every_ratio_of_a_measured_check_is_shown():
    """58 of them, as many as the documents give."""
    checks = {figure.check for figure in FIGURES}
    cases = [case(check, "native", mops_B_1=1.0) for check in checks]
    assert len(FIGURES) == 58
    assert len(published_ratios.beside(session(*cases), FIGURES)) == 58
    assert published_ratios.beside(page.NOTHING, FIGURES) == []


@pytest.mark.parametrize(
    "unit, values, time", [("Mop/s", (100, 80), 1.25), ("s", (100, 125), 1.25)]
)
def test_an_overhead_is_of_times_whatever_the_unit(unit, values, time):
    native, guest = (
        case("npb %benchmark=is", partition, unit=unit, workload={"processes": 4}, mops_C_4=value)
        for partition, value in zip(("native", "passthrough"), values)
    )
    [figure] = of("npb", variable="overhead", value=7)
    assert here([figure], native, guest) == {"overhead to native": [pytest.approx(25.0)]}
    other = case("npb %benchmark=is", "passthrough", unit=unit, mops_C_8=1.0)
    assert here([figure], native, other) == {"overhead to native": []}


def test_a_latencys_overhead_is_a_difference():
    check = "pingpong %placement=internode"
    figure = of("pingpong", variable="startup_latency_overhead", value=11)[0]
    native, guest = (
        case(check, partition, unit="us", startup_latency=value)
        for partition, value in (("native", 20.0), ("passthrough", 33.0))
    )
    assert here([figure], native, guest) == {"startup_latency_overhead to native": [13.0]}
    assert here([figure], native) == {"startup_latency_overhead to native": []}


@pytest.mark.parametrize(
    "benchmark, base, processes, ratios",
    [
        ("ft", "ec2:cc@2", 128, {"128 processes of ec2 emulated": [2.0, 2.0]}),
        ("is", "ec2:cc@2", 16, {"ec2 emulated": [2.0]}),
        ("ft", "cag:cc@2", 128, {}),  # one system
        ("ft", "ec2:cc@2", 64, {}),
    ],
)
def test_two_systems_are_compared_at_the_published_processes(benchmark, base, processes, ratios):
    """Two native nodes against sixteen of EC2: FT's own figure, and that of any kernel."""
    check = f"npb %benchmark={benchmark}"
    cloud = replace(case(check, "emulated", **{f"mops_B_{processes}": 200.0}), partition=base)
    cases = [cloud]
    for partition in ("native", "passthrough"):
        own = case(check, partition, mops_B_16=400.0)
        cases.append(replace(own, partition=f"cag:{partition}@1"))
    text = published_ratios.across(session(*cases), FIGURES)
    found = {}
    for line in text.splitlines()[2:]:
        relative, _, own = re.split(r" {2,}", line.split(" to ", 1)[1])[:3]
        found.setdefault(relative, []).append(float(own))
    assert found == ratios


def test_a_latency_is_so_many_times_better_on_another_system():
    check = "pingpong %placement=intranode"
    slow = replace(case(check, "native", unit="us", startup_latency=1.0), partition="cag:native@1")
    fast = replace(case(check, "emulated", unit="us", startup_latency=0.4), partition="ec2:cc@2")
    text = published_ratios.across(session(slow, fast), FIGURES)
    assert re.search("startup_latency_speedup of ec2 cc to cag native +2 +2.5 ", text)


def test_the_share_of_remote_memory_stands_beside_half():
    own = case("stream_numa", "native", "gnu", "% of ideal", remote_share=61.0)
    assert here(of("stream_numa"), own) == {"remote_share to local memory": [61.0]}


def test_large_pages_are_compared_with_small_ones():
    [figure] = of("hpcc", relative_to="small pages")
    workload = {"processes": 4, "megabytes": 12800}
    small, large = (
        case(f"hpcc %page_size={size}", "native", unit="Gflop/s", workload=workload, hpl=value)
        for size, value in (("small", 40.0), ("large", 41.0))
    )
    assert here([figure], small, large) == {"hpl_gain to small pages": [pytest.approx(2.5)]}


def test_guests_without_ept_are_compared_with_those_that_have_it():
    figures = of("hpcc", relative_to="EPT on", variable="hpl_gain")
    workload = {"processes": 4, "megabytes": 12800}
    on, off = (
        replace(
            case("hpcc %page_size=large", place, unit="Gflop/s", workload=workload, hpl=value),
            facts={"nested_paging": paging},
        )
        for place, paging, value in (("vm", "ept", 40.0), ("vm-shadow", "shadow", 41.0))
    )
    assert here(figures, on, off) == {"hpl_gain to EPT on": [pytest.approx(2.5)]}
    assert here(figures, on, replace(off, facts={})) == {"hpl_gain to EPT on": []}


def test_hpl_stands_beside_the_top500():
    figures = of("hpcc", relative_to="theoretical peak")
    own = case("hpcc %page_size=small", "native", unit="% of peak", hpl_of_peak=51.0)
    assert here(figures, own) == {"hpl_of_peak to theoretical peak": [51.0]}


def test_speed_up_is_between_numbers_of_processes():
    [figure] = of("namd", variable="speedup", value=1.9)
    own = case("namd", "vm", unit="s/step", step_stmv_4=2.0, step_stmv_8=1.25)
    assert here([figure], own) == {"speedup to 4 processes": [pytest.approx(1.6)]}


def test_rows_name_the_figure_its_source_and_the_place():
    native, guest = (
        case("tcp", partition, "gnu", "us", startup_latency=value)
        for partition, value in (("native", 20.0), ("passthrough", 33.0))
    )
    html = page.render([session(native, guest)], None, [], of("tcp", unit="us"))
    [row] = re.findall("Published ratios beside.*?<tbody>(.*?)</tbody>", html, re.DOTALL)
    _, what, figure, source, here = re.split("<td[^>]*>", row)
    assert figure == "11 us" and "cag:passthrough, relative to native" in what
    assert here.strip() == "13 us startup_latency on passthrough with gnu"
    assert "Evaluation of Messaging Middle" in source


def test_the_ratio_of_times_is_shown_once_and_by_the_binding():
    """Slide 11: KVM with bound threads takes 1.01 times native's time. Mop/s say the same."""
    cases = [
        Case(
            f"npb_mz %benchmark=bt-mz %threads_are={kind}",
            place,
            "openmpi",
            tuple(
                Value("npb_mz", "openmpi", place, name, value, unit, (value,) * 3)
                for name, value, unit in (
                    ("elapsed_C_1x8", seconds, "s"),
                    ("mops_C_1x8", 1000 / seconds, "Mop/s"),
                )
            ),
            {},
            {},
            None,
            None,
            workload={"processes": 1, "nodes": 1, "processes_per_node": 1},
            link_class=place,
        )
        for place, kind, seconds in (
            ("native", "bound", 100.0),
            ("native", "unbound", 100.0),
            ("passthrough", "bound", 103.0),
            ("passthrough", "unbound", 120.0),
        )
    ]
    found = {
        one.figure.quote: [(here.variable, round(here.value, 3)) for here in one.here]
        for one in published_ratios.beside(Session("0", "", "lab", tuple(cases)), FIGURES)
        if one.figure.variable == "elapsed_ratio"
    }
    assert found["139.32 (1.01)"] == [("elapsed_C_1x8", 1.03)]
    assert found["141.69 (1.03)"] == [("elapsed_C_1x8", 1.2)]
