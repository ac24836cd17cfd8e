"""The report as a file: what it says, what it refuses, and that nothing of a session becomes markup
or script."""

import html
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from nearmetal import results
from nearmetal.commands.report import save
from nearmetal.compare import published
from nearmetal.judge.history import ChangePoint
from nearmetal.judge.verdict import GateReport, Likely, Verdict
from nearmetal.report import history, network, overview, summary, variables
from nearmetal.report import page as report
from tests.support import made_up_campaign as made_up
from tests.support.made_up_campaign import HOSTILE, data
from tests.support.recorded import session as recorded
from tests.support.said import lacking


@pytest.fixture(scope="module")
def figures():
    return published.load()


@pytest.fixture(scope="module")
def campaign():
    return made_up.sessions()


@pytest.fixture(scope="module")
def page(campaign, figures):
    return report.render(campaign, made_up.judged(campaign[-1]), made_up.moved(campaign), figures)


def words(page: str) -> str:
    """What a reader sees, without markup."""
    return " ".join(
        html.unescape(re.sub(r"<(script|style)\b.*?</\1>|<[^>]*>", " ", page, flags=re.S)).split()
    )


def section(page: str, name: str) -> str:
    return words(re.search(rf'<section id="{name}".*?</section>', page, re.S)[0])


class Elements(HTMLParser):
    """The elements and attributes that a browser would see."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes = [], set()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}


def test_the_verdict_is_in_words_and_what_regressed_comes_first(page):
    seen = words(page)
    facts = ("2 of 186", "1 incomplete, 1 inconclusive, 1 improved, 1 not judged, 181 ok")
    worst = ("startup_latency", "pingpong placement=internode", "mpich", "emulated", "+12.3 %")
    title = seen[seen.index("✕ Regressed") :][:250]
    assert not lacking(title, *facts, *worst)
    order = re.findall(r'class="word ([a-z-]+)"', page)
    assert order[:6] == [
        "regressed",
        "regressed",
        "incomplete",
        "inconclusive",
        "improved",
        "not-judged",
    ]
    assert set(order[6:]) == {"ok"}
    changed = section(page, "overview")
    assert "kernel: 6.18.44-fc-v595 → 6.19.0-made-up" in changed
    assert not lacking(
        changed, "2 of the 41 cases", "not in the session", "skipped", "tcp | emulated | gnu"
    )
    assert not lacking(changed, "14 repeats", "no such variable")


def test_likely_causes_stand_before_what_changed(campaign, figures):
    causes = (
        Likely("MTU", "another MTU", ("native", "emulated"), 3.0, ("mtu: 1500 -> 576", HOSTILE)),
    )
    gate = replace(made_up.judged(campaign[-1]), causes=causes)
    page = report.render(campaign, gate, made_up.moved(campaign), figures)
    seen = section(page, "overview")
    assert not lacking(seen, "Likely causes", "another MTU", "native, emulated", "1500 → 576")
    assert seen.index("Likely causes") < seen.index("What changed") and HOSTILE not in page


def test_a_session_that_was_not_judged_says_so(figures):
    page = report.render(
        [results.parse_session(recorded("session_lab"), "here")], None, [], figures
    )
    assert not lacking(words(page), "– Not judged", "no verdict", "nearmetal gate")
    assert "No variable" in section(page, "overview")


def test_failed_cases_are_named_with_their_reason(figures):
    page = report.render(
        [results.parse_session(recorded("session_failed"), "here")], None, [], figures
    )
    assert "1 of 1 case failed." in words(page)
    assert "pingpong placement=internode native mpich" in section(
        page, "overview"
    ) and "DOWN, DRAINED" in words(page)
    assert "nothing to compare" in section(page, "overview")


def test_overhead_is_above_1_where_worse_whatever_the_unit(campaign):
    [entry] = [
        group
        for group in overview.heat_map(campaign[-1], ["native", "emulated"])
        if (group["check"], group["environ"]) == ("tcp", "gnu")
    ]
    ratios = {
        row["variable"]: (row["cells"][1]["text"], row["cells"][1]["level"])
        for row in entry["rows"]
    }
    assert (
        all(6 < float(text) < 8 and level == "worse-4" for text, level in ratios.values())
        and len(ratios) == 4
    )
    assert (
        overview.level(1.04) == "0"
        and overview.level(1 / 1.3) == "better-2"
        and overview.level(11) == "worse-5"
    )


def test_the_base_is_native_wherever_it_ran(campaign):
    session = replace(campaign[-1], cases=tuple(reversed(campaign[-1].cases)))
    assert overview.partitions(session) == ["native", "emulated", "passthrough"]


def test_curves_become_lines_with_the_published_figures_behind_them(campaign, figures):
    between, bandwidth, *_ = network.drawn(campaign[-1], figures)
    assert (between["title"], bandwidth["title"]) == (
        "Latency between nodes",
        "Bandwidth between nodes",
    )
    stacks = {(line["partition"], line["stack"]) for line in between["lines"]}
    assert stacks == {
        (p, s)
        for p in ("native", "passthrough", "emulated")
        for s in ("openmpi", "mpich", "tcp gnu")
    }
    line, rate = between["lines"][0], bandwidth["lines"][0]
    assert line["x"] == [2**e for e in range(23)] and set(line["n"]) == {7}
    assert rate["y"][-1] == pytest.approx(8 * 2**22 / line["y"][-1] / 1000, rel=1e-4)
    assert all(
        low <= y <= high
        for line in (line, rate)
        for low, y, high in zip(line["low"], line["y"], line["high"])
    )
    marks = {(mark["software"], mark["text"]) for mark in between["marks"]}
    assert ("MPICH2 1.4", "55-60 µs") in marks and ("FastMPJ 0.1 (niodev)", "140 µs") in marks


def test_without_curves_the_four_variables_stand_at_their_sizes(figures):
    session = results.parse_session(recorded("session_lab"), "here")
    latency, bandwidth, *_ = network.drawn(session, [])
    assert latency["lines"][0]["x"] == [1, 1024] and bandwidth["lines"][0]["x"] == [65536, 4194304]
    assert "no curves" in section(report.render([session], None, [], figures), "network")


def test_a_page_shows_the_newest_session_that_measured_for_it_and_says_so(campaign, figures):
    newest = replace(
        campaign[-1],
        uuid="ffff0000",
        cases=tuple(c for c in campaign[-1].cases if "stream" in c.check),
    )
    page = report.render([*campaign, newest], None, [], figures)
    assert f"the newest session that did: {summary.named(campaign[-1])}" in section(page, "network")
    assert "It shows the newest" not in section(page, "memory")
    failed = results.parse_session(recorded("session_failed"), "here")
    page = report.render([*campaign, failed], None, [], figures)
    assert f"the newest session that did: {summary.named(campaign[-1])}" in section(
        page, "overview"
    )
    assert f"in session {summary.named(campaign[-1])}" in section(page, "provenance")


def test_stream_is_by_threads_and_binding_and_kernels_by_processes(campaign, figures):
    drawn = variables.drawn(campaign[-1], "memory", figures)
    [triad] = [plot for plot in drawn if plot["title"] == "STREAM Triad"]
    assert {line["stack"] for line in triad["lines"]} == {"gnu bound", "gnu unbound"}
    assert triad["lines"][0]["x"] == [1, 2, 4, 8] and {mark["x"] for mark in triad["marks"]} >= {
        1,
        2,
        4,
        8,
    }
    mops, efficiency, speedup = variables.drawn(campaign[-1], "kernels", figures)
    assert mops["title"] == "CG class S" and mops["lines"][0]["x"] == [1, 2, 4]
    assert efficiency["title"] == "CG class S: parallel efficiency" and efficiency["lines"][0][
        "x"
    ] == [2, 4]
    assert efficiency["y"]["title"] == "% of ideal"
    assert speedup["title"] == "CG class S: speed-up" and speedup["lines"][0]["x"] == [2, 4]
    shares = efficiency["lines"][0]["y"]
    assert speedup["lines"][0]["y"] == pytest.approx(
        [n * share / 100 for n, share in zip((2, 4), shares)], rel=1e-4
    )


def test_rates_of_any_program_are_drawn_and_threads_are_told(campaign, figures):
    [case, *_] = [case for case in campaign[-1].cases if case.check.startswith("npb")]
    values = [
        replace(value, variable=value.variable.replace("mops", "timesteps") + "x4")
        for value in case.values
    ]
    session = replace(
        campaign[-1],
        cases=tuple(
            replace(case, check=f"lammps %threads_are={binding}", values=tuple(values))
            for binding in ("bound", "unbound")
        ),
    )
    assert "kernels" in variables.pages(session)
    drawn = variables.drawn(session, "kernels", figures)
    assert [plot["title"] for plot in drawn] == [
        "LAMMPS class S, 4 threads a process",
        "LAMMPS class S, 4 threads a process: parallel efficiency",
        "LAMMPS class S, 4 threads a process: speed-up",
    ]
    assert [line["stack"].split()[-1] for line in drawn[0]["lines"]] == ["bound", "unbound"]


def test_rdma_has_its_lines_and_a_plot_of_its_own_for_the_round_trip_of_read(campaign, figures):
    [case, *_] = [case for case in campaign[-1].cases if case.check == "tcp"]
    curve = {1024: (1.0, 1.1), 65536: (2.0, 2.1)}
    cases = [
        replace(
            case,
            check=f"rdma %operation={operation}",
            curves={latency: curve, "bandwidth_gbps": curve},
        )
        for operation, latency in (("write", "half_round_trip_us"), ("read", "round_trip_us"))
    ]
    drawn = network.drawn(replace(campaign[-1], cases=tuple(cases)), [])
    assert [plot["id"] for plot in drawn][2:] == ["latency-read"]
    latency, bandwidth, read = [plot["lines"] for plot in drawn]
    assert [line["stack"] for line in latency] == ["rdma gnu write"]
    assert [line["stack"] for line in bandwidth] == ["rdma gnu write", "rdma gnu read"]
    assert [line["y"] for line in read] == [[1.05, 2.05]]
    assert drawn[2]["y"]["title"] == "round trip, µs"


def test_a_read_without_curves_is_not_among_the_half_round_trips():
    every = made_up.of_every_check()
    cases = [
        replace(case, curves={})
        for case in every.cases
        if case.check == "rdma %operation=read" and case.partition == "native"
    ]
    drawn = network.drawn(replace(every, cases=tuple(cases)), [])
    assert [plot["id"] for plot in drawn] == ["bandwidth-internode"]


#: Titles of the plots of each check.
TITLES = {
    "collectives": [
        *("Alltoall on 8 processes", "Bcast on 8 processes"),
        *("Alltoall of 8B", "Alltoall of 64KiB", "Allreduce of 8B", "Allreduce of 64KiB"),
        *("Bcast of 8B", "Bcast of 64KiB", "Barrier"),
    ],
    "multi_pair": [
        *("Rate of all pairs in one direction", "Rate of all pairs in both directions"),
        "Messages of 8 B of all pairs",
    ],
    "vswitch": [
        "Guests of one host: class S on 4 processes",
        "Guests of one host: kept of one guest, class S on 4 processes",
        "Guests of one host: step of stmv on 4 processes",
        "Guests of one host: kept of one guest, namd stmv on 4 processes",
    ],
    "namd": ["NAMD stmv", "NAMD stmv: parallel efficiency", "NAMD stmv: speed-up"],
    "launch": ["Launch until MPI_Init", "MPI_Init"],
    "stream_numa": ["STREAM copy by NUMA node", "STREAM triad by NUMA node"],
    "osnoise": ["Noise: time lost", "Noise: detours", "Noise: longest detour"],
    "fleet_links %traffic=alone": [
        "Links of a fleet: start-up latency",
        "Links of a fleet: bandwidth",
        "Links of a fleet: spread",
        "Links of a fleet: bisection",
    ],
    "fleet_congestion %traffic=incast": [
        *("Beside traffic: latency", "Beside traffic: bandwidth"),
        "Beside traffic: Allreduce",
    ],
    "fleet_nodes": [
        *("Nodes of a fleet: memory", "Nodes of a fleet: processor"),
        *("Nodes of a fleet: noise", "Nodes of a fleet: memory latency"),
        *("Nodes of a fleet: shared memory", "Nodes of a fleet: spread"),
    ],
    "storage %place=local": [
        "Storage: latency of 4 KiB",
        "Storage: rate of 4 KiB, 32 at once",
        "Storage: bandwidth of 1 MiB in sequence",
    ],
    "ior %place=scratch %api=mpiio": ["Storage: bandwidth of all processes"],
    "mdtest %place=scratch": ["Storage: files in a second"],
    "hpcg": [
        *("HPCG class A", "HPCG class A: memory bandwidth"),
        *("HPCG class A: parallel efficiency", "HPCG class A: speed-up"),
    ],
}


def test_every_check_has_its_plots(figures):
    every = made_up.of_every_check()
    session = replace(every, cases=tuple(case for case in every.cases if case.check in TITLES))
    page = report.render([session], None, [], figures)
    drawn = [plot for plot in data(page)["plots"] if plot["lines"]]
    titles = [title for of_check in TITLES.values() for title in of_check]
    assert sorted(plot["title"] for plot in drawn) == sorted(titles)
    for plot in drawn:
        places = {line["partition"] for line in plot["lines"]}
        assert places == {"native", "passthrough", "emulated"}, plot["title"]
        assert all(line["x"] and len(line["x"]) == len(line["y"]) for line in plot["lines"])
    seen = words(page)
    assert all(title in seen for title in titles)


def test_categories_and_numbers_stand_in_their_order():
    every = made_up.of_every_check()
    by_title = {
        plot["title"]: plot
        for page in ("network", "kernels", "memory")
        for plot in variables.drawn(every, page, [])
    }
    triad = by_title["STREAM triad by NUMA node"]
    assert triad["x"]["order"] == ["one node alone", "all nodes, local", "one node, remote"]
    assert triad["lines"][0]["y"] == [22000, 44000, 13000]
    assert by_title["Noise: time lost"]["lines"][0]["y"] == [0.02, 0.09]
    detours = by_title["Noise: detours"]
    assert [line["x"] for line in detours["lines"]] == [["native"], ["passthrough"], ["emulated"]]
    assert detours["x"]["order"] == ["native", "passthrough", "emulated"]
    guests = by_title["Guests of one host: class S on 4 processes"]
    assert guests["lines"][0]["x"] == [1, 2, 4] and guests["x"]["kind"] == "count"


def test_namds_steps_have_the_posts_times_beside_them(figures):
    """1748 s of table 1 are 500 steps of 3.496 s."""
    every = made_up.of_every_check()
    drawn = variables.drawn(every, "kernels", figures)
    [step] = [plot for plot in drawn if plot["title"] == "NAMD stmv"]
    marks = {(mark["x"], mark["y"]) for mark in step["marks"] if mark["place"].endswith("native")}
    assert marks == {(4, 3.496), (4, 3.522), (8, 1.83), (8, 2.04)}
    assert {mark["quote"] for mark in step["marks"]} >= {"1748"}


def test_bound_and_unbound_are_side_by_side(campaign, figures):
    page = report.render([campaign[-1]], None, [], figures)
    assert "Bound and unbound" not in section(page, "kernels")
    seen = section(page, "memory")
    [bound, unbound] = [
        next(v for v in case.values if v.variable == "triad_4").value
        for case in campaign[-1].cases
        if case.check.startswith("stream") and case.partition == "native"
    ]
    amounts = f"{bound:.0f} MB/s {unbound:.0f} MB/s {bound / unbound:#.4g}"
    assert f"triad_4 stream, gnu native {amounts}" in seen


def test_without_kernels_a_sentence_says_what_fills_the_page(figures):
    page = report.render(
        [results.parse_session(recorded("session_lab"), "here")], None, [], figures
    )
    seen = section(page, "kernels")
    assert "such as those of npb" in seen and "Published figures" in seen


@pytest.mark.parametrize(
    "launches, ends", [(1, (1, 1)), (5, (1, 5)), (6, (1, 6)), (9, (2, 8)), (20, (6, 15))]
)
def test_the_interval_holds_the_median_with_95_percent_or_is_the_range(launches, ends):
    """Ends by the table of order statistics (Conover, Practical Nonparametric Statistics, table
    A3)."""
    found = summary.summarize(tuple(range(launches, 0, -1)))
    assert (found.low, found.high) == ends
    assert ("95 %" in summary.hover(found, "us")) == (launches >= 6)


def test_the_history_marks_change_points_and_what_changed_there(page):
    found = data(page)["history"]
    [change] = found["changes"]
    assert (
        change["slot"] == 16
        and "+1" in change["text"]
        and "kernel: 6.18.44-fc-v595 -> 6.19.0-made-up" in change["text"]
    )
    assert found["slots"][16] == ["2026-12-07 06:58 UTC, 00000010", "", 1]
    series = found["series"][0]
    assert len(series["at"]) == 24 and len(series["samples"]["23"]) == 7
    provenance = section(page, "provenance")
    assert (
        "kernel 6.18.44-fc-v595 6.19.0-made-up emulated, native, passthrough 2026-12-07 06:58 "
        "UTC, 00000010" in provenance
    )


def test_the_page_says_what_a_variable_is(page):
    assert 'title="Half of the round trip of a message of 1 B."' in page


def test_many_sessions_are_grouped_and_no_extreme_is_lost():
    groups = history.group(5000, 5000 * 24, 24)
    assert [number for slots in groups for number in slots] == list(range(5000))
    assert len(groups) * 24 <= history.MOST_POINTS and all(
        len(slot) == 1 for slot in groups[-history.RECENT :]
    )
    collector, low = history.Collector(), 1.0
    for number in range(30_000):
        value = low if number == 7 else 10.0
        made = results.Value("tcp", "gnu", "native", "startup_latency", value, "us", (value,))
        case = results.Case("tcp", "native", "gnu", (made,), {}, {}, None, None)
        collector.add(results.Session(f"{number:08x}", "", "lab", (case,)))
    [series] = collector.plot([])["series"]
    assert (
        len(series["at"]) <= history.MOST_POINTS
        and min(series["low"]) == low
        and sum(series["n"][:-60]) == 30_000 - 60
    )


def test_what_a_session_holds_is_never_markup_or_script(figures):
    session = recorded("session_lab")
    [case, other, *_] = session["runs"][0]["testcases"]
    case |= {
        "display_name": f"pingpong {HOSTILE}",
        "environ": HOSTILE,
        "partition": HOSTILE,
        "kernel": HOSTILE,
        "facts": {HOSTILE: HOSTILE},
        "perfvalues": {f"lab:native:{HOSTILE}": [1.0, 0, None, None, HOSTILE, "pass"]},
        "samples": {HOSTILE: [1.0]},
    }
    other |= {"result": "fail", "fail_reason": HOSTILE, "fail_phase": HOSTILE}
    session["session_info"] |= {"uuid": HOSTILE, "time_start": HOSTILE}
    session = results.parse_session(session, "here")
    value = session.values[0]
    judged = Verdict(
        value.check,
        value.partition,
        value.environ,
        value.variable,
        value.unit,
        "incomplete",
        reason=HOSTILE,
        facts={HOSTILE: (HOSTILE, HOSTILE)},
    )
    change = ChangePoint(
        value.check,
        value.partition,
        value.environ,
        value.variable,
        value.unit,
        session.uuid,
        HOSTILE,
        1.0,
        2.0,
        1.0,
        0.1,
        {HOSTILE: (HOSTILE, HOSTILE)},
    )
    figure = replace(figures[0], document=HOSTILE, software=HOSTILE, quote=HOSTILE)
    page = report.render([session], GateReport(session, (judged,), (HOSTILE,)), [change], [figure])
    parser = Elements()
    parser.feed(page)
    assert "img" not in parser.tags and not [
        name for name in parser.attributes if name.startswith("on")
    ]
    assert parser.tags.count("script") == 3 and "{{ 7*7 }}" in words(page)
    assert HOSTILE in words(page)


def test_the_page_admits_its_own_scripts_and_no_network(page):
    policy = html.unescape(
        re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1]
    )
    assert (
        policy.startswith("default-src 'none'; script-src 'sha256-")
        and "'unsafe-inline'; img" in policy
    )
    assert not re.search(r'(src|href)="(?!#)', page.split('id="library"')[0])
    assert len(page.encode()) < 3e6


def test_writing_replaces_the_file_whole_and_says_where_it_cannot(tmp_path, campaign, figures):
    target = tmp_path / "report.html"
    save(target, report.render(iter(campaign), None, [], figures))
    first = target.read_bytes()
    save(target, report.render(campaign, None, [], figures))
    assert target.read_bytes() == first and list(tmp_path.iterdir()) == [target]
    with pytest.raises(report.ReportError, match=r"report.html: .*--output"):
        save(target / "report.html", "a page")
    with pytest.raises(report.ReportError, match="no session is stored"):
        report.render([], None, [], figures)


def test_overhead_is_drawn_against_message_size_and_is_that_of_the_medians(campaign):
    session = campaign[-1]
    drawn = {plot["id"]: plot for plot in network.drawn(session, [])}
    overhead, latency = drawn["overhead-internode"], drawn["latency-internode"]
    assert {line["partition"] for line in overhead["lines"]} == {"passthrough", "emulated"}
    by_place = {(line["partition"], line["stack"]): line for line in latency["lines"]}
    for line in overhead["lines"]:
        own, base = (by_place[place, line["stack"]] for place in (line["partition"], "native"))
        ratios = [y / base["y"][base["x"].index(x)] for x, y in zip(own["x"], own["y"])]
        assert line["y"] == pytest.approx(ratios, rel=0.01)
        assert all(low <= y <= high for low, y, high in zip(line["low"], line["y"], line["high"]))


def test_published_overheads_stand_beside_those_of_the_session(campaign, figures):
    drawn = {plot["id"]: plot for plot in network.drawn(campaign[-1], figures)}
    marks = {
        (mark["place"], mark["software"], mark["x"]): mark
        for mark in drawn["overhead-internode"]["marks"]
    }
    gain = marks["cag passthrough", "FastMPJ 0.1 (niodev)", network.SIZES["peak_bandwidth"]]
    assert gain["y"] == pytest.approx(1.1) and "10 %" in gain["quote"]
    # 7.2 to "almost 8" Gb/s on bare metal and 7.2 by passthrough.
    almost = marks["cag passthrough", "OpenMPI 1.4.3", network.SIZES["peak_bandwidth"]]
    assert (almost["low"], almost["high"]) == (1, pytest.approx(8 / 7.2, rel=0.01))
    assert "section 5.2" in almost["where"]
    assert not any(mark["y"] > 20 for mark in marks.values())


def test_a_single_partition_has_no_overhead_to_draw(campaign):
    alone = replace(
        campaign[-1], cases=tuple(c for c in campaign[-1].cases if c.partition == "native")
    )
    assert not [p for p in network.drawn(alone, []) if p["id"].startswith("overhead")]
