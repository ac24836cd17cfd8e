"""Published figures are what their documents say."""

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from nearmetal import results
from nearmetal.compare import published
from nearmetal.report import network, page, variables
from tests.support.paths import CHECKOUT

SYSTEMS = CHECKOUT / "site-config" / "systems"
FIGURES = published.load()
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?|\.\d+")
#: Numbers that a document writes as words.
WORDS = {
    "a quarter": 0.25,
    "half": 50,
    "five percent": 5,
    "two times better": 2,
    "outperform": 1,
    "3400 Mbps": 3.4,
}
#: Document -> the number of a page where it begins in the document's text.
PAGES = {
    "Evaluation of Messaging Middleware": re.compile(r"^\((\d+)\)", re.MULTILINE),
    "Toward a practical": re.compile(r"^ *\u2022 +(\d+)\. ", re.MULTILINE),
}


def numbers_in(text: str) -> set[float]:
    in_words = {number for words, number in WORDS.items() if words in text}
    return {float(found.replace(",", "")) for found in NUMBER.findall(text)} | in_words


def numbers_of(figure) -> list[float]:
    single = [number for number in (figure.value, figure.below, figure.above) if number is not None]
    return list(map(abs, figure.range or single))


def name(figure) -> str:
    return (
        f"{figure.population or figure.system}:{figure.partition} {figure.check} "
        f"{figure.variable} {figure.parameters} {figure.software} {figure.relative_to}"
    )


def test_every_figure_is_of_a_partition_that_exists():
    known = {
        (system["name"], partition["name"])
        for path in SYSTEMS.iterdir()
        for system in [yaml.safe_load(path.read_text())]
        for partition in system["partitions"]
    }
    assert not [
        name(figure)
        for figure in FIGURES
        if not figure.population and (figure.system, figure.partition) not in known
    ]


def test_every_number_stands_in_its_quotation():
    wrong = [
        name(figure)
        for figure in FIGURES
        if not figure.read_off_plot and not set(numbers_of(figure)) <= numbers_in(figure.quote)
    ]
    assert not wrong


def test_no_figure_is_given_twice():
    keys = [name(figure) + figure.where for figure in FIGURES]
    assert not {key for key in keys if keys.count(key) > 1}


with_documents = pytest.mark.skipif(
    "NEARMETAL_SEEDS" not in os.environ,
    reason=(
        "the documents are their publishers'; NEARMETAL_SEEDS=DIRECTORY names one with their text"
    ),
)


def documents() -> list[str]:
    paths = Path(os.environ["NEARMETAL_SEEDS"]).glob("*.txt")
    return [path.read_text(errors="replace") for path in paths]


def one_line(text: str) -> str:
    return " ".join(text.split())


@with_documents
def test_every_quotation_stands_in_a_document():
    texts = [one_line(text) for text in documents()]
    assert texts and not [
        name(figure)
        for figure in FIGURES
        if figure.quote and not any(one_line(figure.quote) in text for text in texts)
    ]


@with_documents
@pytest.mark.parametrize("title", PAGES)
def test_every_quotation_stands_on_its_page(title):
    [text] = [text for text in documents() if title in text]
    [_, *parts] = PAGES[title].split(text)
    pages = {int(number): one_line(page) for number, page in zip(parts[::2], parts[1::2])}
    figures = [figure for figure in FIGURES if figure.document.startswith(title)]
    wrong = []
    for figure in figures:
        [page] = re.findall(r"(?:p\.|slide) (\d+)", figure.where)
        if one_line(figure.quote) not in pages[int(page)]:
            wrong.append(name(figure))
    assert figures and not wrong


@pytest.mark.parametrize(
    "chosen, texts",
    [
        ({"system": "ec2", "variable": "scales_to", "benchmark": "cg"}, {"8"}),
        ({"system": "ec2", "variable": "top500_rank"}, {"451"}),
        ({"variable": "overhead", "benchmark": "ep"}, {"< 5"}),
        ({"variable": "latency_blip_at"}, {"128"}),
        ({"variable": "bandwidth_drop_at"}, {"0.25"}),
        ({"variable": "peak_bandwidth", "range": (5.3, 8)}, {"5.3-8"}),
        ({"variable": "peak_bandwidth", "range": (7.2, 8)}, {"7.2-8"}),
    ],
)
def test_the_figures_of_issue_20_are_there(chosen, texts):
    found = [
        figure
        for figure in FIGURES
        if all(
            figure.parameters.get(key, getattr(figure, key, None)) == one
            for key, one in chosen.items()
        )
    ]
    assert {figure.text for figure in found} == texts


