"""Expectations as data: the files, and what a site changes in them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import jsonschema

from nearmetal import choices, strict_yaml
from nearmetal.checkout import PACKAGE, REFERENCES
from nearmetal.errors import NearmetalError
from nearmetal.expectations import expression, sentence
from nearmetal.expectations.expression import Expression, ExpressionError
from nearmetal.expectations.sentence import Sentence

#: Names of a partition's extras that expressions may use. They hold numbers.
EXTRAS = (
    "link_speed_gbps",
    "link_signalling_gbps",
    "memory_gbps",
    "peak_gflops",
    "memory_gb",
    "guest_memory_gb",
    "cores_per_node",
    "nodes",
)
#: Names of recorded facts, likewise.
FACTS = ("cpus", "numa_nodes", "mem_total_kb")
#: Names of numbers that follow from facts (hardware.py).
DERIVED = ("core_gflops", "nic_gbps")
#: The judged variable, and the least and the most of its repeats.
JUDGED = ("value", "least_sample", "most_sample")
#: Key of a partition's extras with the site's own changes.
OVERRIDES = "expected"


class ExpectationError(NearmetalError):
    """Expectations are not usable. The message names file, key and fix."""


@dataclass(frozen=True)
class Other:
    """A value of another case of the session; None and {}: as the judged one's."""

    check: str | None = None
    variable: str | None = None
    parameters: Mapping = field(default_factory=dict)
    environ: str = "same"
    link_class: str | None = None


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

    @property
    def bounds(self) -> list[Expression]:
        return [one for one in (self.least, self.most) if one is not None]

    @property
    def of_session(self) -> bool:
        """Whether it is judged after the run, as one that needs other cases is."""
        return bool(self.others) or self.after_the_run

    @property
    def plain(self) -> bool:
        """Whether its bounds are known before the variable is, as ReFrame's reference needs."""
        if self.fact:
            return False
        late = any(one.over_own or one.names & set(JUDGED) for one in self.bounds)
        return self.of.text == "value" and not late and not self.of_session

    @property
    def asked(self) -> str:
        """The bounds as a person reads them: `at least 0.36 * link_speed_gbps`."""
        if self.fact:
            return f"{self.fact} matches {self.matches}"
        what = "" if self.of.text == "value" else f"{self.of.text} "
        low = [] if self.least is None else [f"at least {self.least.text}"]
        high = [] if self.most is None else [f"at most {self.most.text}"]
        return what + ", ".join([*low, *high])


def load(directory: Path = REFERENCES / "expected") -> dict[str, Expectation]:
    """Every expectation by name, in the files' order. Raises ExpectationError."""
    schema = strict_yaml.load((PACKAGE / "expectations" / "schema.yaml").read_bytes())
    validator = jsonschema.Draft202012Validator(schema)
    found: dict[str, Expectation] = {}
    for path in sorted(directory.glob("*.yaml")):
        for one in _read(path, validator):
            if one.name in found:
                raise ExpectationError(
                    f"{path}: expectations.{one.name}: another file has this name. Fix: rename one"
                )
            found[one.name] = one
    if not found:
        raise ExpectationError(f"{directory}: holds no expectation. Fix: restore it from git")
    return found


def _read(path: Path, validator) -> Iterator[Expectation]:
    try:
        data = strict_yaml.load(path.read_bytes())
    except (OSError, strict_yaml.YamlError) as error:
        raise ExpectationError(f"{path}: cannot be read as YAML: {error}") from None
    for fault in validator.iter_errors(data):
        place = ".".join(map(str, fault.absolute_path)) or "the file"
        fix = fault.schema.get("description")
        raise ExpectationError(
            f"{path}: {place}: {fault.message}" + (f". Fix: {fix}" if fix else "")
        )
    for name, entry in data["expectations"].items():
        yield _parsed(f"{path}: expectations.{name}", name, entry)


