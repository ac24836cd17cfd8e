"""How far the values of a baseline drift between days, and how far the day of a session went."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from nearmetal.judge import native_ratio
from nearmetal.judge.baseline import Baseline, Entry, Key
from nearmetal.results import Session, Value
from nearmetal.stats import drift, plan, ranks

#: Case and variable.
Series = tuple[Key, str]
#: Drift of each variable between days, as a fraction.
Drifts = dict[Series, float]


@dataclass(frozen=True)
class Day:
    """How far the day of a session may shift its variables."""

    drifts: Drifts
    #: in words, if that is farther than the baseline's days did
    note: str = ""


def drifts(baseline: Baseline) -> Drifts:
    """Drift of each variable between days or hours, beyond their samples' noise.

    Sessions of one day share its shift, and differ by their hours: the larger drift counts, of days
    and of levels. What is assumed of a variable with few days is added: hours do not show how days
    differ.
    """
    entries = baseline.whole or baseline.entries
    drifting: Drifts = {}
    variables: list[Series] = []
    ratios: list[Series] = []
    for key, entry in entries.items():
        for name in entry.samples:
            # One without a logarithm is never judged.
            drifting[key, name] = 0.0
            if entry.is_positive(name):
                kind = ratios if native_ratio.is_ratio(name) else variables
                kind.append((key, name))
    weight = baseline.weight(baseline.entries)
    # The native median of a session shifts all of its ratios: they are a mixture of their own.
    for part in (variables, ratios):
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


_BAD_DAY = (
    "this day shifted variables {factor:.1f} times as far as the baseline's days, those that got "
    "better too. The gate allows for it, and finds only larger changes. Run again on another day"
)


def day_of(session: Session, baseline: Baseline, usual: Drifts) -> Day:
    """The drifts of the baseline, raised where the session's day is unlike the baseline's.

    :arg session: with the baseline's directions, and with ratios.
    :arg usual: `drifts` of the baseline.
    """
    drifting, worst, note = dict(usual), 1.0, ""
    # A day that is bad for the native link alone shifts ratios the other way.
    for ratios, shifts in _shifts(session, baseline).items():
        shifted, far, within = zip(*shifts)
        own = np.array(list(map(usual.__getitem__, shifted)))
        factor = drift.of_day(np.array(far), np.array(within), own)
        worst = max(worst, factor)
        for series in usual:
            if native_ratio.is_ratio(series[1]) == ratios:
                drifting[series] = factor * usual[series]
    if worst > 1:
        note = _BAD_DAY.format(factor=worst)
    return Day(drifting, note)


def _shifts(session: Session, baseline: Baseline) -> dict[bool, list[tuple]]:
    """Series, shift towards worse values and standard error of each judged variable; ratios
    apart."""
    shifts: dict[bool, list[tuple]] = {}
    for case in session.cases:
        entry = baseline.entries.get(case.key)
        if entry is None or not case.counts:
            continue
        for value in case.values:
            if shift := _shift(value, entry):
                kind = native_ratio.is_ratio(value.variable)
                shifts.setdefault(kind, []).append(((case.key, value.variable), *shift))
    return shifts


def _shift(value: Value, entry: Entry) -> tuple[float, float] | None:
    """None for a variable that is not judged."""
    noise = entry.noise.get(value.variable)
    if value.expected or noise is None or noise.finds is None or value.lower_is_better is None:
        return None
    if value.unit != entry.units[value.variable] or not value.samples or min(value.samples) <= 0:
        return None
    recorded = list(itertools.chain(*entry.by_day(value.variable)))
    if not recorded:
        return None
    base, new = np.log(recorded), np.log(value.samples)
    shift = float(np.median(new) - np.median(base))
    error = ranks.median_error(float(ranks.spread(base)), len(base), len(new))
    if not value.lower_is_better:
        shift = -shift
    return shift, error


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