@pytest.mark.parametrize(
    "check, unit, sizes",
    [
        ("rdma %operation=write", "us", [[128, 128], []]),
        ("rdma %operation=send", "us", [[128, 128], []]),
        ("rdma %operation=read", "us", [[], []]),
        ("pingpong %placement=intranode", "us", [[], [2 << 20, 3 << 20, 3 << 20]]),
        ("pingpong %placement=internode", "us", [[], []]),
        ("tcp", "us", [[], []]),
    ],
)
def test_a_published_bend_is_drawn_at_its_message_size(check, unit, sizes):
    """128 B by the InfiniBand post; a quarter of 8 and of 12 MBytes by the messaging paper."""
    session = measured(check, "startup_latency", unit)
    curves = {"half_round_trip_us": {1: (1.0,), 1 << 22: (2.0,)}}
    [case] = session.cases
    drawn = network.drawn(replace(session, cases=(replace(case, curves=curves),)), FIGURES)
    assert [[bend["x"] for bend in plot["bends"]] for plot in drawn] == sizes


@pytest.mark.parametrize(
    "figure, text",
    [
        ({"value": 915}, "915"),
        ({"range": (55, 60)}, "55-60"),
        ({"below": 1}, "< 1"),
        ({"above": 7.5}, "> 7.5"),
        ({"value": 3, "read_off_plot": {"error": 0.5}}, "3 ± 0.5"),
    ],
)
def test_a_figure_is_shown_as_the_document_gives_it(figure, text):
    common = dict.fromkeys(("check", "variable", "software", "unit", "where", "document"), "x")
    assert published.Figure(**common, **figure).text == text


ENTRY = {
    "system": "ec2",
    "partition": "cc",
    "check": "pingpong",
    "variable": "startup_latency",
    "software": "MPICH2 1.4",
    "unit": "us",
    "where": "section 5",
    "quote": "is 55 us",
    "value": 55,
}


@pytest.mark.parametrize(
    "change, message",
    [
        ({"value": None}, "figures.0"),
        ({"below": 3}, "figures.0"),
        ({"quote": None}, "figures.0"),
        ({"system": None}, "figures.0"),
        ({"population": "TOP500"}, "figures.0"),
        ({"unit": "ms"}, "figures.0.unit: .*Fix: say us"),
        ({"where": ""}, "figures.0.where"),
        ({"colour": "red"}, "figures.0"),
    ],
)
def test_a_malformed_figure_is_refused_with_its_place(tmp_path, change, message):
    entry = {key: value for key, value in {**ENTRY, **change}.items() if value is not None}
    document = {"title": "T", "authors": "A", "year": 2012}
    (tmp_path / "one.yaml").write_text(yaml.safe_dump({"document": document, "figures": [entry]}))
    with pytest.raises(published.PublishedError, match=f"one.yaml: line \\d+: {message}"):
        published.load(tmp_path)


def test_a_directory_without_figures_is_refused(tmp_path):
    with pytest.raises(published.PublishedError, match="holds no figure"):
        published.load(tmp_path)


@pytest.mark.parametrize(
    "a, b, text",
    [
        ({"range": (55, 60)}, {"value": 140}, "2.33-2.55"),
        ({"value": 3.7}, {"below": 2}, "< 0.541"),
        ({"below": 0.5}, {"value": 1}, "> 2"),
        ({"below": 0.5}, {"below": 1}, ""),
        ({"value": 2}, {"value": 4}, "2"),
    ],
)
def test_two_figures_bound_their_ratio(a, b, text):
    common = {
        "check": "pingpong",
        "variable": "v",
        "software": "s",
        "unit": "us",
        "where": "x",
        "document": "d",
    }
    assert published.ratio(published.Figure(**common, **a), published.Figure(**common, **b)) == text


def test_the_figures_of_two_environments_are_of_one_place():
    """The messaging paper's, of Open MPI against Java: EC2's start-up latency between nodes, 55-60
    against 140 us."""
    [(a, b)] = published.pairs(
        FIGURES, "pingpong", {"placement": "internode"}, "startup_latency", "openmpi", "mpj"
    )
    assert (a.text, b.text, a.partition, b.software) == (
        "55-60",
        "140",
        "cc",
        "FastMPJ 0.1 (niodev)",
    )
    assert published.pairs(FIGURES, "npb", {"benchmark": "cg"}, "mops_S_2", "openmpi", "mpj") == []


def measured(check: str, variable: str, unit: str, environ="openmpi", **numbers) -> results.Session:
    """A session of one case with one variable."""
    value = results.Value(check, environ, "native", variable, 5.0, unit, (5.0,) * 3)
    case = results.Case(check, "native", environ, (value,), {}, {}, None, None, workload=numbers)
    return results.Session("0", "", "lab", (case,))


def shown(*case, **numbers) -> set[str]:
    """The figures that are shown beside a measured value."""
    found = published.beside(measured(*case, **numbers), FIGURES)
    return {f"{figure.text} {figure.unit}" for _, _, figure in found}


