"""The simulation of the gate's error rates."""

import argparse
from pathlib import Path

import numpy as np
import pytest

from bench import __main__ as bench_gate
from bench import added, campaigns, confirmation
from bench import limits as bench_limits
from bench import noise as bench_noise
from bench import tables as bench_tables
from nearmetal.judge import record
from nearmetal.judge.baseline import Baseline
from nearmetal.judge.campaign import Campaign
from tests.support.said import lacking

SHORT = ["bench-gate", "--trials", "20", "--campaigns", "1", "--changed", "1", "--all"]


@pytest.mark.parametrize(
    "hits, trials, text",
    [(0, 4000, "0.00-0.09"), (4000, 4000, "99.91-100.00"), (5, 10, "18.71-81.29")],
)
def test_the_interval_of_a_rate(hits, trials, text):
    assert bench_gate.interval(hits, trials) == text


def kind(name: str) -> bench_noise.Kind:
    return next(one for one in bench_noise.KINDS if one.name == name)


def test_some_campaigns_keep_the_promises():
    found = campaigns.simulate(kind("2 % outliers"), 200, 30, np.log(1.05), processes=1)
    assert found[:, 0, campaigns.FOUND].mean() > 0.8
    unchanged = campaigns.simulate(kind("t3 days 1 %"), 200, 30, processes=1)
    assert (unchanged[:, 0, campaigns.EXIT_CODE] == 1).sum() <= 2


def test_all_rows_of_what_a_growing_baseline_hides_are_printed(monkeypatch, capsys):
    monkeypatch.setattr(added, "VARIABLES", 12)
    monkeypatch.setattr(added, "NIGHTS", 2)
    monkeypatch.setattr("sys.argv", ["bench.added", "--campaigns", "1", "--processes", "1"])
    assert added.main() == 0
    printed = capsys.readouterr().out
    assert not lacking(printed, *(noise for noise, *_ in (*added.ROWS, *added.STEPS)))


def test_changes_since_the_session_before_count_when_they_are_named():
    """A change of one day alone is `regressed` on a second day, and named on the first one."""
    plan = argparse.Namespace(campaigns=5, variables=200)
    rows = bench_tables.without_baseline(np.random.default_rng(1), plan)
    assert not bench_gate.broken("two sessions", rows)
    (noisy,) = [row for row in rows if (row.method, row.step) == ("CV 1 to 20 %", 0.5)]
    assert noisy.rate > 40


@pytest.mark.parametrize("name", ["repeats alone", "t3 days 1 %", "days AR 0.9, 2 %"])
def test_the_simulated_gate_is_the_gate(name):
    """On the same samples, both give the same verdicts by the same repeats."""
    rng, nights = np.random.default_rng(12), 2
    noise, shape = kind(name), (40, 12 + nights)
    shifts = noise.days(rng, *shape)[:, :, None]
    logs = noise.session(rng, shape, 5) + shifts
    fresh = noise.session(rng, (40, nights), 32) + shifts[:, 12:]
    for samples in (logs[:, 12:], fresh):
        samples[3] += 0.12
        samples[20] += 0.4
        samples[33, 0] += 0.3
    simulated = campaigns.Known.of(logs[:, :12])
    sessions = [confirmation.session(logs[:, day], day) for day in range(12)]
    empty = Baseline("simulated", Path("simulated.yaml"), {})
    known = record.record(sessions, empty, leave_out_noisy=True)[0]
    earlier, before = [], []
    for night in range(nights):
        quick = campaigns.gate(simulated, earlier, logs[:, 12 + night], fresh[:, night])
        judged = Campaign(confirmation.session(logs[:, 12 + night], 12 + night), known)
        vars(judged)["earlier"] = before
        vars(judged)["since_baseline"] = [*before, judged.session]
        report, cost = confirmation.confirmed(judged, fresh[:, night], "suspicious")
        names = {(one.check, one.variable): one.name for one in report.verdicts}
        found = [names[check, name] for check, _, _, name in confirmation.names(40)]
        for word in ("regressed", "improved", "inconclusive"):
            assert [one == word for one in found] == list(getattr(quick, word)), (night, word)
        assert cost.launches == quick.fresh and report.exit_code == quick.exit_code
        earlier.append(quick.samples)
        before.append(confirmation.session(quick.samples, 12 + night))


@pytest.mark.whole
def test_a_short_run_measures_every_promise_and_shows_every_method(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", SHORT)
    bench_gate.main()
    out, err = capsys.readouterr()
    assert "not measured" not in err
    for method in (
        "judge",
        "gate --confirm",
        "fixed +5 %, one repeat",
        "Welch's t on repeats",
        "Otava on repeats",
        "Otava on 5 raw samples each",
        "judge_pairs",
        "samples pooled",
        "history",
    ):
        assert f" {method}" in out
    assert out.count("limit: ") == 7


def test_a_promise_that_is_not_kept_or_not_measured_is_named(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", SHORT)
    monkeypatch.setattr(
        bench_gate,
        "tables",
        lambda rng, plan: [
            ("CV 8 %", [bench_tables.Row(0.10, "judge", 64, 100, 30.0)], ""),
            (
                "CV 2 %",
                [
                    bench_tables.Row(0.05, "judge", 99, 100, 8.5),
                    bench_tables.Row(0.0, "judge", 1, 100, 5.0),
                ],
                "",
            ),
        ],
    )
    assert bench_gate.main() == 1
    err = capsys.readouterr().err
    for facts in (
        ["not kept", "CV 8 %", "judge", "step 10 %", "64.00 %", "30.0 repeats"],
        ["not kept", "CV 2 %", "judge", "step 5 %", "99.00 %", "8.5 repeats"],
        ["not kept", "CV 2 %", "judge", "step 0 %", " 1.00 %"],
        ["not measured", "'gate --confirm'", "'2 % outliers: gate --confirm'", "0.05)"],
    ):
        assert [line for line in err.splitlines() if not lacking(line, *facts)], facts


def test_less_noise_and_more_error_need_fewer_launches():
    assert bench_limits.wald(0.01, 0.001, 0.98) < bench_limits.wald(0.02, 0.001, 0.98)
    assert bench_limits.wald(0.02, 0.01, 0.98) < bench_limits.wald(0.02, 0.001, 0.98)
