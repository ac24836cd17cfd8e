"""Variables without a reference: no output hides how many they are, and none prints all of them."""

import json
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from nearmetal import results
from nearmetal.judge import render
from nearmetal.judge.verdict import EXPECTATION, GateReport, Verdict
from nearmetal.report import overview
from nearmetal.report import page as html
from tests.support import made_up_campaign as made_up
from tests.support.said import lacking

SESSION = results.Session("1234", "20261124T170000+0000", "lab", ())
MINORITY = "less than half of the variables are judged"
DEVIATING = "2 deviates, 3 not judged. Judged against: expectation."
WITHOUT = "no baseline, and no expectation bounds it"


def report(reference: str = EXPECTATION, **counts: int) -> GateReport:
    """A report with a number of verdicts of each name; `none`: that are not judged."""
    verdicts = []
    for name, count in counts.items():
        for number in range(count):
            verdict = Verdict(
                *("tcp", "native", "gnu", f"{name}_{number}", "us", name),
                value=1.0,
                reference=reference,
            )
            if name == "none":
                verdict = replace(verdict, name="not judged", reason=WITHOUT)
            verdicts.append(verdict)
    return GateReport(SESSION, tuple(verdicts))


@pytest.mark.parametrize(
    "counts, line, title, sentence, colour",
    [
        (
            {"ok": 138, "none": 42},
            "no deviation in 138 of 180 variables: 42 not judged, 138 ok",
            "No deviation in 138 of 180 variables",
            "42 have no reference. Judged against: expectation.",
            "ok",
        ),
        (
            {"ok": 30, "none": 150},
            f"no deviation in 30 of 180 variables; {MINORITY}: 150 not judged, 30 ok",
            "No deviation in 30 of 180 variables",
            f"150 have no reference. {MINORITY.capitalize()}. Judged against: expectation.",
            "not-judged",
        ),
        (
            {"deviates": 2, "none": 3},
            f"not what one may expect; {MINORITY}: 2 deviates, 3 not judged",
            "Deviates",
            f"{MINORITY.capitalize()}. 2 variables beyond what one may expect. {DEVIATING}",
            "regressed",
        ),
        (
            {"none": 8},
            f"not everything is known; {MINORITY}: 8 not judged",
            "Not judged",
            f"{MINORITY.capitalize()}. 8 not judged.",
            "incomplete",
        ),
        (
            {"ok": 2, "improved": 1, "xfail": 1, "none": 1},
            "no deviation in 3 of 5 variables: 1 improved, 1 xfail, 1 not judged, 2 ok",
            "No deviation in 3 of 5 variables",
            "1 has no reference. 1 improved, 1 xfail. Judged against: expectation.",
            "ok",
        ),
        (
            {"ok": 24},
            "nothing got worse: 24 ok",
            "Clean",
            "None of 24 variables got worse. 24 ok. Judged against: expectation.",
            "ok",
        ),
    ],
)
def test_the_first_line_says_what_is_known(counts, line, title, sentence, colour):
    judged = report(**counts)
    assert render.headline(judged) == line
    for text in (render.table(judged), render.markdown(judged).removeprefix("### Nearmetal: ")):
        assert text.splitlines()[0] == line
    headline = overview.headline(judged, SESSION)
    assert (headline["title"], headline["word"]) == (title, colour)
    assert " ".join(headline["sentences"]) == sentence


def test_half_of_the_variables_are_a_green_page():
    headline = overview.headline(report(ok=4, none=4), SESSION)
    assert (headline["symbol"], headline["word"]) == ("✓", "ok")


def test_a_baseline_may_have_a_reference_that_is_of_no_use():
    headline = overview.headline(report("baseline", ok=4, none=2), SESSION)
    assert headline["sentences"][0] == "2 have no usable reference."


@pytest.mark.parametrize("counts", [{"ok": 3, "none": 5}, {"none": 5}, {"regressed": 1, "none": 5}])
def test_the_exit_code_and_the_document_stay(counts):
    judged = report(**counts)
    code = {"ok": 0, "none": 2, "regressed": 1}[next(iter(counts))]
    assert judged.exit_code == code
    names = [entry["verdict"] for entry in render.document(judged)["judged"]]
    assert json.dumps(names).count("not judged") == 5


