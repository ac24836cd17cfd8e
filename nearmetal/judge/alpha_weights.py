"""Which variables a campaign judges, and how they share its error.

An equal part of the campaign's error is each variable's own (Bonferroni). `gate --only` judges some
variables alone, which then share all of it. `gate --weight` gives some a larger or smaller part.
Choose both before a look at the values, and keep them: who selects the variables that look changed
finds too many.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from nearmetal.errors import NearmetalError
from nearmetal.judge import native_ratio
from nearmetal.judge.baseline import Baseline, Entry
from nearmetal.model import naming
from nearmetal.results import Session
from nearmetal.util import suggest


class WeightsError(NearmetalError):
    """A pattern matches no variable, or a weight is none. The message says what to give."""


@dataclass(frozen=True)
class AlphaWeights:
    """Patterns `CHECK` and `CHECK:VARIABLE`, with shell wildcards.

    A pattern of a variable holds for its ratio to native, too.
    """

    #: judged variables; (): all
    only: tuple[str, ...] = ()
    #: pattern -> weight; else 1
    weights: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, only: Iterable[str], weights: Iterable[str]) -> AlphaWeights:
        """From the options' words; a weight is `PATTERN=NUMBER`. Raises WeightsError."""
        given = {}
        for text in weights:
            pattern, _, number = text.rpartition("=")
            try:
                weight = float(number)
            except ValueError:
                weight = math.nan
            if not pattern or not 0 < weight < math.inf:
                raise WeightsError(
                    f"--weight {text}: no weight. Fix: give PATTERN=NUMBER with a number above 0, "
                    "such as 'hpcc=0.1'"
                )
            given[pattern] = weight
        for pattern in (*only, *given):
            if native_ratio.is_ratio(pattern):
                raise WeightsError(
                    f"{pattern!r}: a ratio to native is judged with its variable. Fix: give "
                    f"{native_ratio.plain(pattern)!r}"
                )
        return cls(tuple(only), given)

    def selects(self, check: str, variable: str = "") -> bool:
        """Whether the variable is judged; without one, whether any of the check's may be."""
        return not self.only or any(_matches(pattern, check, variable) for pattern in self.only)

    def weight(self, check: str, variable: str) -> float:
        """The weight of a variable; the last pattern that matches it counts."""
        chosen = 1.0
        for pattern, weight in self.weights.items():
            if _matches(pattern, check, variable):
                chosen = weight
        return chosen

    def of_session(self, session: Session, known: Baseline | None = None) -> Session:
        """The session with its selected cases and values alone.
        :raises WeightsError: a pattern matches no variable of the session or of the baseline.
        """
        self._refuse_unknown(session, known)
        if not self.only:
            return session
        cases = []
        for case in session.cases:
            selected = [value for value in case.values if self.selects(case.check, value.variable)]
            case = replace(case, values=tuple(selected))
            # A failed case has no values. One that passed, but with no selected value, is not
            # judged.
            if self.selects(case.check) and (selected or not case.measured):
                cases.append(case)
        skipped = tuple(key for key in session.skipped if self.selects(key[0]))
        promised = len(cases) + len(skipped) + session.lacks
        return replace(session, cases=tuple(cases), skipped=skipped, promised=promised)

    def of_baseline(self, known: Baseline) -> Baseline:
        """The baseline with its selected variables alone, and all variables' weights.

        What it tells of the drift from day to day stays that of all variables.
        """
        entries = {}
        for key, whole in known.entries.items():
            entry = self._entry(key[0], whole)
            if entry.samples:
                entries[key] = entry
        return replace(known, entries=entries, whole=known.entries, weigh=self.weight)

    def _entry(self, check: str, entry: Entry) -> Entry:
        units, values = dict(entry.units), dict(entry.values)
        noise, samples = dict(entry.noise), dict(entry.samples)
        for name in entry.units:
            if not self.selects(check, name):
                for part in (units, values, noise, samples):
                    part.pop(name, None)
        return replace(entry, units=units, values=values, noise=noise, samples=samples)

    def note(self, known: Baseline | None) -> str:
        """What was chosen, in words; '' if nothing was."""
        parts = []
        if self.only:
            parts.append(f"only {', '.join(self.only)}")
            if known:
                parts[0] += f": {known.variables} variables share the campaign's error"
        if self.weights and known is None:
            parts.append("--weight changes nothing without a baseline")
        elif self.weights:
            weights = ", ".join(f"{name} {weight:g}" for name, weight in self.weights.items())
            parts.append(f"weights: {weights}")
        return "; ".join(parts)

    def _refuse_unknown(self, session: Session, known: Baseline | None) -> None:
        variables: dict[str, set[str]] = {}
        for case in session.cases:
            names = variables.setdefault(case.check, set())
            for value in case.values:
                names.add(value.variable)
            # A case without values may be chosen by its check.
            if not case.values:
                names.add("")
        for key in session.skipped:
            variables.setdefault(key[0], set()).add("")
        if known:
            for key, entry in known.entries.items():
                variables.setdefault(key[0], set()).update(entry.units)
        by_name: dict[str, set[str]] = {}
        for check, names in variables.items():
            by_name.setdefault(naming.base_name(check), set()).update(names)
        for pattern in (*self.only, *self.weights):
            if _matches_any(pattern, variables):
                continue
            check, _, variable = pattern.partition(":")
            if variable and check in by_name:
                names = by_name[check]
                hint = suggest.unknown(variable, names, f"variables of {check} are")
            else:
                hint = suggest.unknown(check, by_name, "checks are")
            raise WeightsError(f"{pattern!r} matches no variable of session {session.uuid}: {hint}")


def _matches_any(pattern: str, variables: Mapping[str, Iterable[str]]) -> bool:
    """Whether a pattern matches one of the variables of these checks."""
    for check, names in variables.items():
        for name in names:
            if _matches(pattern, check, name):
                return True
    return False


def _matches(pattern: str, check: str, variable: str) -> bool:
    """Whether `CHECK[:VARIABLE]` matches; without a variable, whether CHECK does."""
    wanted, _, of = pattern.partition(":")
    plain = naming.parse(check).plain
    named = fnmatchcase(plain, wanted) or fnmatchcase(plain.split()[0], wanted)
    if not named or not of or not variable:
        return named
    return fnmatchcase(variable, of) or fnmatchcase(native_ratio.plain(variable), of)
