"""A session judged by its system's baseline: what regressed, what is not known, and what changed around it."""

import statistics
from dataclasses import dataclass, replace

from nearmetal.compare import gist
from nearmetal.gate.baseline import Baseline, Entry, Key
from nearmetal.gate.selection import promised
from nearmetal.naming import parse
from nearmetal.results import Case, Session, Value, place
from nearmetal.stats import judge

#: Words of a verdict, worst first.
WORDS = ("regressed", "incomplete", "inconclusive", "improved", "not judged", "ok")
#: Facts that differ from run to run and explain nothing.
PASSING = {"nodes", "differs_between_nodes"}


@dataclass(frozen=True)
class Judged:
    """The verdict on one variable of one case; `variable` is empty where the whole case is not there."""

    check: str
    partition: str
    environ: str
    variable: str
    unit: str
    word: str  #: one of WORDS
    value: float | None = None  #: median over the launches, in unit
    baseline: float | None = None  #: the baseline's, in unit
    change: float | None = None  #: as a fraction; > 0 is a higher value
    interval: tuple[float, float] | None = None  #: of the change, 95 %
    p: float | None = None
    launches: int = 0
    finds: float | None = (
        None  #: the smallest change that can be found in this noise, as a fraction
    )
    wanted: int | None = None  #: inconclusive: launches that would settle it; None: no number does
    reason: str = ""  #: why incomplete or not judged
    facts: dict[str, tuple[str, str]] | None = None  #: that differ from the baseline: (then, now)
    node: str = ""  #: that `--distribute` gave the case

    @property
    def key(self) -> Key:
        return self.check, self.partition, self.environ

    @property
    def place(self) -> str:
        """As of its Case."""
        return place(self.partition, self.node)

    @property
    def where(self) -> "Where":
        """As of its Case."""
        return self.check, self.place, self.environ


@dataclass(frozen=True)
class Report:
    session: Session
    judged: tuple[Judged, ...]
    notes: tuple[str, ...] = ()

    @property
    def word(self) -> str:
        """Of the campaign: `regressed`; else `incomplete` where anything is not known; else `clean`."""
        words = {one.word for one in self.judged}
        if "regressed" in words:
            return "regressed"
        judged = words & {"ok", "improved"}
        return "incomplete" if not judged or words & {"incomplete", "inconclusive"} else "clean"

    @property
    def exit_code(self) -> int:
        return {"clean": 0, "regressed": 1, "incomplete": 2}[self.word]


#: What distinguishes a case of a session: check, place and environment.
Where = tuple[str, str, str]
#: Launches of the second stage by check, place, environment and variable.
Fresh = dict[tuple[str, str, str, str], list[float]]


def judge_session(session: Session, baseline: Baseline, fresh: Fresh | None = None) -> Report:
    """Every variable that the session should hold, judged; `fresh` holds the launches of what was measured again."""
    expected, note = promised(session, baseline)
    # On many nodes a baseline's variable is judged many times, which share the campaign's error too.
    known = [baseline.entries[case.key] for case in session.cases if case.key in baseline.entries]
    variables = sum(noise.finds is not None for entry in known for noise in entry.noise.values())
    campaign = _Campaign(max(baseline.variables, variables), baseline.drift, fresh or {})
    judged = []
    # What `-P` varied is none of the baseline's cases, but the selection's all the same.
    found = {(parse(case.check).plain, case.partition, case.environ) for case in session.cases}
    for key in sorted(expected - found):
        judged += _case(key, None, None, campaign)
    for case in sorted(session.cases, key=lambda one: one.where):
        verdicts = _case(case.key, case, baseline.entries.get(case.key), campaign)
        judged += [replace(one, node=case.node) for one in verdicts]
    if lacking := max(0, session.promised - len(session.cases) - len(session.skipped)):
        judged.append(
            Judged(
                "",
                "",
                "",
                "",
                "",
                "incomplete",
                reason=f"{lacking} of the {session.promised} cases that ReFrame selected are not in the session",
            )
        )
    notes = [note, *(f"skipped by its check: {' | '.join(key)}" for key in session.skipped)]
    return Report(
        session,
        tuple(sorted(judged, key=lambda one: (WORDS.index(one.word), one.where))),
        tuple(filter(None, notes)),
    )


