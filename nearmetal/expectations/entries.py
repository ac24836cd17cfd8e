"""Expectations as data: the files, and what a site changes in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from nearmetal.checkout import PACKAGE, REFERENCES
from nearmetal.errors import NearmetalError
from nearmetal.expectations import expression, known
from nearmetal.expectations.expression import Expression, ExpressionError, Sentence
from nearmetal.model import catalogue
from nearmetal.util import documents, files, suggest

#: Files of expectations that several checks share, and what they may hold.
EXPECTED = REFERENCES / "expected"
SCHEMA = PACKAGE / "expectations" / "schema.yaml"
#: Names of a partition's extras that expressions may use. They hold numbers.
EXTRAS = (
    "link_speed_gbps",
    "link_signalling_gbps",
    "nics",
    "memory_gbps",
    "peak_gflops",
    "memory_gb",
    "guest_memory_gb",
    "cores_per_node",
    "nodes",
)
#: These, and names of numbers that follow from them (judge.py).
OF_EXTRAS = (*EXTRAS, "node_memory_gb")
#: Names of recorded facts, likewise. Of nodes that differ, the least counts.
FACTS = ("cpus", "numa_nodes", "mem_total_kb")
#: Names of numbers that follow from facts (hardware.py).
DERIVED = ("core_gflops", "nic_gbps", "carrier_mtu", "core_threads", "modules_gbps")
#: The least and the most of the judged variable's repeats, without a stray one.
OF_REPEATS = ("least_sample", "most_sample")
#: The judged variable, and these.
JUDGED = ("value", *OF_REPEATS)
#: Ends of the interval of published figures of machines like this one (machines.py).
OF_MACHINES = ("like_least", "like_most")
#: A text, for sentences: how many figures there are, and of what.
LIKE = "like"
#: All of these.
NUMBERS = (*OF_EXTRAS, *FACTS, *DERIVED, *JUDGED, *OF_MACHINES, LIKE)
#: Keys of bounds, and the word that drops one.
BOUNDS, NONE = ("least", "most"), "none"
#: Fix of a name that is not known.
CORRECT = f"correct it, or add it to {catalogue.FILES}/NAME.yaml or {catalogue.FACTS}"
#: Key of a partition's extras with the site's own changes.
OVERRIDES = "expected"


class ExpectationError(NearmetalError):
    """Expectations are not usable. The message names file, key and fix."""


@dataclass(frozen=True)
class Other:
    """A value of other cases of the session; None and {}: as the judged one's."""

    check: str | None = None
    variable: str | None = None  #: `triad_{n}` with the group `n` of the judged variable's pattern
    parameters: Mapping = field(default_factory=dict)
    environ: str = "same"  #: or `any`; `like`: of the same kind of message passing
    partition: str = "same"  #: or `like`: with the same processor
    link_class: str | None = None

    @property
    def of_own_case(self) -> bool:
        """Whether it is another variable of the judged case."""
        another = self.check or self.parameters or self.link_class
        return not another and self.environ == self.partition == "same"


@dataclass(frozen=True)
class Expectation:
    """A bound, where it applies, and why."""

    name: str
    checks: tuple[str, ...]
    of: Expression
    sentence: Sentence
    reason: str
    source: str
    variables: str | None = None  #: a regular expression; None: judged once for a case
    least: Expression | None = None
    most: Expression | None = None
    unit: str | None = None
    parameters: Mapping = field(default_factory=dict)
    where: Mapping = field(default_factory=dict)
    others: Mapping[str, Other] = field(default_factory=dict)
    fact: str | None = None  #: a recorded fact, which `matches` must match as a whole
    matches: str | None = None
    after_the_run: bool = False  #: it fails no case, but is said of a session
    overridden: str = ""  #: the site's reason for other bounds
    changed_at: str = ""  #: the place of these in the site's file

    @property
    def bounds(self) -> list[Expression]:
        return list(filter(None, (self.least, self.most)))

    @property
    def of_session(self) -> bool:
        """Whether it is judged after the run, as one that needs other cases is."""
        return bool(self.others) or self.after_the_run

    @property
    def of_machines(self) -> bool:
        """Whether its bounds are of machines like the case's."""
        return any(bound.names & set(OF_MACHINES) for bound in self.bounds)

    @property
    def plain(self) -> bool:
        """Whether its bounds are known before the variable is, as ReFrame's reference needs."""
        if self.fact or self.of_session or self.of.text != "value":
            return False
        # ReFrame's reference is fixed before the job runs.
        return not any(bound.over_own or bound.names & set(JUDGED) for bound in self.bounds)

    @property
    def asked(self) -> str:
        """The bounds as a person reads them: `at least 0.36 * link_speed_gbps`."""
        if self.fact and self.matches is not None:
            return f"{self.fact} matches {self.matches}"
        if not self.bounds:
            return "no bound"
        limits = []
        if self.least is not None:
            limits.append(f"at least {self.least.text}")
        if self.most is not None:
            limits.append(f"at most {self.most.text}")
        asked = ", ".join(limits)
        if self.of.text != "value":
            asked = f"{self.of.text} {asked}"
        return asked