def _parsed(place: str, name: str, entry: dict) -> Expectation:
    others = {key: Other(**value) for key, value in entry.get("others", {}).items()}
    known = {*EXTRAS, *FACTS, *DERIVED, *JUDGED, *others}
    bounds = {
        key: read(f"{place}.{key}", entry[key], known) for key in ("least", "most") if key in entry
    }
    if not {"variables", "of", "fact"} & set(entry):
        raise ExpectationError(
            f"{place}: has neither `variables` nor `of`. Fix: say which variables it is about"
        )
    _check_pattern(f"{place}.variables", entry.get("variables", ""))
    _check_pattern(f"{place}.matches", entry.get("matches", ""))
    _check_pattern(f"{place}.where.hypervisor", entry.get("where", {}).get("hypervisor", ""))
    return Expectation(
        name=name,
        checks=tuple(entry["checks"]),
        of=read(f"{place}.of", entry.get("of", "value"), known),
        sentence=_sentence(f"{place}.sentence", entry["sentence"], known),
        reason=entry["reason"],
        source=entry["source"],
        variables=entry.get("variables"),
        unit=entry.get("unit"),
        parameters=entry.get("parameters", {}),
        where=entry.get("where", {}),
        others=others,
        after_the_run=entry.get("after_the_run", False),
        fact=entry.get("fact"),
        matches=entry.get("matches"),
        least=bounds.get("least"),
        most=bounds.get("most"),
    )


def _check_pattern(place: str, pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ExpectationError(
            f"{place}: {pattern!r} is no regular expression ({error}). Fix: correct it"
        ) from None


def read(place: str, text, known: set[str]) -> Expression:
    """An expression over these names. Raises ExpectationError, which names the place."""
    try:
        found = expression.parse(text)
    except ExpressionError as error:
        raise ExpectationError(f"{place}: {error}") from None
    _refuse_unknown(place, found, known)
    return found


def _sentence(place: str, text: str, known: set[str]) -> Sentence:
    try:
        found = sentence.parse(text)
    except ExpressionError as error:
        raise ExpectationError(f"{place}: {error}") from None
    for one in found.expressions:
        _refuse_unknown(place, one, known)
    return found


def _refuse_unknown(place: str, found: Expression, known: set[str]) -> None:
    for name in sorted(found.names - known):
        raise ExpectationError(
            f"{place}: {choices.unknown_value('the name', name, sorted(known))}. Fix: correct it"
        )


def overridden(
    expectations: Mapping[str, Expectation], changes: object, place: str
) -> dict[str, Expectation]:
    """The expectations with a site's own bounds.

    :arg changes: of a partition's extras: `{NAME: {least: .., most: .., reason: ..}}`; a bound of
        `none` drops it, and `variables` keeps the change to some variables.
    :arg place: of the changes, for errors. Raises ExpectationError.
    """
    found = dict(expectations)
    if not isinstance(changes, Mapping):
        raise ExpectationError(
            f"{place}: {changes!r} is no mapping. Fix: write NAME: {{most: .., reason: ..}}"
        )
    for name, change in changes.items():
        if name not in expectations:
            raise ExpectationError(
                f"{place}: {choices.unknown_value('the expectation', name, expectations)}. "
                "Fix: take a name that `nearmetal expect` prints"
            )
        _override(found, expectations[name], change, f"{place}.{name}")
    return found


def _override(found: dict[str, Expectation], shipped: Expectation, change, place: str) -> None:
    """Replace an expectation, or split it by variables."""
    allowed = {"least", "most", "reason", "variables"}
    if not isinstance(change, Mapping) or set(change) - allowed:
        raise ExpectationError(f"{place}: write a mapping of {', '.join(sorted(allowed))} alone")
    reason = change.get("reason")
    if not isinstance(reason, str) or not reason.strip():
        raise ExpectationError(f"{place}.reason: is missing. Fix: say why the site expects else")
    if not {"least", "most"} & set(change):
        raise ExpectationError(f"{place}: has no bound. Fix: give least, most, or both")
    known = {*EXTRAS, *FACTS, *DERIVED, *JUDGED, *shipped.others}
    bounds = {
        key: None if change[key] == "none" else read(f"{place}.{key}", change[key], known)
        for key in ("least", "most")
        if key in change
    }
    least, most = bounds.get("least", shipped.least), bounds.get("most", shipped.most)
    changed = replace(shipped, overridden=reason.strip(), least=least, most=most)
    pattern = change.get("variables")
    if pattern is None:
        found[shipped.name] = changed
        return
    if not isinstance(pattern, str) or shipped.variables is None:
        raise ExpectationError(
            f"{place}.variables: the expectation has no variables, or this is no text. "
            "Fix: delete the key"
        )
    _check_pattern(f"{place}.variables", pattern)
    both = f"(?=(?:{pattern})$)(?:{shipped.variables})"
    rest = f"(?!(?:{pattern})$)(?:{shipped.variables})"
    found[shipped.name] = replace(shipped, variables=rest)
    found[f"{shipped.name}_here"] = replace(changed, name=f"{shipped.name}_here", variables=both)
