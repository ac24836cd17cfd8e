"""Recorded sessions give the recorded baseline and verdicts, in every digit."""

import pytest

from tests.support import verdicts

RECORDED = verdicts.load()
UUIDS = [one["session_info"]["uuid"] for one in verdicts.sessions()[verdicts.RECORDED_FROM :]]
PLACES = ("baseline", "no baseline")


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A directory with the baseline, one without, and the database."""
    return {
        "baseline": verdicts.write_baseline(tmp_path_factory.mktemp("baseline")),
        "no baseline": tmp_path_factory.mktemp("empty"),
        "database": verdicts.database(tmp_path_factory.mktemp("database")),
    }


def test_the_baseline_is_as_recorded():
    assert verdicts.documents() == RECORDED["files"]


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("uuid", UUIDS)
def test_the_verdicts_are_as_recorded(places, name, uuid):
    found = verdicts.judged(places[name], places["database"], uuid)
    assert not verdicts.differences(found, RECORDED[name][uuid])


@pytest.mark.parametrize("name", PLACES)
def test_the_history_is_as_recorded(places, name):
    assert verdicts.history(places[name], places["database"]) == RECORDED[name]["history"]
