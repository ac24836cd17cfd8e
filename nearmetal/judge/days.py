"""What the days of a baseline say: how far values drift, and how far one day may go."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from nearmetal.judge import native_ratio
from nearmetal.judge.baseline import Baseline, Entry, Key, day_of
from nearmetal.stats import days as stats_days
from nearmetal.stats import drift, plan

#: Case and variable.
Series = tuple[Key, str]
#: Drift of each variable between days, as a fraction.
Drifts = dict[Series, float]


@dataclass(frozen=True)
class Days:
    """What the days of a baseline say of the days of sessions."""

    drifts: Drifts
    #: changes that need no second day, as logarithms (stats/days.py)
    bounds: Drifts
    #: autocorrelation from one day to the next
    memory: float = 0.0


def days_of(baseline: Baseline) -> Days:
    """What the baseline's days show of all its variables."""
    entries = baseline.whole or baseline.entries
    drifting = drifts(baseline)
    bounds, memory = dict.fromkeys(drifting, 0.0), 0.0
    for part in _parts(entries):
        days, shown = [], []
        for key, name in part:
            entry = entries[key]
            days.append(entry.by_day(name))
            # What is assumed of few days is no sign that days differ.
            shown.append(0.0 if entry.assumed_drift(name) else drifting[key, name])
        if any(shown):
            memory = max(memory, stats_days.memory(days))
            bounds |= zip(part, map(float, stats_days.bounds(days, np.array(shown))))
    return Days(drifting, bounds, memory)


def _parts(entries: dict[Key, Entry]) -> tuple[list[Series], list[Series]]:
    """The variables that are judged, and apart the ratios: the native median of a session shifts
    all of them."""
    parts: tuple[list[Series], list[Series]] = [], []
    for key, entry in entries.items():
        # One without a logarithm is never judged.
        for name in filter(entry.is_positive, entry.samples):
            parts[native_ratio.is_ratio(name)].append((key, name))
    return parts


def drifts(baseline: Baseline) -> Drifts:
    """Drift of each variable between days or hours, beyond their samples' noise.

    Sessions of one day share its shift, and differ by their hours: the larger drift counts, of days
    and of levels. What is assumed of a variable with few days is added: hours do not show how days
    differ.
    """
    entries = baseline.whole or baseline.entries
    drifting: Drifts = {}
    for key, entry in entries.items():
        drifting |= {(key, name): 0.0 for name in entry.samples}
    weight = baseline.weight(baseline.entries)
    for part in _parts(entries):
        weights = [baseline.weigh(key[0], name) for key, name in part]
        # Each weight has its own part of the days' error, but all variables show how days differ.
        for own in set(weights):
            shown = _effective(entries, part, max(1.0, weight / own))
            for (key, name), from_samples, weight_of_series in zip(part, shown, weights):
                if weight_of_series == own:
                    assumed = entries[key].assumed_drift(name)
                    drifting[key, name] = math.hypot(float(from_samples), assumed)
    return drifting


def _effective(entries: dict[Key, Entry], part: list[Series], variables: float) -> np.ndarray:
    """The drift that samples show, of days and of levels the larger."""
    days, levels = [], []
    for key, name in part:
        days.append(entries[key].by_day(name))
        levels.append(entries[key].by_level(name))
    drifting = drift.effective(days, variables)
    # Where sessions are a day apart, each day is one level.
    if levels != days:
        drifting = np.maximum(drifting, drift.effective(levels, variables))
    return drifting


def steps(entries: dict[Key, Entry]) -> dict[str, dict[Series, float]]:
    """Variables whose level changed within these entries: the first session of the new level ->
    variable -> change as a fraction."""
    changed: dict[str, dict[Series, float]] = {}
    for part in _parts(entries):
        days = [entries[key].by_day(name) for key, name in part]
        for (key, name), step in zip(part, stats_days.steps(days)):
            if step:
                first, shift = step
                by_day: dict[str, str] = {}
                for uuid, start in entries[key].sessions.items():
                    by_day.setdefault(day_of(start), uuid)
                session = list(by_day.values())[first]
                changed.setdefault(session, {})[key, name] = math.expm1(shift)
    return changed


def few_days(baseline: Baseline, variables: Iterable[Series]) -> str:
    """What is assumed of those of the baseline's variables that have few days; '' if none has."""
    recorded = 0
    days, assumed = [], []
    for key, name in variables:
        entry = baseline.entries.get(key)
        if entry is None or name not in entry.samples:
            continue
        recorded += 1
        if drift_of_days := entry.assumed_drift(name):
            days.append(len(entry.by_day(name)))
            assumed.append(100 * drift_of_days)
    if not days:
        return ""
    number = f"{_range(days)} days"
    if max(days) == 1:
        number = "one day"
    if len(days) == recorded:
        count = len(baseline.sessions)
        who = f"the baseline is of {count} session{'s' * (count != 1)} on {number}"
    else:
        who = f"the baseline of {len(days)} of {recorded} variables is of {number}"
    return (
        f"{who}, fewer than {plan.LEAST_DAYS} days: how much days differ is not known, and at "
        f"least {_range(assumed)} % is assumed"
    )


def _range(values: Sequence[float]) -> str:
    """`1` or `1 to 3`."""
    ends = f"{min(values):.0f}", f"{max(values):.0f}"
    return " to ".join(dict.fromkeys(ends))
