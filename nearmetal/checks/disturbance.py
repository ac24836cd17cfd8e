"""Whether a repeat had its nodes to itself: rules as data, and what src/disturbed.awk found.

Pure functions of text and of rules. Quantities: reframe_checks/references/disturbance.yaml.
"""

from __future__ import annotations

import functools
import math
import pwd
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from nearmetal.checkout import REFERENCES
from nearmetal.expectations import sentence
from nearmetal.model.disturbed import Cause
from nearmetal.util import documents

RULES = REFERENCES / "disturbance.yaml"
MARK = re.compile(r"# nearmetal repeat: (\d+)\s*")
END = re.compile(r"# nearmetal repeats: (\d+)\s*")
USAGE = "# nearmetal usage: "
LINE = re.compile(r"(repeat|disturbed) (\d+) (\S+) (\w+) (\S+)(?: (.*))?")
AGAIN = re.compile(r"again (\d+)")
UNKNOWN = re.compile(r"unknown (\d+) (\S+) (\S.*)")
SCHEMA = {
    "type": "object",
    "minProperties": 1,
    "additionalProperties": {
        "type": "object",
        "required": ["what", "cause"],
        "additionalProperties": False,
        "properties": {
            "what": {"type": "string", "minLength": 1},
            "most": {"type": "number", "minimum": 0},
            "why": {"type": "string", "minLength": 1},
            "link_classes": {"type": "array", "minItems": 1, "items": {"type": "string"}},
            "unless": {"type": "string", "pattern": "^[A-Za-z_]\\w*$"},
            "worst": {"enum": ["lowest"]},
            "cause": {"type": "string", "minLength": 1},
        },
        "dependentRequired": {"most": ["why"], "link_classes": ["most"], "unless": ["most"]},
    },
}


class EvidenceError(ValueError):
    """Evidence or a rule is not usable. The message says why."""


@dataclass(frozen=True)
class Rule:
    """A quantity of a repeat, and the most of it that is no disturbance."""

    name: str
    cause: str  #: in words, with {percent}, {number} and {detail}
    most: float | None = None  #: None: it is recorded, and judged by nobody
    link_classes: tuple[str, ...] = ()  #: where the limit holds; (): everywhere
    unless: str = ""  #: environment variable of the job that lifts the limit
    worst: Callable[[float, float], float] = max  #: of two nodes' values, the one of the repeat


@dataclass(frozen=True)
class Repeat:
    """One repeat, as its nodes saw it."""

    number: int  #: from 1, in the order of the job
    values: Mapping[str, float] = field(default_factory=dict)  #: of the worst node
    causes: tuple[Cause, ...] = ()
    again: bool = False  #: whether another repeat ran in its place
    #: Node -> which of its counters were lost. Whether something disturbed it there is not known.
    unknown: Mapping[str, str] = field(default_factory=dict)


@functools.cache
def rules(path: Path = RULES) -> dict[str, Rule]:
    """The rules by quantity. Raises EvidenceError, which names file and key."""
    data = documents.read(path, SCHEMA, EvidenceError, "correct it")
    found = {
        name: Rule(
            name,
            rule["cause"],
            rule.get("most"),
            tuple(rule.get("link_classes", ())),
            rule.get("unless", ""),
            min if rule.get("worst") else max,
        )
        for name, rule in data.items()
    }
    for rule in found.values():
        try:
            _said(rule, 0.0, "")
        except (KeyError, IndexError, ValueError) as error:
            raise EvidenceError(
                f"{path}: {rule.name}.cause: {error!r}. Fix: use {{percent}}, {{number}} and "
                "{detail} alone"
            ) from None
    return found


def with_limits(found: Mapping[str, Rule], own: Mapping[str, float]) -> dict[str, Rule]:
    """The rules with a site's own limits, which hold on every class of link.

    Raises EvidenceError for what no rule is of.
    """
    if unknown := sorted(set(own) - set(found)):
        raise EvidenceError(
            f"{', '.join(unknown)}: no such quantity. Fix: name one of {', '.join(sorted(found))}"
        )
    replaced = {
        name: replace(found[name], most=float(most), link_classes=()) for name, most in own.items()
    }
    return {**found, **replaced}


def limits(found: Mapping[str, Rule], link_class: str) -> str:
    """The limits for a class of link as disturbed.awk takes them: `stolen=0.02 waited=0.1=NAME`,
    where NAME is an environment variable that lifts the limit."""
    return " ".join(
        f"{one.name}={one.most:g}" + (one.unless and f"={one.unless}")
        for one in found.values()
        if one.most is not None and link_class in (one.link_classes or [link_class])
    )