def load(directory: Path | None = None) -> dict[str, Expectation]:
    """Every expectation by name. Raises ExpectationError.

    :arg directory: of files of expectations; None: the shipped ones, then those of each check.
    """
    expectations: dict[str, Expectation] = {}
    for place, name, entry in _entries(directory):
        # A site's file changes a bound by the name alone.
        if name in expectations:
            raise ExpectationError(f"{place}: another file has this name. Fix: rename one")
        expectations[name] = _parsed(place, name, entry)
    if not expectations:
        raise ExpectationError(f"{directory}: holds no expectation. Fix: restore it from git")
    return expectations


def _entries(directory: Path | None) -> Iterator[tuple[str, str, dict]]:
    """Place, name and entry of each expectation, with its checks."""
    try:
        checks = known.checks()
    except catalogue.CatalogueError as error:
        raise ExpectationError(str(error)) from None
    shared: dict[str, list[str]] = {}
    for check in checks:
        for name in check.shared_expectations:
            shared.setdefault(name, []).append(check.name)
    names = set()
    # In the files' order, which is that of the sentences on a case.
    for path in sorted((directory or EXPECTED).glob("*.yaml")):
        data = documents.read(path, SCHEMA, ExpectationError)
        for name, entry in data["expectations"].items():
            place = f"{path}: expectations.{name}"
            if "checks" not in entry and name not in shared:
                raise ExpectationError(
                    f"{place}: has no check. Fix: write `checks`, or list it under "
                    f"`shared_expectations` of a file in {catalogue.FILES}"
                )
            names.add(name)
            yield place, name, {"checks": shared.get(name, []), **entry}
    if directory is not None:
        return
    for check in checks:
        for name in check.shared_expectations:
            if name not in names:
                raise ExpectationError(
                    f"{check.path}: shared_expectations: "
                    f"{suggest.unknown_value('the expectation', name, names)}. Fix: correct it"
                )
        _refuse_faults(check)
        for name, entry in check.expectations.items():
            yield f"{check.path}: expectations.{name}", name, {**entry, "checks": [check.name]}


def _refuse_faults(check: catalogue.Check) -> None:
    """Raise ExpectationError where the schema does not allow a check's own expectations."""
    if not check.expectations:
        return
    for fault in documents.faults({"expectations": check.expectations}, SCHEMA):
        raise ExpectationError(f"{check.path}: {fault.sentence(files.read(check.path))}")


def _parsed(place: str, name: str, entry: dict) -> Expectation:
    others = {key: Other(**value) for key, value in entry.get("others", {}).items()}
    if not {"variables", "of", "fact"} & set(entry):
        raise ExpectationError(
            f"{place}: has neither `variables` nor `of`. Fix: say which variables it is about"
        )
    where = entry.get("where", {})
    for key in ("variables", "matches"):
        _check_pattern(f"{place}.{key}", entry.get(key, ""))
    for key in ("hypervisor", "cpu_model"):
        _check_pattern(f"{place}.where.{key}", where.get(key, ""))
    names = _readable(entry["checks"], entry.get("variables"), others)
    for key, fault in known.faults(entry):
        raise ExpectationError(f"{place}.{key}: {fault}. Fix: {CORRECT}")
    # The schema allows no key that an expectation lacks.
    fields = {"of": "value", **entry, "name": name, "others": others}
    fields["checks"] = names.checks
    for key in (*BOUNDS, "of"):
        if key in fields:
            fields[key] = read(f"{place}.{key}", fields[key], names)
    fields["sentence"] = _sentence(f"{place}.sentence", entry["sentence"], names)
    return Expectation(**fields)


def _check_pattern(place: str, pattern: str) -> None:
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ExpectationError(
            f"{place}: {pattern[:80]!r} is no regular expression ({error}). Fix: correct it"
        ) from None


@dataclass(frozen=True)
class Readable:
    """What the expressions of an expectation may name."""

    checks: tuple[str, ...]
    numbers: set[str]


def _readable(checks: Iterable[str], variables: str | None, others: Iterable[str]) -> Readable:
    """Groups of the pattern of variables are names, too."""
    groups = re.compile(variables or "").groupindex
    return Readable(tuple(checks), {*NUMBERS, *others, *groups})


def read(place: str, text, names: Readable) -> Expression:
    """An expression over these names. Raises ExpectationError, which names the place."""
    try:
        parsed = expression.parse(text)
    except ExpressionError as error:
        raise ExpectationError(f"{place}: {error}") from None
    _refuse_unknown(place, parsed, names)
    return parsed


def _sentence(place: str, text: str, names: Readable) -> Sentence:
    try:
        parsed = expression.parse_sentence(text)
    except ExpressionError as error:
        raise ExpectationError(f"{place}: {error}") from None
    for part in parsed.expressions:
        _refuse_unknown(place, part, names)
    return parsed