@pytest.mark.parametrize("every", [False, True])
def test_the_table_and_the_comment_fold_rows_that_are_not_judged(every):
    judged = report(deviates=1, ok=2, none=5)
    table, comment = render.table(judged, every), render.markdown(judged, every)
    rows = re.findall(r"^not judged  tcp .*none_\d", table, re.M)
    assert len(rows) == 5 * every
    open_rows = comment.partition("<details>")[0].count("| not judged | tcp |")
    assert open_rows == 5 * every and comment.count("| not judged | tcp |") == 5
    summaries = re.findall("<summary>(.*)</summary>", comment)
    if every:
        assert not summaries
    else:
        assert summaries == ["5 not judged, 2 ok"]
    for text in (table, comment):
        assert not lacking(text, "5 not judged", "none_0", "2 more", "--all prints these")


@pytest.mark.parametrize("every", [False, True])
def test_reasons_of_rows_that_are_not_judged_are_few(every):
    """Beside machines like this one, each has its own."""
    judged = report(ok=40, none=9)
    verdicts = []
    for verdict in judged.verdicts:
        if verdict.name == "not judged" and verdict.variable > "none_2":
            verdict = replace(verdict, reason=f"{WITHOUT}; {verdict.variable} among others")
        verdicts.append(verdict)
    text = render.table(replace(judged, verdicts=tuple(verdicts)), every)
    reasons = [line for line in text.splitlines() if line.startswith("not judged: ")]
    own = [line for line in reasons if "among others" in line]
    assert f"not judged: {WITHOUT} (tcp native gnu none_0, " in text
    rest = "not judged: 4 more, for other reasons (tcp native gnu none_5, "
    if every:
        assert len(own) == 6 and rest not in text
    else:
        assert len(own) == 2 and rest in text


@pytest.mark.parametrize("every", [False, True])
def test_junit_counts_what_is_not_judged_in_one_case(every):
    suite = ElementTree.fromstring(render.junit([report(ok=3, none=42, xfail=1)], every))
    skipped = [case for case in suite.iter("testcase") if case.find("skipped") is not None]
    assert suite.get("skipped") == str(len(skipped)) and suite.get("errors") == "0"
    assert suite.get("tests") == str(len(list(suite.iter("testcase"))))
    if every:
        assert len(skipped) == 43
    else:
        _, folded = skipped
        assert (folded.get("name"), folded.get("classname")) == ("not judged", "lab")
        message = folded.find("skipped").get("message")
        assert message == "42 have no reference: `nearmetal gate --all` lists them"


def test_the_page_folds_rows_that_are_not_judged():
    [session] = made_up.sessions(1)
    verdicts = []
    for place, value in enumerate(session.values):
        name = ("ok", "not judged")[place % 3 == 0]
        verdicts.append(Verdict.unjudged(value, "", name, reference=EXPECTATION))
    count = len(verdicts)
    page = html.render([session], GateReport(session, tuple(verdicts)), [], [])
    without = page.count('<td class="word not-judged">')
    assert without == -(-count // 3)
    assert f"No deviation in {count - without} of {count} variables" in page
    opened, _, folded = page.partition(f"<summary>{without} variables not judged</summary>")
    assert '<td class="word' not in opened.partition("What changed")[2]
    assert "every judged variable is ok" in opened and folded


def test_a_plot_of_a_single_place_is_a_table_alone():
    """Parallel efficiency over one number of processes."""
    cases = []
    for case in made_up.of_every_check().cases:
        kept = []
        for value in case.values:
            if not re.match("efficiency_A_[24]$", value.variable):
                kept.append(value)
        cases.append(replace(case, values=tuple(kept)))
    page = html.render([replace(SESSION, cases=tuple(cases))], None, [], [])
    drawn = {plot["id"] for plot in made_up.data(page)["plots"]}
    assert "efficiency-hpcg-A" not in drawn and "rating-hpcg-A" in drawn
    titles = re.findall(r'id="plot-([^"]*)" data-plot', page)
    assert set(titles) == drawn
    [table] = re.findall("<h3>HPCG class A: parallel efficiency</h3>.*?</figure>", page, re.S)
    assert table.count('<th scope="row" class="n">8') == 1 and table.count('<td class="n">') == 3
    # The script closes the tables below plots.
    assert 'class="table" open' in table and "of-plot" not in table
