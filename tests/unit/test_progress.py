"""`nearmetal progress` on the output of ReFrame."""

import io
import json

import pytest

from nearmetal import results
from nearmetal.commands import progress
from nearmetal.util import sanitize
from tests.support.paths import RECORDED
from tests.support.said import lacking

RUN = """[----------] start processing checks
[ RUN      ] tcp /00645195 @lab:native+gnu
[       OK ] (1/3) tcp /00645195 @lab:native+gnu
P: startup_latency: 27.2 us
[     FAIL ] (2/3) tcp /00645195 @lab:passthrough+gnu
==> test failed during 'sanity'
[       OK ] (3/3) tcp /00645195 @lab:emulated+gnu
[  FAILED  ] Ran 3/3 test case(s) from 1 check(s) (1 failure(s), 0 expected failure(s), 0 skipped, 0 aborted)
"""  # noqa: E501


def follow(text: str, shares=(), step=10.0) -> tuple[int, list[str]]:
    """Exit code, and the lines that we add. The clock advances by `step` seconds each time that it
    is read."""
    out, ticks = io.StringIO(), iter(range(100))
    code = progress.follow(text.splitlines(keepends=True), shares, out, lambda: next(ticks) * step)
    assert "".join(
        line
        for line in out.getvalue().splitlines(keepends=True)
        if not line.startswith("campaign: ")
    ) == sanitize.text(text)
    return code, [line for line in out.getvalue().splitlines() if line.startswith("campaign: ")]


def test_every_case_says_how_long_the_others_take():
    code, said = follow(RUN)
    assert code == 2
    first, second, third = said
    assert not lacking(first, "1 of 3", "after 0:10", "0:20 left") and "failed" not in first
    assert not lacking(second, "2 of 3", "after 0:20", "0:10 left", "1 failed")
    assert not lacking(third, "3 of 3", "after 0:30", "1 failed") and "left" not in third


def test_a_session_of_as_many_cases_tells_better():
    """The first case of that session took half of its time."""
    assert not lacking(follow(RUN, [0.5, 0.9, 1])[1][0], "1 of 3", "after 0:10", "0:10 left")
    assert not lacking(follow(RUN, [0.5, 1])[1][0], "1 of 3", "after 0:10", "0:20 left")


@pytest.mark.parametrize(
    "text, code",
    [
        (RUN.replace("FAIL ", "OK ").replace("(1 failure", "(0 failure"), 0),
        ("[  PASSED  ] Ran 0/0 test case(s) from 0 check(s) (0 failure(s)", 2),
        ("\n".join([*RUN.splitlines()[:3], ""]), 2),
        ("", 2),
        (RUN.replace("[", "\x1b[32m["), 2),
        ("[  PASSED  ] Ran 2/3 test case(s) from 1 check(s) (0 failure(s), 1 aborted)", 2),
    ],
    ids=["passed", "nothing", "cut off", "no output", "coloured", "not all"],
)
def test_the_exit_code_is_what_came_of_it(text, code):
    assert follow(text)[0] == code


def test_the_profile_of_a_recorded_session():
    shares = progress.profile(
        results.parse_session(json.loads((RECORDED / "session_lab.json").read_text()), "here")
    )
    assert shares == sorted(shares) and 0 < shares[0] < 0.5 and shares[-1] == 1


@pytest.mark.parametrize("seconds, text", [(42.4, "0:42"), (725, "12:05"), (11220, "3:07:00")])
def test_a_span_of_time(seconds, text):
    assert progress.span(seconds) == text
