"""The gate's verdicts on the variables of a session, and on the session as a whole."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nearmetal.model import metrics
from nearmetal.results import XPASS, Session, Value, place

#: Verdicts on a variable, worst first.
VERDICT_NAMES = (
    "regressed",
    "deviates",
    "incomplete",
    "disturbed",
    "inconclusive",
    "improved",
    "xfail",
    "not judged",
    "watched",
    "ok",
)
#: Why a variable is XFAIL, in a case that failed by another one.
EXPECTED = "it misses its reference as expected"
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

#: What a variable is judged against (judge/no_baseline.py); "" for what is judged against nothing.
REFERENCES = ("", "expectation", "session before", "baseline of few days", "baseline")

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
    name: str  #: one of VERDICT_NAMES
    value: float | None = None  #: median of the samples that decided, in unit
    baseline: float | None = None  #: median of the baseline's samples, in unit
    change: float | None = None  #: as a fraction; > 0 is a higher value
    interval: tuple[float, float] | None = None  #: of the change, 95 %
    p: float | None = None
    repeats: int = 0  #: number of repeats used
    finds: float | None = None  #: minimum detectable change as a fraction
    #: inconclusive: repeats that probably decide; None: no number of repeats would
    wanted: int | None = None
    reason: str = ""  #: why it deviates, or is incomplete, disturbed, xfail or not judged
    facts: dict[str, tuple[str, str]] | None = None  #: changed since the baseline: (then, now)
    node: str = ""  #: given by `--distribute`
    reference: str = "baseline"  #: one of REFERENCES
    #: regressed, improved: fresh repeats that probably show the change again
    fresh: int | None = None
    better: str = ""  #: which values are better, where the unit does not say it
    #: inconclusive: numbers of repeats after which it is judged again; `wanted` is one of them
    later: tuple[int, ...] = ()
    #: the session's own samples showed a change, so that fresh ones alone decide
    set_aside: bool = False
    #: deviates: single repeats do, and the median need not
    of_repeats: bool = False
    #: number of repeats of all sessions together that decided; 0: the session's own did
    pooled: int = 0

    @classmethod
    def on(cls, one: Value, name: str, **more) -> Verdict:
        """A verdict on a value."""
        where = one.check, one.partition, one.environ
        return cls(*where, one.variable, one.unit, name, better=one.better, **more)

    @classmethod
    def incomplete(cls, reason: str, key: Where = ("", "", ""), **more) -> Verdict:
        """A case that is missing, or a whole session that lacks something (no `key`)."""
        return cls(*key, "", "", "incomplete", reason=reason, **more)

    @property
    def lower_is_better(self) -> bool | None:
        """None for a variable without direction."""
        return metrics.unit(self.unit).lower_is_better_or(self.better)

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


def unexpected_pass(verdict: Verdict, value: Value) -> Verdict:
    """The verdict; incomplete for a variable that passed, though it is expected to fail."""
    if value.expected != XPASS or verdict.name in ("regressed", "deviates"):
        return verdict
    reason = "xpass: it meets a reference that it is expected to miss. Fix: end its xfail"
    return replace(verdict, name="incomplete", wanted=None, reason=reason)


def lacking(session: Session, **more) -> list[Verdict]:
    """The verdict on the cases that ReFrame selected and the session lacks; [] if it has all."""
    if not session.lacks:
        return []
    of = f"{session.lacks} of the {session.promised} cases that ReFrame selected"
    return [Verdict.incomplete(f"the session lacks {of}", **more)]


@dataclass(frozen=True)
class Likely:
    """A likely cause of what got worse (judge/explain/)."""

    name: str  #: of its rule in references/causes.yaml; `unknown` where no rule has enough support
    says: str  #: in words
    places: tuple[str, ...]  #: partitions
    score: float
    evidence: tuple[str, ...]  #: what supports it, in words


@dataclass(frozen=True)
class GateReport:
    """The verdicts on all variables of a session."""

    session: Session
    verdicts: tuple[Verdict, ...]
    notes: tuple[str, ...] = ()
    confirmed: bool = False  #: whether `--confirm` has done what it could
    causes: tuple[Likely, ...] = ()  #: of what got worse, likeliest first on each partition
    ended: int | None = None  #: exit code of the command; None: the verdict's

    @property
    def verdict(self) -> str:
        """Verdict on the session: `regressed`; else `deviates` if anything is beyond an
        expectation; else `incomplete` if anything is unknown; else `clean`."""
        names = {verdict.name for verdict in self.verdicts}
        if "regressed" in names:
            return "regressed"
        if "deviates" in names:
            return "deviates"
        unknown = names & {"incomplete", "disturbed", "inconclusive"} or not names & {
            "ok",
            "improved",
            "watched",
        }
        return "incomplete" if unknown else "clean"

    @property
    def exit_code(self) -> int:
        if self.ended is not None:
            return self.ended
        return {"clean": 0, "regressed": 1, "deviates": 1, "incomplete": 2}[self.verdict]
