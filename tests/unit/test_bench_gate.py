"""The simulation of the gate's error rates."""

import argparse

import numpy as np
import pytest

from bench import __main__ as bench_gate
from bench import limits as bench_limits
from bench import tables as bench_tables
from tests.support.said import lacking

SHORT = ["bench-gate", "--trials", "20", "--campaigns", "1"]


@pytest.mark.parametrize(
    "hits, trials, text",
    [(0, 4000, "0.00-0.09"), (4000, 4000, "99.91-100.00"), (5, 10, "18.71-81.29")],
)
def test_the_interval_of_a_rate(hits, trials, text):
    assert bench_gate.interval(hits, trials) == text


def test_a_thousand_trials_keep_the_promises():
    plan = argparse.Namespace(baseline=60, variables=200)
    for step in (0.0, 0.05):
        _, _, judged, confirmed = zip(
            *bench_tables.gate(np.random.default_rng(4), 1000, 0.02, 0.0, step, plan)
        )
        rows = [
            bench_tables.decided(step, "judge", judged),
            bench_tables.decided(step, "confirm", confirmed),
        ]
        assert not bench_gate.broken("CV 2 %", rows)


@pytest.mark.whole
def test_a_short_run_measures_every_promise_and_shows_every_method(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", SHORT)
    bench_gate.main()
    out, err = capsys.readouterr()
    assert "not measured" not in err
    for method in (
        "judge",
        "confirm",
        "fixed +5 %, one repeat",
        "Welch's t on repeats",
        "Otava on repeats",
        "Otava on 5 raw samples each",
        "judge, days shared",
        "judge_pairs",
        "samples pooled",
        "history",
    ):
        assert f" {method}" in out
    assert out.count("limit: ") == 11


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
        ["not measured", "'campaigns'", "'CV 3 %'", "0.0)"],
    ):
        assert [line for line in err.splitlines() if not lacking(line, *facts)], facts


def test_less_noise_and_more_error_need_fewer_launches():
    assert bench_limits.wald(0.01, 0.001, 0.98) < bench_limits.wald(0.02, 0.001, 0.98)
    assert bench_limits.wald(0.02, 0.01, 0.98) < bench_limits.wald(0.02, 0.001, 0.98)
