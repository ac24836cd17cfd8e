"""The report in Chromium, as its readers have it: on a desktop, a phone, in the dark, on paper,
without a mouse."""

import gc
import operator
import shutil
import sqlite3
import time

import orjson
import pytest
from playwright.sync_api import sync_playwright

from nearmetal import results
from nearmetal.compare import published
from nearmetal.fleet import findings
from nearmetal.fleet.render import Swept
from nearmetal.model.round_robin import pairs
from nearmetal.report import page as report
from tests.support import made_up_campaign as made_up
from tests.support import sweeps
from tests.support.command import run  # noqa: F401 (a fixture)
from tests.support.large_database import large
from tests.support.made_up_campaign import HOSTILE
from tests.support.recorded import store

TABS = ["overview", "network", "kernels", "memory", "history", "provenance"]
PHONE = {"width": 375, "height": 740}

#: Text that has less contrast to what lies behind it than WCAG 2.1 AA asks for (1.4.3): 4.5, or 3
#: where it is large.
POOR_CONTRAST = """() => {
  const numbers = colour => colour.match(/[\\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => [r, g, b].map(c => c / 255).map(c => c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], 0);
  const behind = element => {
    for (let e = element; e; e = e.parentElement) {
      const colour = numbers(getComputedStyle(e).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const element of document.querySelectorAll('body *')) {
    const text = [...element.childNodes].filter(n => n.nodeType === 3).map(n => n.textContent.trim()).join('');
    if (!text || !element.checkVisibility() || element.closest('script, svg')) continue;
    const style = getComputedStyle(element), size = parseFloat(style.fontSize);
    const [a, b] = [luminance(numbers(style.color)), luminance(behind(element))].sort((x, y) => y - x);
    const wanted = size >= 24 || size >= 18.66 && style.fontWeight >= 700 ? 3 : 4.5;
    if ((a + .05) / (b + .05) < wanted) poor.push(`${text.slice(0, 40)} (${((a + .05) / (b + .05)).toFixed(2)})`);
  }
  return poor;
}"""  # noqa: E501


