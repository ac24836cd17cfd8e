"""No output holds a control character, whatever a session, a job or a user wrote: each read by its
own parser."""

import copy
import html
import io
import json
import re
import sys
import unicodedata
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from nearmetal import results
from nearmetal.cli import main
from nearmetal.commands import progress
from nearmetal.compare import published
from nearmetal.judge import baseline, duet, history, record
from nearmetal.judge import render as verdicts
from nearmetal.judge.baseline import Baseline
from nearmetal.judge.verdict import GateReport, Verdict
from nearmetal.report import page as report
from nearmetal.util import sanitize
from tests.support.campaigns import LAB, campaign
from tests.support.judging import judge_session
from tests.support.limits import limited
from tests.support.made_up_campaign import data as drawn_of
from tests.support.paths import RECORDED
from tests.support.recorded import store

#: A coloured line, a title for the terminal's window, a cleared screen, a bell, C1, and what turns
#: text around.
NASTY = "\x1b[31;1mred\x1b[0m\x1b]0;title\x07\x1b[2J\r\x08\x00\x7f\x9b31m\u202e\u200f\u2028\ufffe|<script>\tend"  # noqa: E501
LINES = f"first\nclean: nothing got worse\n{NASTY}"


def controls(text: str, lines: bool = True) -> set[str]:
    """Control characters of a text; ends of lines are none where it has several."""
    return {
        character
        for character in text
        if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        or character in "\ufffe\uffff"
        if not (lines and character == "\n")
    }


def strings(thing) -> list[str]:
    """All texts in parsed JSON."""
    if isinstance(thing, str):
        return [thing]
    if isinstance(thing, dict):
        return [text for pair in thing.items() for part in pair for text in strings(part)]
    return [text for part in thing for text in strings(part)] if isinstance(thing, list) else []


def nasty(number: int = 100) -> dict:
    """A campaign in which everything that somebody else wrote holds control characters."""
    data = campaign(number, launches=10)
    first, second, third, *_ = data["runs"][0]["testcases"]
    first |= {"result": "fail", "fail_reason": LINES, "fail_phase": NASTY}
    second["display_name"] = f"pingpong %placement={LINES}"
    second["partition"], second["environ"] = f"{NASTY}partition", f"{LINES}environ"
    second["kernel"] = second["facts"]["kernel"] = LINES
    second["facts"][NASTY] = LINES
    third["no_baseline"], third["no_baseline_of"] = LINES, "check"
    third["perfvalues"] = {
        f"lab:native:{NASTY}": [*entry[:4], f"{NASTY}/s", entry[5]]
        for entry in third["perfvalues"].values()
    }
    third["samples"] = third["within"] = {}
    data["session_info"] |= {"uuid": f"{NASTY}uuid", "cmdline": f"reframe -t {LINES}"}
    return data


@pytest.fixture(scope="module")
def references(tmp_path_factory):
    where = tmp_path_factory.mktemp("baselines")
    sessions = [results.parse_session(campaign(number), "here") for number in range(12)]
    after, _ = record.record(sessions, Baseline("lab", where / "lab.yaml", {}))
    baseline.save(after)
    return where


@pytest.fixture(params=["from a session", "from elsewhere"])
def judged(request, references) -> GateReport:
    """A report on a nasty session, and one whose own texts are nasty, wherever they came from."""
    found = judge_session(results.parse_session(nasty(), "here"), baseline.load("lab", references))
    if request.param == "from a session":
        return found
    first = found.verdicts[0]
    worse = Verdict(
        *[LINES] * 4, NASTY, "regressed", 1.0, reason=LINES, facts={NASTY: (LINES, NASTY)}
    )
    return GateReport(found.session, (worse, first), (LINES, NASTY))


def test_the_tables_lines_are_its_own(judged):
    text = verdicts.table(judged, True)
    assert not controls(text)
    assert "clean: nothing got worse" not in text.splitlines()


