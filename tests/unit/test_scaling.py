"""How far a benchmark scales, from its rates, beside what the documents say of it."""

import re
from dataclasses import replace

import pytest

from nearmetal import results
from nearmetal.compare import published, scaling
from nearmetal.report import page

FIGURES = published.load()


def session_of(case: results.Case) -> results.Session:
    return results.Session("0", "20261126T000000+0000", "lab", (case,))


def case_of(rates: dict[str, float], per_node=8, benchmark="cg") -> results.Case:
    check = f"npb %benchmark={benchmark}"
    values = tuple(
        results.Value(check, "openmpi", "native", name, rate, "Mop/s", (rate,))
        for name, rate in rates.items()
    )
    return results.Case(
        check,
        "native",
        "openmpi",
        values,
        {},
        {},
        None,
        None,
        parameters={"benchmark": benchmark},
        workload={"processes_per_node": per_node} if per_node else {},
    )


def reach(rates: dict[str, float], **others) -> scaling.Reach:
    [found] = scaling.reaches(session_of(case_of(rates, **others)))
    return found


def test_it_scales_to_the_processes_of_the_highest_rate():
    found = reach({"mops_B_1": 10, "mops_B_8": 60, "mops_B_16": 50, "mops_B_32": 55})
    assert (found.size, found.scales_to, found.open_ended) == ("B", 8, False)
    assert found.counts == (1, 8, 16, 32) and found.nodes_to_beat_one_node is None


def test_more_processes_than_were_measured_may_gain():
    found = reach({"mops_B_8": 60, "mops_B_16": 40, "mops_B_128": 70})
    assert found.scales_to == 128 and found.open_ended
    assert found.nodes_to_beat_one_node == 16


@pytest.mark.parametrize("per_node", [None, 4])
def test_without_a_rate_of_one_node_nothing_beats_it(per_node):
    assert reach({"mops_B_8": 1, "mops_B_16": 2}, per_node=per_node).nodes_to_beat_one_node is None


def test_classes_and_threads_scale_on_their_own():
    rates = {"mops_A_1": 1, "mops_A_2": 2, "mops_B_1x4": 2, "mops_B_2x4": 1, "mops_C_1": 1}
    found = scaling.reaches(session_of(case_of(rates)))
    assert [(one.size, one.threads, one.scales_to) for one in found] == [
        ("A", "", 2),
        ("B", "4", 1),
    ]


def test_a_failed_case_and_no_session_scale_to_nothing():
    failed = replace(case_of({"mops_B_1": 1, "mops_B_2": 2}), failure="hung", phase="run")
    assert scaling.reaches(session_of(failed)) == scaling.reaches(page.NOTHING) == []


def test_the_papers_figures_stand_beside_their_class_and_benchmark_alone():
    rates = {"mops_B_8": 60, "mops_B_16": 50}
    texts = published_beside(case_of(rates))
    assert "8 processes" in texts[0] and {text.split(" ")[0] for text in texts} == {"8", "16"}
    texts = published_beside(case_of(rates, benchmark="ft"))
    assert texts == ["16 nodes to beat one: NPB (library not told), ec2 cc"]
    assert published_beside(case_of({"mops_A_8": 60, "mops_A_16": 50})) == [""]


def published_beside(case: results.Case) -> list[str]:
    """The last cell of the only row of the page's table."""
    html = page.render([session_of(case)], None, [], FIGURES)
    [rows] = re.findall("How far the kernels scale.*?<tbody>(.*?)</tbody>", html, re.DOTALL)
    return rows.rpartition("<td>")[2].strip().split("; ")


def test_the_report_has_them():
    session = session_of(case_of({"mops_B_8": 60, "mops_B_16": 50}))
    html = page.render([session], None, [], FIGURES)
    assert "How far the kernels scale" in html and "8 processes" in html