@pytest.mark.parametrize(
    "case, figures",
    [
        (("npb %benchmark=mg", "mops_B_16", "Mop/s"), {"10000 Mop/s"}),
        (("npb %benchmark=mg", "mops_S_16", "Mop/s"), set()),
        (("npb %benchmark=mg", "mops_C_16", "Mop/s"), set()),
        (("npb %benchmark=mg", "mops_B_8", "Mop/s"), set()),
        (("npb %benchmark=mg", "mops_B_16x2", "Mop/s"), set()),
        (("npb %benchmark=cg", "mops_B_16", "Mop/s"), set()),
        (("npb %benchmark=mg", "efficiency_B_16", "% of ideal"), set()),
        (("npb_mz %benchmark=bt-mz", "mops_C_1x8", "Mop/s"), set()),
        (("stream %binding=bound", "triad_8", "MB/s"), {"29328 MB/s", "30449 MB/s"}),
        (("stream %binding=bound", "triad_3", "MB/s"), set()),
        (("tcp", "startup_latency", "us"), {"52 us", "28-35 us"}),
        (("tcp", "peak_bandwidth", "MB/s"), set()),
        (("pingpong %placement=intranode", "peak_bandwidth", "Gb/s"), {"60 Gb/s", "38 Gb/s"}),
        (("rdma %operation=read", "startup_latency", "us"), set()),
    ],
)
def test_a_figure_stands_beside_values_of_its_class_size_and_processes_only(case, figures):
    assert shown(*case) == figures


@pytest.mark.parametrize(
    "numbers, count",
    [
        ({"processes": 4, "megabytes": 12800}, 3),
        ({"processes": 4, "megabytes": 16}, 0),
        ({"processes": 2, "megabytes": 12800}, 0),
        ({"processes": 4}, 0),
        ({}, 0),
    ],
)
def test_hpl_is_compared_at_the_size_and_processes_of_the_document(numbers, count):
    assert len(shown("hpcc %page_size=small", "hpl", "Gflop/s", **numbers)) == count


@pytest.mark.parametrize(
    "variable, per_node, figures",
    [
        ("elapsed_C_1x8", 1, {"138.01 s", "141.69 s"}),
        ("elapsed_C_2x4", 2, {"138.01 s", "141.69 s"}),
        ("elapsed_C_8", 8, {"138.01 s", "141.69 s"}),
        ("elapsed_C_2x4", 1, set()),  # on two nodes
        ("elapsed_C_1x4", 1, set()),
        ("elapsed_B_1x8", 1, set()),
    ],
)
def test_slide_11_stands_beside_all_cores_of_one_node(variable, per_node, figures):
    """The slides tell neither processes nor threads: however these share eight cores."""
    check = "npb_mz %benchmark=bt-mz %threads_are="
    numbers = {"processes": 16, "nodes": 16, "processes_per_node": per_node}
    assert shown(check + "unbound", variable, "s", **numbers) == figures
    bound = {text.replace("141.69", "139.32") for text in figures}
    assert shown(check + "bound", variable, "s", **numbers) == bound


def test_the_plot_of_another_class_has_no_published_figure():
    for variable, marks in (("mops_S_16", []), ("mops_B_16", [16, 16])):
        session = measured("npb %benchmark=mg", variable, "Mop/s")
        [plot] = variables.drawn(session, "kernels", FIGURES)
        assert [mark["x"] for mark in plot["marks"]] == marks


def test_a_published_peak_needs_a_measured_one_of_long_messages():
    session = measured("pingpong %placement=internode", "peak_bandwidth", "Gb/s")
    [case] = session.cases
    for longest, marked in ((1 << 22, True), (1 << 16, False)):
        curve = {"half_round_trip_us": {1: (1.0,), longest: (2.0,)}}
        drawn = network.drawn(replace(session, cases=(replace(case, curves=curve),)), FIGURES)
        assert [bool(plot["marks"]) for plot in drawn] == [False, marked]


def test_nothing_measured_has_nothing_published_beside_it():
    assert network.drawn(page.NOTHING, FIGURES) == []
    for name in ("network", "memory", "kernels"):
        assert variables.drawn(page.NOTHING, name, FIGURES) == []


def test_a_duet_has_figures_of_its_class_and_processes_only():
    figures = [
        published.Figure("npb", "mops", "x", "Mop/s", "s", "d", environ=environ, value=1.0,
                         parameters={"benchmark": "cg", "class": "B", "processes": 16})
        for environ in ("openmpi", "fastmpj")
    ]  # fmt: skip
    for variable, count in (("mops_B_16", 1), ("mops_S_16", 0), ("mops_B_8", 0)):
        found = published.pairs(figures, "npb", {"benchmark": "cg"}, variable, "openmpi", "mpj")
        assert len(found) == count
