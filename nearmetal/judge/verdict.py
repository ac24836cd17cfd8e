"""The gate's verdicts on the variables of a session, and on the session as a whole."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nearmetal.model import metrics, naming
from nearmetal.results import XFAIL, XPASS, Case, Session, Value, place
from nearmetal.util.sanitize import first_line
from nearmetal.util.suggest import shorten

# NumPy and SciPy, which `nearmetal --help` does not need.
if TYPE_CHECKING:
    from nearmetal.stats.judge import Decision

#: Verdicts on a variable, worst first.
VERDICT_NAMES = (
    *("regressed", "deviates", "incomplete", "disturbed", "inconclusive"),
    *("improved", "xfail", "not judged", "watched", "ok"),
)
#: Why a variable is XFAIL, in a case that failed by another one.
EXPECTED = "it misses its reference as expected"
#: The verdict on a variable without a usable reference.
UNJUDGED = "not judged"
#: Verdicts on a variable that changed.
CHANGED = ("regressed", "improved")
#: Verdicts on a variable that did not.
UNCHANGED = ("ok", "watched")
#: Value of `--confirm` -> verdicts whose cases it measures again. The second is the default.
MEASURED_AGAIN = {
    "changed": CHANGED,
    "suspicious": (*CHANGED, "inconclusive"),
    "all": (*CHANGED, "inconclusive", "watched"),
}

#: What a variable is judged against; "" is nothing. An expectation is a bound that follows from a
#: law, the node or a publication, and holds beside every other reference.
NOTHING, EXPECTATION, SESSION_BEFORE = "", "expectation", "session before"
#: A baseline: of few days, how much days differ is assumed (stats/plan.py).
FEW_DAYS, BASELINE = "baseline of few days", "baseline"
#: References that have the noise of a variable.
RECORDED = (FEW_DAYS, BASELINE)

#: Identity of a case in its session: check, place and environment.
Where = tuple[str, str, str]


@dataclass(frozen=True)
class Verdict:
    """The verdict on one variable of a case. `variable` is empty if the whole case is missing."""

    check: str
    partition: str
    environ: str
    variable: str
    unit: str
    #: one of VERDICT_NAMES
    name: str
    #: median of the samples that decided, in unit
    value: float | None = None
    #: median of the baseline's samples, in unit
    baseline: float | None = None
    #: as a fraction; > 0 is a higher value
    change: float | None = None
    #: of the change, 95 %
    interval: tuple[float, float] | None = None
    p: float | None = None
    #: number of repeats used
    repeats: int = 0
    #: minimum detectable change as a fraction
    finds: float | None = None
    #: inconclusive: repeats that probably decide; None: no number of repeats would
    wanted: int | None = None
    #: why it deviates, or is incomplete, disturbed, xfail or not judged
    reason: str = ""
    #: changed since the baseline: (then, now)
    facts: dict[str, tuple[str, str]] | None = None
    #: given by `--distribute`
    node: str = ""
    #: what it is judged against
    reference: str = BASELINE
    #: which values are better, where the unit does not say it
    better: str = ""
    #: numbers of further fresh repeats after which these are judged; (): no number decides
    more: tuple[int, ...] = ()
    #: fresh repeats are worth their time
    screened: bool = False
    #: fresh repeats decided alone
    by_fresh: bool = False
    #: the samples that show the change were selected for it, and exaggerate it
    selected: bool = False
    #: inconclusive: this day alone shows a change for the worse
    one_day: bool = False
    #: deviates: single repeats do, and the median need not
    of_repeats: bool = False
    #: number of repeats of all sessions together that decided; 0: the session's own did
    pooled: int = 0

    @classmethod
    def on(cls, measured: Value, name: str, **more) -> Verdict:
        """A verdict on a value."""
        where = measured.check, measured.partition, measured.environ
        return cls(*where, measured.variable, measured.unit, name, better=measured.better, **more)

    @classmethod
    def unjudged(cls, value: Value, reason: str, name: str = "not judged", **more) -> Verdict:
        """A verdict that compares a value with nothing."""
        repeats = len(value.samples)
        return cls.on(value, name, value=value.value, repeats=repeats, reason=reason, **more)

    @classmethod
    def incomplete(cls, reason: str, key: Where = ("", "", ""), **more) -> Verdict:
        """A case that is missing, or a whole session that lacks something (no `key`)."""
        return cls(*key, "", "", "incomplete", reason=reason, **more)

    @property
    def lower_is_better(self) -> bool | None:
        """None for a variable without direction."""
        return metrics.unit(self.unit).lower_is_better_or(self.better)

    @property
    def shows_change(self) -> bool:
        return self.name in CHANGED or self.one_day

    @property
    def key(self) -> tuple[str, str, str]:
        """Identity of the case in a baseline: check, partition and environment."""
        return self.check, self.partition, self.environ

    @property
    def place(self) -> str:
        """The partition, or `PARTITION@NODE`."""
        return place(self.partition, self.node)

    @property
    def where(self) -> Where:
        """Identity of the case in its session."""
        return self.check, self.place, self.environ


def worst_first(verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """The verdicts in the order of all outputs."""
    return tuple(
        sorted(verdicts, key=lambda verdict: (VERDICT_NAMES.index(verdict.name), verdict.where))
    )


def unexpected_pass(verdict: Verdict, value: Value) -> Verdict:
    """The verdict; incomplete for a variable that passed, though it is expected to fail."""
    if value.expected != XPASS or verdict.name in ("regressed", "deviates"):
        return verdict
    reason = "xpass: it meets a reference that it is expected to miss. Fix: end its xfail"
    return replace(verdict, name="incomplete", wanted=None, reason=reason)


def unmeasured(case: Case, **more) -> Verdict:
    """The verdict on a case without values: it failed, or failed as expected."""
    if case.failure is None:
        unit = variable = ""
        return Verdict(*case.key, variable, unit, XFAIL, reason=case.xfail, **more)
    return Verdict.incomplete(f"failed: {first_line(case.failure)}", case.key, **more)


def undisturbed(verdict: Verdict, case: Case) -> Verdict:
    """The verdict, or `disturbed` if something disturbed a repeat whose sample counts."""
    if not case.disturbed or verdict.name in ("incomplete", "not judged"):
        return verdict
    reason = "; ".join(cause.text for cause in case.disturbed)
    return replace(verdict, name="disturbed", wanted=None, reason=reason)


def lacking(session: Session, **more) -> list[Verdict]:
    """The verdict on the cases that ReFrame selected and the session lacks; [] if it has all."""
    if not session.lacks:
        return []
    of = f"{session.lacks} of the {session.promised} cases that ReFrame selected"
    return [Verdict.incomplete(f"the session lacks {of}", **more)]


def note_on_foreign(cases: Iterable[Case]) -> str:
    """What cases of other people's checks lack, which run one launch; '' if there is none."""
    names = {naming.base_name(case.check) for case in cases if case.foreign}
    if not names:
        return ""
    return (
        f"no facts of the nodes and no evidence: {shorten(sorted(names))}. What changed with a "
        "value, and whether something disturbed it, is unknown. The mixin "
        "nearmetal.checks.Measured stores both (docs/foreign.md)"
    )