def test_junit_is_well_formed(judged):
    suite = ElementTree.fromstring(verdicts.junit([judged]))
    texts = [part for element in suite.iter() for part in (*element.attrib.values(),)]
    assert texts and not set().union(*(controls(text, lines=False) for text in texts))


def test_markdown_has_no_control_character_no_html_and_whole_rows(judged):
    text = verdicts.markdown(judged)
    assert not controls(text) and "<script" not in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {12}
    assert "clean: nothing got worse" not in text.splitlines()


def test_markdown_links_and_pictures_of_a_reason_are_text():
    assert verdicts.escaped("![x](http://a) a\\|b &lt;") == r"!\[x\](http://a) a\\\|b &amp;lt;"


def test_json(judged):
    document = json.loads(json.dumps(verdicts.document(judged)))
    assert not set().union(*(controls(text, lines=False) for text in strings(document)))


def test_openmetrics(judged):
    families = list(text_string_to_metric_families(verdicts.openmetrics([judged])))
    labels = [
        text for family in families for sample in family.samples for text in sample.labels.values()
    ]
    assert labels and not set().union(*(controls(text, lines=False) for text in labels))


class Texts(HTMLParser):
    """What a browser shows, and every attribute."""

    def __init__(self):
        super().__init__()
        self.texts = []

    def handle_data(self, data):
        self.texts.append(data)

    def handle_starttag(self, tag, attributes):
        self.texts += [value or "" for _, value in attributes]


def test_the_report(judged):
    change = history.ChangePoint(
        *[LINES] * 4, NASTY, NASTY, NASTY, 1.0, 2.0, 1.0, 0.1, {NASTY: (LINES, NASTY)}
    )
    page = report.render([judged.session], judged, [change], published.load())
    parser = Texts()
    parser.feed(page)
    assert not controls("".join(parser.texts)) and not controls(html.unescape(page))
    drawn = strings(drawn_of(page))
    assert drawn and not set().union(*(controls(text, lines=False) for text in drawn))


@pytest.mark.parametrize(
    "words", [["compare"], ["compare", "--spread"], ["history"], ["gate", "--all"], ["report"]]
)
def test_what_the_commands_print(words, tmp_path, monkeypatch, capsys, references):
    database = store(tmp_path / "results.db", campaign(99), nasty())
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(references))
    more = ["--output", str(tmp_path / "r.html")] if words == ["report"] else []
    monkeypatch.setattr("sys.argv", ["nearmetal", *words, *more, "--database", str(database)])
    main()
    out, err = capsys.readouterr()
    assert out and not controls(out + err)
    assert "clean: nothing got worse" not in (out + err).splitlines()


@pytest.mark.parametrize(
    "words",
    [
        ["compare", "--database", f"/nowhere/{NASTY}"],
        ["compare", "--system", NASTY],
        ["compare", f"--{NASTY}"],
        ["gate", "--since", LINES],
        ["baseline", "show", "--system", "lab", "--directory", f"/nowhere/{NASTY}"],
    ],
)
def test_errors_about_what_was_typed(words, tmp_path, monkeypatch, capsys):
    database = store(tmp_path / "results.db", campaign(99))
    if "--database" not in words:
        words = [*words, "--database", str(database)]
    monkeypatch.setattr("sys.argv", ["nearmetal", *(word.replace("\0", "") for word in words)])
    assert main() in (2, 3)
    out, err = capsys.readouterr()
    assert err and not controls(out + err)


def test_a_path_that_is_no_text_does_not_end_the_command(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["nearmetal", "compare", "--database", "/nowhere/\udcff"])
    assert main() == 3
    assert "\\udcff" in capsys.readouterr().err


def test_a_terminal_that_lacks_a_character_gets_its_number():
    raw = io.BytesIO()
    stream = sanitize.Stream(io.TextIOWrapper(raw, encoding="ascii", write_through=True))
    print("55 µs", file=stream)
    assert raw.getvalue() == b"55 \\xb5s\n"