@dataclass(frozen=True)
class _Campaign:
    """What the verdicts on all variables share."""

    variables: int
    drift: float
    fresh: Fresh


def _case(key: Key, case: Case | None, entry: Entry | None, campaign: _Campaign) -> list[Judged]:
    if case is None:
        return [
            Judged(
                *key,
                "",
                "",
                "incomplete",
                reason="the selection promises this case, but the session lacks it",
            )
        ]
    if not case.measured:
        return [Judged(*key, "", "", "incomplete", reason=f"failed: {gist(case.failure or '')}")]
    if entry is None and case.varied:
        reason = "-P set its check's variables, which a baseline is not recorded with"
        return [_unjudged(value, reason) for value in case.values]
    if entry is None:
        return [_unrecorded(value, case, "this case") for value in case.values]
    facts = changed_facts(entry.facts, case.facts)
    found = {value.variable: value for value in case.values}
    judged = [
        _value(value, entry, campaign, facts)
        if name in entry.noise
        else _unrecorded(value, case, "this variable")
        for name, value in found.items()
    ]
    return judged + [
        Judged(
            *key,
            name,
            entry.units[name],
            "incomplete",
            baseline=entry.values[name],
            reason="the baseline has this variable, but the session lacks it",
        )
        for name in entry.noise
        if name not in found
    ]


def _value(value: Value, entry: Entry, campaign: _Campaign, facts: dict) -> Judged:
    where = value.check, value.partition, value.environ, value.variable, value.unit
    noise, expected = entry.noise[value.variable], entry.values[value.variable]
    if value.lower_is_better is None:
        return _unjudged(value, f"its unit {value.unit!r} does not say whether less is better")
    if noise.finds is None:
        return _unjudged(
            value, "too noisy when the baseline was recorded (`nearmetal baseline show`)"
        )
    if value.unit != entry.units[value.variable]:
        return Judged(
            *where,
            "incomplete",
            reason=f"its unit is {value.unit}, the baseline's {entry.units[value.variable]}",
        )
    if not value.samples:
        return Judged(*where, "incomplete", reason="the session holds none of its launches")
    launched = value.check, value.place, value.environ, value.variable
    fresh = campaign.fresh.get(launched, [])
    try:
        recorded, better = entry.launches[value.variable], bool(value.lower_is_better)
        terms = max(1, campaign.variables), campaign.drift
        if fresh:
            verdict = judge.confirm(recorded, value.samples, fresh, better, *terms)
        else:
            verdict = judge.judge(recorded, value.samples, better, *terms)
    except judge.JudgeError as error:
        return Judged(*where, "incomplete", reason=str(error))
    return Judged(
        *where,
        verdict.word,
        statistics.median([*value.samples, *fresh]),
        expected,
        verdict.change,
        verdict.interval,
        verdict.p,
        len(value.samples) + len(fresh),
        verdict.size,
        verdict.wanted,
        facts=facts,
    )


def _unrecorded(value: Value, case: Case, what: str) -> Judged:
    """Incomplete: once a system has a baseline, only a check's own reason excuses what is not in it."""
    if case.no_baseline:
        return _unjudged(value, case.no_baseline)
    reason = f"the baseline lacks {what}: `nearmetal baseline record` adds it"
    return _unjudged(value, reason, "incomplete")


def _unjudged(value: Value, reason: str, word: str = "not judged") -> Judged:
    return Judged(
        value.check,
        value.partition,
        value.environ,
        value.variable,
        value.unit,
        word,
        value.value,
        launches=len(value.samples),
        reason=reason,
    )


def changed_facts(then: dict, now: dict) -> dict[str, tuple[str, str]]:
    """Facts that differ: {name: (then, now)}; `absent` where one side doesn't have it."""
    return {
        name: (str(then.get(name, "absent")), str(now.get(name, "absent")))
        for name in sorted({*then, *now} - PASSING)
        if then.get(name) != now.get(name)
    }