def parse(text: str, found: Mapping[str, Rule]) -> list[Repeat]:
    """The repeats of a job, from disturbed.out. Raises EvidenceError for a damaged line."""
    values: dict[int, dict[str, float]] = {}
    causes: dict[int, dict[str, list[tuple[float, str, str]]]] = {}
    unknown: dict[int, dict[str, str]] = {}
    again = set()
    for number, line in enumerate(text.splitlines(), 1):
        if match := AGAIN.fullmatch(line):
            again.add(int(match[1]))
            continue
        if match := UNKNOWN.fullmatch(line):
            values.setdefault(int(match[1]), {})
            unknown.setdefault(int(match[1]), {})[match[2]] = match[3]
            continue
        match = LINE.fullmatch(line)
        try:
            assert match
            word, repeat, host, name = match[1], int(match[2]), match[3], match[4]
            value, rest = float(match[5]), match[6] or ""
            assert math.isfinite(value) and name in found
        except (AssertionError, ValueError):
            raise EvidenceError(f"disturbed.out: line {number} is damaged: {line!r}") from None
        of_repeat = values.setdefault(repeat, {})
        if word == "repeat":
            of_repeat[name] = found[name].worst(value, of_repeat.get(name, value))
        else:
            said = value, rest.partition(" ")[2], host
            causes.setdefault(repeat, {}).setdefault(name, []).append(said)
    if sorted(values) != list(range(1, len(values) + 1)) or not again <= set(causes):
        raise EvidenceError("disturbed.out: lines of a repeat were lost")
    return [
        Repeat(
            number,
            values[number],
            tuple(_cause(found[name], said) for name, said in causes.get(number, {}).items()),
            number in again,
            unknown.get(number, {}),
        )
        for number in sorted(values)
    ]


def stored(repeats: list[Repeat]) -> tuple[dict, list, list[str]]:
    """What a check stores of its repeats: evidence by quantity, disturbed ones, unknown ones."""
    names = dict.fromkeys(name for one in repeats for name in one.values)
    evidence = {name: [one.values.get(name) for one in repeats] for name in names}
    disturbed = [
        [one.number, one.again, *([why.rule, why.value, why.text] for why in one.causes)]
        for one in repeats
        if one.causes
    ]
    return evidence, disturbed, not_known(repeats)


def not_known(repeats: list[Repeat]) -> list[str]:
    """A sentence for each node whose evidence of some repeats was lost, with what to do."""
    lost: dict[tuple[str, str], list[int]] = {}
    for one in repeats:
        for host, words in one.unknown.items():
            lost.setdefault((host, words), []).append(one.number)
    return [
        f"whether something disturbed repeat {', '.join(map(str, numbers))} on {host} is not "
        f"known: {words}. Fix: try `sh reframe_checks/src/provenance.sh counters` on {host}, which "
        "needs awk and /proc/stat, and run the case again"
        for (host, words), numbers in lost.items()
    ]


def _cause(rule: Rule, said: list[tuple[float, str, str]]) -> Cause:
    """The cause of a repeat by one rule, in the words of the worst node."""
    value, detail, _ = max(said)
    hosts = ", ".join(sorted(host for _, _, host in said))
    return Cause(rule.name, value, f"{_said(rule, value, detail)} on {hosts}")


def _said(rule: Rule, value: float, detail: str) -> str:
    """`47 % of processor time went to other processes: reframe, cc1`."""
    names = ", ".join(map(_process, filter(None, detail.split(","))))
    percent, number = sentence.number(100 * value), sentence.number(value)
    return rule.cause.format(percent=percent, number=number, detail=names)


def _process(text: str) -> str:
    """`1000.reframe` as `reframe (alice)`."""
    uid, dot, command = text.partition(".")
    if not dot or not uid.isdecimal():
        return text
    try:
        return f"{command} ({pwd.getpwuid(int(uid)).pw_name})"
    except (KeyError, OverflowError):
        return f"{command} (uid {uid})"


def without_usage(text: str) -> str:
    """An output without what the ranks say of themselves at their end."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(USAGE))


def measured(text: str, repeats: list[Repeat]) -> str:
    """The output of a job without the repeats that ran again, and without lines of evidence.

    Raises EvidenceError if the output of a repeat is missing.
    """
    again = {one.number for one in repeats if one.again}
    kept, seen, keep, last = [], [], True, 0
    for line in text.splitlines(keepends=True):
        if match := MARK.fullmatch(line):
            seen.append(int(match[1]))
            keep = seen[-1] not in again
        elif match := END.fullmatch(line):
            last, keep = int(match[1]), True
        elif keep:
            kept.append(line)
    wanted = [one.number for one in repeats]
    if seen != wanted or last != len(wanted):
        raise EvidenceError(
            f"the output holds repeats {', '.join(map(str, seen)) or 'none'} of {len(wanted)}: "
            "lines were lost"
        )
    return without_usage("".join(kept))