@pytest.fixture(scope="session")
def chromium():
    path = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    if path is None:
        pytest.fail(
            "these tests need Chromium in PATH: `make test` installs it on Debian and Ubuntu, "
            "or `apt-get install --no-install-recommends chromium`"
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("report")


@pytest.fixture(scope="session")
def page_file(directory):
    sessions = made_up.sessions()
    path = directory / "report.html"
    judged, moved = made_up.judged(sessions[-1]), made_up.moved(sessions)
    path.write_text(report.render(sessions, judged, moved, published.load()))
    return path


@pytest.fixture
def view(chromium, page_file):
    """Opens a report: view(path=..., **how). At the end: nothing on the console, and nothing was
    asked of the network."""
    contexts, complaints, asked = [], [], []

    def open_page(path=page_file, hash="", script="", **how):
        context = chromium.new_context(**how)
        contexts.append(context)
        page = context.new_page()
        if script:
            page.add_init_script(script)
        page.on(
            "console",
            lambda message: (
                complaints.append(message.text) if message.type in ("error", "warning") else None
            ),
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"file://{path}{hash}")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
    assert [
        url
        for url in asked
        if not (url.startswith("file:///") and url.split("#")[0].endswith(".html"))
    ] == []


def drawn(page, name: str) -> None:
    """Waits until each plot of the page is drawn."""
    page.wait_for_function(
        "name => [...document.querySelectorAll(`#${name} .plot`)].every(p => "
        'p.querySelector(".main-svg"))',
        arg=name,
        timeout=120_000,  # of a busy machine
    )


def visible(page) -> list[str]:
    return [name for name in TABS if page.locator(f"#{name}").is_visible()]


def poor_contrast(page) -> list[str]:
    """Text of too little contrast, in the light and in the dark."""
    found = []
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (ground == "rgb(19, 22, 26)") == (scheme == "dark")
        found += page.evaluate(POOR_CONTRAST)
    return found


def test_each_tab_opens_by_click_draws_its_plots_and_has_enough_contrast(view):
    page = view()
    assert visible(page) == ["overview"]
    assert page.locator("h1").inner_text() == "✕ Regressed"
    for name in TABS:
        page.click(f"#tab-{name}")
        assert visible(page) == [name] and page.url.endswith(f"#{name}")
        drawn(page, name)
        assert page.locator(f"#tab-{name}").get_attribute("aria-selected") == "true"
        assert poor_contrast(page) == []
    page.go_back()
    assert visible(page) == ["history"]


def test_each_tab_opens_by_keyboard_and_by_address(view):
    page = view(hash="#memory")
    assert visible(page) == ["memory"]
    page.focus("#tab-memory")
    for key, name in (
        ("ArrowRight", "history"),
        ("End", "provenance"),
        ("ArrowRight", "overview"),
        ("ArrowLeft", "provenance"),
        ("Home", "overview"),
    ):
        page.keyboard.press(key)
        assert (
            visible(page) == [name] and page.evaluate("document.activeElement.id") == f"tab-{name}"
        )
    page.evaluate('location.hash = "network"')
    page.wait_for_function('document.querySelector("#network").classList.contains("open")')


def lines(page, plot: str) -> int:
    return page.evaluate(
        'id => document.getElementById(id).data.filter(t => t.mode === "lines+markers").length',
        plot,
    )


def test_partitions_stacks_and_published_figures_can_be_switched_off(view):
    page = view(hash="#network")
    drawn(page, "network")
    assert lines(page, "plot-latency-internode") == 9
    page.get_by_role("button", name="emulated").click()
    assert lines(page, "plot-latency-internode") == 6
    page.get_by_role("button", name="mpich").focus()
    page.keyboard.press("Space")
    assert (
        lines(page, "plot-latency-internode") == 4 and lines(page, "plot-bandwidth-intranode") == 2
    )
    traces = page.evaluate('document.getElementById("plot-latency-internode").data.length')
    page.get_by_role("button", name="published figures").click()
    assert (
        page.evaluate('document.getElementById("plot-latency-internode").data.length') == traces - 2
    )
    page.get_by_role("button", name="emulated").click()
    assert lines(page, "plot-latency-internode") == 6
    assert page.get_by_role("button", name="mpich").get_attribute("aria-pressed") == "false"


def test_the_plots_of_every_check_are_drawn_with_their_published_bends(view, directory):
    path = directory / "every.html"
    path.write_text(report.render([made_up.of_every_check()], None, [], published.load()))
    page = view(path)
    counts = {"network": 27, "kernels": 9, "memory": 16}
    for name, count in counts.items():
        page.click(f"#tab-{name}")
        drawn(page, name)
        assert page.locator(f"#{name} .plot .main-svg:first-child").count() == count
    texts = page.locator(
        "#plot-stream_numa-stream-triad-by-numa-node .xtick text"
    ).all_text_contents()
    assert texts == ["one node alone", "all nodes, local", "one node, remote"]
    page.click("#tab-network")
    bend = page.locator("#plot-latency-internode .annotation-text")
    assert [one.text_content() for one in bend.all()] == ["blip at 128 B"]
    page.get_by_role("button", name="published figures").click()
    assert bend.count() == 0


def swept(data: dict) -> tuple[results.Session, dict]:
    """A session with a sweep, and what the page takes of it."""
    one = results.parse_session(data, "made up")
    [(case, read)] = [(case, read) for case in one.cases if (read := findings.read(case))]
    return one, {one.uuid: [Swept(case, read, findings.of(read, findings.error_of([read])))]}


@pytest.mark.parametrize("count, shown", [(6, 6), (200, 128)])
def test_the_links_of_a_fleet_are_a_heat_map_with_slow_nodes_first(view, directory, count, shown):
    slow = {pair: (40, 4.5, 4.5) for pair in pairs(count, count - 1) if 2 in pair}
    odd = {"n3": {"mtu": [HOSTILE, "eth0: 9000", count - 1]}}
    one, fleet = swept(sweeps.session(sweeps.links_of(slow, count, odd=odd), 30))
    path = directory / f"fleet-{count}.html"
    path.write_text(report.render([one], None, [], published.load(), fleet=fleet))
    page = view(path, hash="#fleet")
    drawn(page, "fleet")
    assert page.locator("#fleet .plot .main-svg:first-child").count() == 2
    maps = page.evaluate(
        '[...document.querySelectorAll("#fleet .plot")].map(p => [p.data[0].x, p.data[0].z])'
    )
    for sides, times in maps:
        assert len(sides) == len(times) == shown and sides[0].startswith("n3")
    assert "node n3" in page.locator("#fleet table").first.inner_text()
    assert page.locator("#fleet table").last.locator("tbody th").first.inner_text() == "n3"
    assert (
        f"{count - 1} of {count} nodes have mtu eth0: 9000" in page.locator("#fleet").inner_text()
    )
    assert poor_contrast(page) == []


def test_the_nodes_of_a_fleet_are_a_table_with_the_slow_one_first(view, directory):
    values = sweeps.nodes_of({(2, "memory"): 90.0, (2, "noise"): 30.0})
    one, fleet = swept(sweeps.session_of_nodes(values, 30))
    path = directory / "fleet-nodes.html"
    path.write_text(report.render([one], None, [], published.load(), fleet=fleet))
    page = view(path, hash="#fleet")
    tables = page.locator("#fleet table")
    assert page.locator("#fleet .plot").count() == 0 and tables.count() == 2
    assert "more time (memory)" in tables.first.inner_text()
    heads = tables.last.locator("thead th").all_inner_texts()
    assert heads[1:] == ["memory", "processor", "noise", "memory latency", "shared memory"]
    first = tables.last.locator("tbody tr").first
    assert first.locator("th").inner_text() == "n3" and "+102" in first.inner_text()
    assert page.evaluate(POOR_CONTRAST) == []
    page = view(path, hash="#fleet", viewport=PHONE, is_mobile=True, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]


def test_the_history_of_a_node_over_the_sweeps_is_chosen_by_its_name(view, directory, run):
    """n3 is slow from the second of three sweeps on; n5 was not measured in the first."""
    few = sweeps.nodes_of(count=8)
    few["nodes"][4] = "n9"
    slow = {(2, "memory"): 90.0}
    stored = [few, sweeps.nodes_of(slow), sweeps.nodes_of(slow)]
    data = [sweeps.session_of_nodes(one, 28 + number) for number, one in enumerate(stored)]
    path = directory / "past.html"
    database = store(directory / "past.db", *data)
    code, _, errors = run("report", "--database", database, "--output", path)
    assert code == 0, errors
    page = view(path, hash="#fleet")
    drawn(page, "fleet")
    figure = page.locator("#fleet figure")
    assert "History of a node" in figure.inner_text() and "in 3 sweeps" in figure.inner_text()
    lines = """() => document.querySelector('#fleet .plot').data.map(d => [d.name, d.y])"""
    [(name, values), *others] = page.evaluate(lines)
    assert name == "memory" and len(others) == 4
    assert abs(values[0]) < 2 and min(values[1:]) > 90
    figure.locator("select").select_option("n5")
    [(_, values), *_] = page.evaluate(lines)
    assert values[0] is None and max(map(abs, values[1:])) < 2
    assert page.evaluate(POOR_CONTRAST) == []
    page = view(path, hash="#fleet", viewport=PHONE, is_mobile=True, has_touch=True)
    drawn(page, "fleet")
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]


