"""`baseline record --add`: the first sessions stay what others are compared with."""

import pytest

from nearmetal import results
from nearmetal.judge import baseline, record
from nearmetal.judge.baseline import Baseline
from nearmetal.judge.baseline_sessions import to_add
from nearmetal.judge.campaign import Campaign
from nearmetal.results import Database
from tests.support.campaigns import campaign
from tests.support.recorded import store
from tests.support.said import lacking

CASE = "pingpong %placement=internode", "emulated", "mpich"
SLOWER = [((CASE[0], "emulated", "mpich", "startup_latency"), 1.05)]


def parsed(*numbers: int, **options) -> list[results.Session]:
    return [results.parse_session(campaign(number, **options), "here") for number in numbers]


@pytest.fixture
def known(tmp_path):
    return record.record(parsed(*range(12)), Baseline("lab", tmp_path / "lab.yaml", {}))[0]


def test_added_sessions_show_days_and_leave_the_reference(known):
    after = record.record(parsed(12, 13, 14, steps=SLOWER), known, add=True)[0]
    baseline.save(after)
    again = baseline.load("lab", known.path.parent)
    entry, before = again.entries[CASE], known.entries[CASE]
    assert entry.anchor == 12 and entry.anchored == before.sessions
    assert entry.values == before.values
    assert len(entry.by_day("startup_latency")) == 15
    assert entry.anchored_by_day("startup_latency") == before.by_day("startup_latency")
    assert again.anchored == before.sessions


def test_a_young_baseline_grows_to_twelve_days(tmp_path):
    young = record.record(parsed(0, launches=20), Baseline("lab", tmp_path / "lab.yaml", {}))[0]
    young = record.record(parsed(*range(1, 12)), young, add=True)[0]
    assert young.entries[CASE].anchor == 0
    assert len(young.entries[CASE].anchored_by_day("startup_latency")) == 12
    grown = record.record(parsed(12), young, add=True)[0]
    assert grown.entries[CASE].anchor == 12 and len(grown.entries[CASE].sessions) == 13


def test_sessions_that_were_added_are_judged_with_later_ones(known):
    nights = parsed(12, 13, 14, steps=SLOWER)
    after = record.record(nights[:2], known, add=True)[0]
    judged = Campaign(nights[2], after)
    vars(judged)["past"] = [*parsed(*range(12)), *nights]
    assert judged.since_baseline == nights


def test_an_inconclusive_session_is_not_added(known, tmp_path):
    slightly = [(SLOWER[0][0], 1.03)]
    path = store(tmp_path / "results.db", campaign(12), campaign(18, steps=slightly))
    chosen, notes = to_add(Database.of(path), known, None)
    assert [session.uuid for session in chosen] == ["00000012-campaign"]
    assert not lacking(notes[0], "00000018-campaign", "inconclusive")
