"""A campaign computes what follows from its session and its baseline once."""

from collections import Counter

from nearmetal import results
from nearmetal.judge import campaign as campaigns
from nearmetal.judge import record
from nearmetal.judge.baseline import Baseline
from nearmetal.judge.campaign import Campaign
from tests.support.campaigns import campaign
from tests.support.recorded import store

SLOWER = ("", "emulated", "mpich", "startup_latency")


def test_drifts_ratios_and_promised_cases_are_computed_once(tmp_path, monkeypatch):
    sessions = [results.parse_session(campaign(number), "here") for number in range(12)]
    known, _ = record.record(sessions, Baseline("lab", "lab.yaml", {}))
    calls: Counter[str] = Counter()

    def counted(module, name: str) -> None:
        function = getattr(module, name)

        def wrapped(*arguments):
            calls[name] += 1
            return function(*arguments)

        monkeypatch.setattr(module, name, wrapped)

    counted(campaigns, "days_of")
    counted(campaigns.native_ratio, "with_ratios")
    counted(campaigns.selection, "promised")
    data = campaign(100, steps=[(SLOWER, 1.2)], launches=10)
    database = results.Database(store(tmp_path / "results.db", data))
    judged = Campaign(results.load_session(database), known, database)
    for fresh in ({}, {("none", "none", "none", "none"): [1.0]}):
        report = judged.verdicts(fresh)
        judged.on_other_nodes(report)
    assert report.verdict == "regressed"
    assert calls == dict.fromkeys(("days_of", "with_ratios", "promised"), 1)