def test_ratios_of_nodes_beside_traffic_are_a_table(view, directory):
    one, fleet = swept(sweeps.session_of_congestion(sweeps.beside_traffic(), 30))
    path = directory / "fleet-traffic.html"
    path.write_text(report.render([one], None, [], published.load(), fleet=fleet))
    page = view(path, hash="#fleet")
    table = page.locator("#fleet table")
    assert page.locator("#fleet .plot").count() == 0 and table.count() == 1
    heads = table.locator("thead th").all_inner_texts()
    assert heads[0] == "2 nodes beside incast traffic of 6"
    assert heads[1:] == ["Alone", "Median", "Mean", "99 %", "Worst", "Worst node"]
    cells = table.locator("tbody tr").first.locator("td").all_inner_texts()
    assert cells == ["1.9 us", "1.4 x", "1.7 x", "2.1 x", "6.3 x", "n6, 1.6 x"]
    assert "too few samples" in table.locator("tbody tr").last.inner_text()
    assert page.evaluate(POOR_CONTRAST) == []
    page = view(path, hash="#fleet", viewport=PHONE, is_mobile=True, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]


def test_the_page_of_a_fleet_fits_a_phone(view, directory):
    one, fleet = swept(sweeps.session(sweeps.links_of(count=16), 30))
    path = directory / "fleet-phone.html"
    path.write_text(report.render([one], None, [], published.load(), fleet=fleet))
    page = view(path, hash="#fleet", viewport=PHONE, is_mobile=True, has_touch=True)
    drawn(page, "fleet")
    assert "No node or link is slower" in page.locator("#fleet").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]