def test_a_duet(monkeypatch):
    data = json.loads((RECORDED / "session_duet_equal.json").read_text())
    for case in data["runs"][0]["testcases"]:
        case["facts"] |= {"duet.a": NASTY, "duet.b": LINES}
        case["mpi_library"] = case["transport"] = LINES
    judged = duet.judge_session(results.parse_session(data, "here"))
    text, missing = duet.render(judged, published.load()), judged.missing
    assert not controls(text) and not set().union(*map(controls, missing), ())


def test_progress_passes_on_what_reframe_says_without_control_characters(monkeypatch, tmp_path):
    out = io.StringIO()
    lines = [f"\x1b[32m[ {NASTY}\n", "\x1b[32m[  PASSED  ] Ran 1/1 test case(s) (0 failure(s))\n"]
    assert progress.follow(lines, [], out) == 0
    assert not controls(out.getvalue()) and len(out.getvalue().splitlines()) >= 2


def test_progress_survives_bytes_that_are_no_text(monkeypatch, tmp_path, capsys):
    text = b"\xff\xfe\n[  PASSED  ] Ran 1/1 test case(s) (0 failure(s))\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text), encoding="utf-8"))
    monkeypatch.setattr(
        "sys.argv", ["nearmetal", "progress", "--database", str(tmp_path / "no.db")]
    )
    assert main() == 0
    assert not controls(capsys.readouterr().out)


def test_names_that_differ_in_a_control_character_alone_stay_two():
    data = copy.deepcopy(LAB)
    one, other, *_ = data["runs"][0]["testcases"]
    one["display_name"], other["display_name"] = "tcp\x1b[31m", "tcp\x1b[32m"
    names = {case.check for case in results.parse_session(data, "here").cases}
    assert {"tcp\\x1b[31m", "tcp\\x1b[32m"} <= names


@pytest.mark.parametrize(
    "text, plain",
    [
        ("\x1b[1;31merror\x1b[0m: no", "error: no"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]0;unfinished", "\\x1b]0;unfinished"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("\x9b31mx\x85", "x\\x85"),
        ("\x1b(Bx\x1b7", "x"),
        ("µs 温度 é", "µs 温度 é"),
        ("\ud800", "\\ud800"),
        ("a\tb", "a   b"),
    ],
)
def test_terminal_sequences_go_and_the_rest_is_written_out(text, plain):
    assert sanitize.text(text) == plain
    assert sanitize.text(sanitize.text(text)) == plain


#: Signs of format with a shape, of Arabic, Syriac, Kaithi and hieroglyphs.
SHAPES = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
SHAPES |= {*range(0x13430, 0x13440)}


def test_what_nobody_sees_is_written_out():
    formats = [code for code in range(0x110000) if unicodedata.category(chr(code)) == "Cf"]
    shown = {code for code in formats if sanitize.name(chr(code)) == chr(code)}
    assert shown == SHAPES & {*formats} and len(formats) > 100
    assert sanitize.text("\u200ea\u061cb\ufe0f\U000e0041") == "\\u200ea\\u061cb\\ufe0f\\U000e0041"


@pytest.mark.parametrize("start", ["\x9d", "\x90", "\x1b]", "\x1bP", "\x9b0", "\x1b[ ", "\x9d\x90"])
def test_sequences_without_end_take_no_time(start):
    limited(sanitize.text, start * 100_000)


def test_numbers_and_structure_stay():
    data = {"a": [1.0, float("inf")], "b": (None, True, 3), "c": {"x\n": "y\x1b"}}
    assert sanitize.every(data) == {**data, "c": {"x ": "y\\x1b"}}


def test_streams_of_the_command_are_given_back(monkeypatch):
    before = sys.stdout, sys.stderr
    monkeypatch.setattr("sys.argv", ["nearmetal", "--help"])
    main()
    assert (sys.stdout, sys.stderr) == before