def _refuse_unknown(place: str, parsed: Expression, names: Readable) -> None:
    for name in sorted(parsed.names - names.numbers):
        raise ExpectationError(
            f"{place}: {suggest.unknown_value('the name', name, sorted(names.numbers))}. "
            "Fix: correct it"
        )
    if not parsed.over_own:
        return
    variables = known.variables(names.checks)
    fault = known.unknown_own(sorted(parsed.own), sorted(parsed.patterns), variables)
    if fault:
        raise ExpectationError(f"{place}: {fault}. Fix: {CORRECT}")


def overridden(
    expectations: Mapping[str, Expectation], changes: object, place: str
) -> dict[str, Expectation]:
    """The expectations with a site's own bounds.

    :arg changes: of a partition's extras: `{NAME: {least: .., most: .., reason: ..}}`; a bound of
        `none` drops it, and `variables` keeps the change to some variables.
    :arg place: of the changes, for errors. Raises ExpectationError.
    """
    if not isinstance(changes, Mapping):
        raise ExpectationError(
            f"{place}: {changes!r} is no mapping. Fix: write NAME: {{most: .., reason: ..}}"
        )
    changed = dict(expectations)
    for name, change in changes.items():
        if name not in expectations:
            raise ExpectationError(
                f"{place}: {suggest.unknown_value('the expectation', name, expectations)}. "
                "Fix: take a name that `nearmetal expect` prints"
            )
        _override(changed, expectations[name], change, f"{place}.{name}")
    return changed


def _override(
    expectations: dict[str, Expectation], shipped: Expectation, change, place: str
) -> None:
    """Replace an expectation, or split it by variables."""
    allowed = {"least", "most", "matches", "reason", "variables"}
    if not isinstance(change, Mapping) or set(change) - allowed:
        raise ExpectationError(f"{place}: write a mapping of {', '.join(sorted(allowed))} alone")
    reason = change.get("reason")
    if not isinstance(reason, str) or not reason.strip():
        raise ExpectationError(f"{place}.reason: is missing. Fix: say why the site expects else")
    bounds = _facts_bound(shipped, change, place) or _own_bounds(shipped, change, place)
    changed = replace(shipped, overridden=reason.strip(), changed_at=place, **bounds)
    pattern = change.get("variables")
    if pattern is None:
        expectations[shipped.name] = changed
        return
    if not isinstance(pattern, str) or shipped.variables is None:
        raise ExpectationError(
            f"{place}.variables: the expectation has no variables, or this is no text. "
            "Fix: delete the key"
        )
    _check_pattern(f"{place}.variables", pattern)
    # The change holds for variables that both patterns match, the shipped bound for the rest.
    both = f"(?=(?:{pattern})$)(?:{shipped.variables})"
    rest = f"(?!(?:{pattern})$)(?:{shipped.variables})"
    variables = known.variables(shipped.checks)
    if known.unmatched(both, variables):
        raise ExpectationError(
            f"{place}.variables: {known.unmatched(pattern, variables) or 'it is about others'}. "
            f"Fix: choose among the variables {shipped.variables!r}"
        )
    expectations[shipped.name] = replace(shipped, variables=rest)
    expectations[f"{shipped.name}_here"] = replace(
        changed, name=f"{shipped.name}_here", variables=both
    )


def _facts_bound(shipped: Expectation, change: Mapping, place: str) -> dict[str, str | None]:
    """What a site expects of a fact; {} if the expectation is about a number."""
    if shipped.fact is None:
        return {}
    given = {key: change[key] for key in ("matches", *BOUNDS) if key in change}
    if given and list(given.values()) == [NONE] * len(given):
        return {"matches": None}
    if set(given) != {"matches"} or not isinstance(given["matches"], str):
        raise ExpectationError(
            f"{place}: it is about the fact {shipped.fact}, which has no number. Fix: give "
            f"`matches`, a regular expression, or `matches: {NONE}`"
        )
    _check_pattern(f"{place}.matches", given["matches"])
    return {"matches": given["matches"]}


def _own_bounds(shipped: Expectation, change: Mapping, place: str) -> dict[str, Expression | None]:
    """The site's bounds of a number."""
    if "matches" in change:
        raise ExpectationError(
            f"{place}.matches: the expectation is about no fact. Fix: give least, most, or both"
        )
    if not set(BOUNDS) & set(change):
        raise ExpectationError(f"{place}: has no bound. Fix: give least, most, or both")
    names = _readable(shipped.checks, shipped.variables, shipped.others)
    bounds: dict[str, Expression | None] = {}
    for key in BOUNDS:
        if key not in change:
            continue
        bounds[key] = None
        if change[key] != NONE:
            bounds[key] = read(f"{place}.{key}", change[key], names)
        elif getattr(shipped, key) is None:
            raise ExpectationError(
                f"{place}.{key}: the expectation has no such bound, so that {NONE} changes "
                f"nothing. Its bound: {shipped.asked}. Fix: correct the key"
            )
    return bounds