def test_the_history_is_chosen_by_filters_and_by_links_from_the_verdict(view):
    page = view()
    page.click("#overview .judged a >> nth=0")
    drawn(page, "history")
    values = {
        name: page.locator(f"#choose select[name={name}]").input_value()
        for name in ("check", "environment", "variable", "partition")
    }
    assert values == {
        "check": "pingpong %placement=internode",
        "environment": "mpich",
        "variable": "startup_latency",
        "partition": "emulated",
    }
    hovers = page.evaluate(
        'document.getElementById("plot-history").data.flatMap(t => t.text || [])'
    )
    assert any("the level moved" in text and "6.19.0-made-up" in text for text in hovers)
    assert any(
        "95 % of the median" in text and "n = 7 repeats" in text and "session 2026-12-14" in text
        for text in hovers
    )
    page.select_option("#choose select[name=check]", "tcp")
    page.select_option("#choose select[name=variable]", "peak_bandwidth")
    page.select_option("#choose select[name=partition]", "all partitions")
    assert lines(page, "plot-history") == 3
    assert (
        page.locator("#series tbody tr:visible").count() == 12
    )  # four variables on three partitions
    page.focus("#choose select[name=partition]")
    page.keyboard.press("ArrowDown")
    assert (
        lines(page, "plot-history") == 1 and page.locator("#series tbody tr:visible").count() == 4
    )


def test_hovering_or_focusing_a_cell_tells_interval_launches_and_session(view):
    page = view()
    cell = page.locator(".heat td").nth(1)
    for reach in (cell.hover, cell.focus):
        page.mouse.move(0, 0)
        reach()
        told = page.locator("#tip").inner_text()
        assert (
            "95 % interval of the median" in told
            and "n = 7 repeats" in told
            and "session 00000017" in told
        )
    page.keyboard.press("Escape")
    assert not page.locator("#tip").is_visible()


def test_hovering_a_point_tells_value_interval_launches_and_session(view):
    page = view(hash="#memory")
    drawn(page, "memory")
    page.locator("#plot-stream-stream-triad .points .point").last.hover(force=True)
    told = page.locator("#plot-stream-stream-triad .hoverlayer").text_content()
    assert "MB/s" in told and "n = 7 repeats" in told and "session 00000017" in told


def test_a_phone_needs_no_sideways_scroll(view):
    page = view(viewport=PHONE, is_mobile=True, has_touch=True)
    for name in TABS:
        page.tap(f"#tab-{name}")
        drawn(page, name)
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"], name
        assert all(
            box.bounding_box()["width"] <= PHONE["width"]
            for box in page.locator(f"#{name} .plot").all()
        )


def test_on_paper_every_page_is_there_with_its_plots(view):
    page = view(color_scheme="dark")
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 690, "height": 1000})
    for name in TABS:
        drawn(page, name)
    assert visible(page) == TABS and not page.locator("nav").is_visible()
    assert (
        page.evaluate(
            'getComputedStyle(document.documentElement).getPropertyValue("--text")'
        ).strip()
        == "#1b1f24"
    )
    assert page.get_by_role(
        "button", name="passthrough"
    ).first.is_visible()  # the switches are the legend
    assert max(box.bounding_box()["width"] for box in page.locator(".plot .main-svg").all()) <= 680
    wide = """[...document.querySelectorAll('body *')].filter(e => e.checkVisibility({contentVisibilityAuto: true}) &&
        !e.closest('details') && e.getBoundingClientRect().right > 691).map(e => e.outerHTML.slice(0, 60))"""  # noqa: E501
    assert page.evaluate(wide) == []
    assert page.pdf(format="A4")[:5] == b"%PDF-"


