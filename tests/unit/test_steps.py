"""A baseline whose own sessions change: `record` names the session."""

import numpy as np
import pytest

from nearmetal import results
from nearmetal.judge import record
from nearmetal.judge.baseline import Baseline
from nearmetal.stats import days
from tests.support.campaigns import campaign
from tests.support.said import lacking

STEP = [(("", "emulated", "mpich", "startup_latency"), 1.1)]


def baselines(seed: int, days: int = 12, walk: float = 0.0) -> np.ndarray:
    """Unchanged days of 100 variables, (variables, days, repeats)."""
    rng = np.random.default_rng(seed)
    shifts = walk * rng.normal(size=(100, days)).cumsum(axis=1)
    return np.exp(rng.normal(0, 0.03, (100, days, 5)) + shifts[:, :, None])


@pytest.mark.parametrize("first", [2, 6, 10])
def test_a_step_within_the_days_is_found_with_its_day(first):
    samples = baselines(1)
    samples[7, first:] *= 1.12
    steps = days.steps(samples)
    assert [place for place, step in enumerate(steps) if step] == [7]
    day, shift = steps[7]
    assert abs(day - first) <= 1 and shift == pytest.approx(np.log(1.12), abs=0.03)


@pytest.mark.parametrize("walk", [0.0, 0.005])
def test_unchanged_days_have_none(walk):
    alarms = [any(days.steps(baselines(seed, walk=walk))) for seed in range(20)]
    assert sum(alarms) <= 1


def test_few_days_have_none():
    assert not any(days.steps(baselines(2, days=3)))


def test_record_names_the_session_that_changed(tmp_path):
    sessions = [
        results.parse_session(campaign(number, steps=STEP if number >= 6 else ()), "here")
        for number in range(12)
    ]
    _, notes = record.record(sessions, Baseline("lab", tmp_path / "lab.yaml", {}))
    (note,) = [note for note in notes if "within the baseline" in note]
    assert not lacking(note, "00000006-campaign", "startup_latency", "--since")
    _, notes = record.record(sessions[:6] + sessions[:0], Baseline("lab", tmp_path / "a.yaml", {}))
    assert not any("within the baseline" in note for note in notes)