def option_of_repeats(count: int, cases: Iterable[Case]) -> str:
    """ReFrame's option for a number of repeats: its own, if checks of others need it."""
    if any(case.foreign for case in cases):
        return f"--reruns={count - 1}"
    return f"-S repeats={count}"


def compared(verdict: Verdict, decision: Decision, before: float, **more) -> Verdict:
    """The verdict with the numbers of a comparison.

    :arg before: the value that it is compared with.
    """
    return replace(
        verdict,
        baseline=before,
        change=decision.change,
        interval=decision.interval,
        p=decision.p,
        finds=decision.detectable,
        selected=decision.selected,
        **more,
    )


def changed_without_direction(
    unjudged: Verdict, decision: Decision, before: float, fix: str
) -> Verdict:
    """The verdict on a variable that nobody can call better or worse: incomplete if it changed."""
    if decision.name not in CHANGED:
        return unjudged
    reason = f"it changed, and {unjudged.reason}{fix}"
    return compared(unjudged, decision, before, name="incomplete", reason=reason)


@dataclass(frozen=True)
class Likely:
    """A likely cause of what got worse (judge/explain/)."""

    #: of its rule in references/causes.yaml; `unknown` where no rule has enough support
    name: str
    #: in words
    says: str
    #: partitions
    places: tuple[str, ...]
    score: float
    #: what supports it, in words
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class GateReport:
    """The verdicts on all variables of a session."""

    session: Session
    verdicts: tuple[Verdict, ...]
    notes: tuple[str, ...] = ()
    #: whether `--confirm` has done what it could
    confirmed: bool = False
    #: of what got worse, likeliest first on each partition
    causes: tuple[Likely, ...] = ()
    #: exit code of the command; None: the verdict's
    ended: int | None = None

    def noting(self, *notes: str) -> GateReport:
        """The report with further notes; empty ones are left out."""
        return replace(self, notes=(*self.notes, *filter(None, notes)))

    @property
    def verdict(self) -> str:
        """Verdict on the session: `regressed`; else `deviates` if anything is beyond an
        expectation; else `incomplete` if anything is unknown; else `clean`."""
        names = {verdict.name for verdict in self.verdicts}
        for worst in ("regressed", "deviates"):
            if worst in names:
                return worst
        if names & {"incomplete", "disturbed", "inconclusive"}:
            return "incomplete"
        # A session of which nothing was judged is not clean.
        return "clean" if names & {"ok", "improved", "watched"} else "incomplete"

    @property
    def variables(self) -> int:
        """Number of variables."""
        return sum(bool(verdict.variable) for verdict in self.verdicts)

    @property
    def unjudged(self) -> list[Verdict]:
        """The verdicts on variables without a usable reference."""
        return [verdict for verdict in self.verdicts if verdict.name == UNJUDGED]

    @property
    def known(self) -> str:
        """What a clean session shows, where not all of its variables were judged; else ''."""
        if self.verdict != "clean" or not self.unjudged:
            return ""
        names = [verdict.name for verdict in self.verdicts]
        within = sum(map(names.count, ("improved", *UNCHANGED)))
        return f"no deviation in {within} of {self.variables} variables"

    @property
    def mostly_unjudged(self) -> bool:
        """Whether less than half of the variables are judged."""
        return 2 * len(self.unjudged) > self.variables

    @property
    def without_reference(self) -> str:
        """`42 have no reference`, of the variables that are not judged."""
        verb, reference = "have", "reference"
        if len(self.unjudged) == 1:
            verb = "has"
        if any(verdict.reference in RECORDED for verdict in self.unjudged):
            reference = "usable reference"  # a baseline may be too noisy
        return f"{len(self.unjudged)} {verb} no {reference}"

    @property
    def exit_code(self) -> int:
        if self.ended is not None:
            return self.ended
        return {"clean": 0, "regressed": 1, "deviates": 1, "incomplete": 2}[self.verdict]
