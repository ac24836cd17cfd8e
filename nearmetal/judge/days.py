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
    found: Drifts = {}
    judged: list[Series] = []
    for key, entry in entries.items():
        for name in entry.samples:
            # One without a logarithm is never judged.
            found[key, name] = 0.0
            if entry.is_positive(name):
                judged.append((key, name))
    weight = baseline.weight(baseline.entries)
    # The native median of a session shifts all of its ratios: they are a mixture of their own.
    for ratios in (False, True):
        part = [one for one in judged if native_ratio.is_ratio(one[1]) == ratios]
        weights = [baseline.weigh(key[0], name) for key, name in part]
        # Each weight has its own part of the days' error, but all variables show how days differ.
        for own in set(weights):
            drifting = _effective(entries, part, max(1.0, weight / own))
            for series, drift_of_one, its_weight in zip(part, drifting, weights):
                if its_weight == own:
                    key, name = series
                    assumed = entries[key].assumed_drift(name)
                    found[series] = math.hypot(float(drift_of_one), assumed)
    return found


def _effective(entries: dict[Key, Entry], part: list[Series], variables: float) -> np.ndarray:
    """The drift that samples show, of days and of levels the larger."""
    days = [entries[key].by_day(name) for key, name in part]
    levels = [entries[key].by_level(name) for key, name in part]
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
    found, worst = dict(usual), 1.0
    # A day that is bad for the native link alone shifts ratios the other way.
    for ratios, shifts in _shifts(session, baseline).items():
        series, far, within = zip(*shifts)
        own = np.array([usual[one] for one in series])
        factor = drift.of_day(np.array(far), np.array(within), own)
        worst = max(worst, factor)
        for one, usual_drift in usual.items():
            if native_ratio.is_ratio(one[1]) == ratios:
                found[one] = factor * usual_drift
    return Day(found, _BAD_DAY.format(factor=worst) if worst > 1 else "")


def _shifts(session: Session, baseline: Baseline) -> dict[bool, list[tuple]]:
    """Series, shift towards worse values and standard error of each judged variable; ratios
    apart."""
    found: dict[bool, list[tuple]] = {}
    for case in session.cases:
        entry = baseline.entries.get(case.key)
        if entry is None or not case.counts:
            continue
        for value in case.values:
            if shift := _shift(value, entry):
                kind = native_ratio.is_ratio(value.variable)
                found.setdefault(kind, []).append(((case.key, value.variable), *shift))
    return found


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
    return (shift if value.lower_is_better else -shift), error


def few_days(baseline: Baseline, variables: Iterable[Series]) -> str:
    """What is assumed of those of the baseline's variables that have few days; '' if none has."""
    recorded, few = 0, []
    for key, name in variables:
        entry = baseline.entries.get(key)
        if entry is None or name not in entry.samples:
            continue
        recorded += 1
        if entry.assumed_drift(name):
            few.append((entry, name))
    if not few:
        return ""
    days = sorted({len(entry.by_day(name)) for entry, name in few})
    assumed = sorted({100 * entry.assumed_drift(name) for entry, name in few})
    number = "one day" if days == [1] else f"{_range(days)} days"
    if len(few) == recorded:
        count = len(baseline.sessions)
        who = f"the baseline is of {count} session{'s' * (count != 1)} on {number}"
    else:
        who = f"the baseline of {len(few)} of {recorded} variables is of {number}"
    return (
        f"{who}, fewer than {plan.LEAST_DAYS} days: how much days differ is not known, and at "
        f"least {_range(assumed)} % is assumed"
    )


def _range(values: Sequence[float]) -> str:
    """`1` or `1 to 3`, of sorted values."""
    return " to ".join(f"{one:.0f}" for one in dict.fromkeys((values[0], values[-1])))