def test_without_script_all_pages_and_tables_are_there(view):
    page = view(java_script_enabled=False)
    assert visible(page) == TABS
    assert page.locator("#network details.of-plot table").first.is_visible()


def test_where_the_browser_cannot_inflate_the_tables_stand(view):
    page = view(hash="#network", script="delete window.DecompressionStream")
    page.wait_for_selector(".plot.failed")
    assert "tables hold the same" in page.locator("#network .plot").first.inner_text()
    assert page.locator("#network details.of-plot table").first.is_visible()


def test_hostile_names_run_nothing(view, directory):
    sessions = made_up.sessions(2)
    data = results.Value(
        f"pingpong {HOSTILE}", HOSTILE, HOSTILE, HOSTILE, 2.0, "us", (1.0, 2.0, 3.0)
    )
    case = results.Case(
        data.check,
        data.partition,
        data.environ,
        (data,),
        {HOSTILE: HOSTILE},
        {"half_round_trip_us": {1: (1.0, 2.0), 1024: (2.0, 3.0)}},
        None,
        None,
    )
    hostile = results.Session(HOSTILE, HOSTILE, HOSTILE, (case,))
    path = directory / "hostile.html"
    path.write_text(report.render([*sessions, hostile], None, [], published.load()))
    page = view(path)
    page.on("dialog", lambda dialog: pytest.fail("a script of the session ran"))
    for name in TABS:
        page.click(f"#tab-{name}")
        drawn(page, name)
    page.click("#tab-history")
    page.select_option("#choose select[name=check]", data.check)
    assert page.locator("img").count() == 0 and lines(page, "plot-history") == 1


def opened_and_drawn(view, path) -> tuple[float, float]:
    """Milliseconds until the page is open, and until its history is drawn: the best of three."""
    opened, shown = [], []
    for _ in range(3):
        page = view(path, hash="#history")
        drawn(page, "history")
        shown.append(page.evaluate("performance.now()"))
        opened.append(page.evaluate('performance.getEntriesByType("navigation")[0].loadEventEnd'))
        page.context.close()
    return min(opened), min(shown)


@pytest.mark.whole
def test_100_000_stored_results_open_nearly_as_soon_as_a_few(view, directory):
    database = directory / "large.db"
    large(database, values=300_000, launches=3)
    path = directory / "large.html"
    assert sum(len(session.values) for session in results.sessions(database)) >= 100_000
    took, decoded = [], []
    for _ in range(3):
        gc.disable()  # as the command does
        start = time.process_time()
        with sqlite3.connect(database) as connection:
            for (blob,) in connection.execute("SELECT json_blob FROM sessions"):
                orjson.loads(blob)
        decoded.append(time.process_time() - start)
        path.write_text(report.render(results.sessions(database), None, [], published.load()))
        took.append(time.process_time() - start - decoded[-1])
        gc.enable()
    assert path.stat().st_size < 3e6
    page = view(path, hash="#history")
    drawn(page, "history")
    assert "too many to show" in page.locator("#history .note").inner_text()
    page.context.close()
    opened, shown = opened_and_drawn(view, path)
    few = directory / "few.db"
    large(few, values=3_000, launches=3)
    page = report.render(results.sessions(few), None, [], published.load())
    (directory / "few.html").write_text(page)
    few_opened, few_shown = opened_and_drawn(view, directory / "few.html")
    print(
        f"{path.stat().st_size / 1e6:.2f} MB; open after {opened:.0f} ms (a hundredth of the "
        f"values: {few_opened:.0f}), history drawn after {shown:.0f} ms ({few_shown:.0f}); read "
        f"and written in {min(took):.1f} s, of which its JSON alone takes {min(decoded):.1f} s"
    )
    # Reading compares each value with its samples and each text with its declared form: ten times
    # what the JSON alone takes. That part is how fast the machine is just now.
    assert min(map(operator.truediv, took, decoded)) < 15
    # A hundred times the values, in one run. Both have a library to inflate, which takes most of
    # it.
    assert opened < 10 * few_opened and shown < 10 * few_shown
