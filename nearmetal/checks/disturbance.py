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
from nearmetal.model.disturbed import Cause
from nearmetal.util import documents
from nearmetal.util.text import rounded

RULES = REFERENCES / "disturbance.yaml"
#: Lines that repeats.sh prints into the output of a job, before each repeat and after the last.
MARK = re.compile(r"# nearmetal repeat: (\d+)\s*")
END = re.compile(r"# nearmetal repeats: (\d+)\s*")
#: Line in which a rank says at its end what it used (src/usage.h).
USAGE = "# nearmetal usage: "
#: Lines of disturbed.out: a quantity or a limit, a repeat that ran again, a node's lost counters.
LINE = re.compile(r"(repeat|disturbed) (\d+) (\S+) (\w+) (\S+)(?: (.*))?")
AGAIN = re.compile(r"again (\d+)")
UNKNOWN = re.compile(r"unknown (\d+) (\S+) (\S.*)")
#: Of the file of rules.
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
    by_name = {}
    for name, rule in data.items():
        by_name[name] = _rule(name, rule)
        # Now, and not where the first repeat is disturbed.
        try:
            _in_words(by_name[name], 0.0, "")
        except (KeyError, IndexError, ValueError) as error:
            raise EvidenceError(
                f"{path}: {name}.cause: {error!r}. Fix: use {{percent}}, {{number}} and "
                "{detail} alone"
            ) from None
    return by_name


def _rule(name: str, data: Mapping) -> Rule:
    worst = max
    if "worst" in data:
        worst = min
    link_classes = tuple(data.get("link_classes", ()))
    return Rule(name, data["cause"], data.get("most"), link_classes, data.get("unless", ""), worst)


def with_limits(known: Mapping[str, Rule], own: Mapping[str, float]) -> dict[str, Rule]:
    """The rules with a site's own limits, which hold on every class of link.

    Raises EvidenceError for what no rule is of.
    """
    if unknown := sorted(set(own) - set(known)):
        raise EvidenceError(
            f"{', '.join(unknown)}: no such quantity. Fix: name one of {', '.join(sorted(known))}"
        )
    combined = dict(known)
    for name, most in own.items():
        # A site's limit is of its own machines, whatever their link.
        combined[name] = replace(known[name], most=float(most), link_classes=())
    return combined


def limits(known: Mapping[str, Rule], link_class: str) -> str:
    """The limits for a class of link as disturbed.awk takes them: `stolen=0.02 waited=0.1=NAME`,
    where NAME is an environment variable that lifts the limit."""
    words = []
    for rule in known.values():
        other_class = rule.link_classes and link_class not in rule.link_classes
        if rule.most is None or other_class:
            continue
        word = f"{rule.name}={rule.most:g}"
        if rule.unless:
            word += f"={rule.unless}"
        words.append(word)
    return " ".join(words)


def parse(text: str, known: Mapping[str, Rule]) -> list[Repeat]:
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
            repeat, host, reason = int(match[1]), match[2], match[3]
            values.setdefault(repeat, {})
            unknown.setdefault(repeat, {})[host] = reason
            continue
        match = LINE.fullmatch(line)
        try:
            assert match
            kind, repeat, host, name = match[1], int(match[2]), match[3], match[4]
            value, rest = float(match[5]), match[6] or ""
            assert math.isfinite(value) and name in known
        except (AssertionError, ValueError):
            raise EvidenceError(f"disturbed.out: line {number} is damaged: {line!r}") from None
        of_repeat = values.setdefault(repeat, {})
        # A repeat was as good as its worst node: all ranks wait for the last one.
        if kind == "repeat":
            of_repeat[name] = known[name].worst(value, of_repeat.get(name, value))
        else:
            _limit, _, detail = rest.partition(" ")
            causes.setdefault(repeat, {}).setdefault(name, []).append((value, detail, host))
    # A repeat that runs again was disturbed, so that it has causes.
    if sorted(values) != list(range(1, len(values) + 1)) or not again <= set(causes):
        raise EvidenceError("disturbed.out: lines of a repeat were lost")
    repeats = []
    for number in sorted(values):
        of_rules = causes.get(number, {})
        of_repeat_causes = tuple(_cause(known[name], nodes) for name, nodes in of_rules.items())
        lost = unknown.get(number, {})
        repeats.append(Repeat(number, values[number], of_repeat_causes, number in again, lost))
    return repeats


def stored(repeats: list[Repeat]) -> tuple[dict, list, list[str]]:
    """What a check stores of its repeats: evidence by quantity, disturbed ones, unknown ones."""
    evidence: dict[str, list] = {}
    for repeat in repeats:
        for name in repeat.values:
            evidence[name] = []
    for name, values in evidence.items():
        values += [repeat.values.get(name) for repeat in repeats]
    disturbed = []
    for repeat in repeats:
        causes = [[cause.rule, cause.value, cause.text] for cause in repeat.causes]
        if causes:
            disturbed.append([repeat.number, repeat.again, *causes])
    return evidence, disturbed, not_known(repeats)


def not_known(repeats: list[Repeat]) -> list[str]:
    """A sentence for each node whose evidence of some repeats was lost, with what to do."""
    lost: dict[tuple[str, str], list[int]] = {}
    for repeat in repeats:
        for host, reason in repeat.unknown.items():
            lost.setdefault((host, reason), []).append(repeat.number)
    return [
        f"whether something disturbed repeat {', '.join(map(str, numbers))} on {host} is not "
        f"known: {reason}. Fix: try `sh reframe_checks/src/provenance.sh counters` on {host}, "
        "which needs awk and /proc/stat, and run the case again"
        for (host, reason), numbers in lost.items()
    ]


def _cause(rule: Rule, nodes: list[tuple[float, str, str]]) -> Cause:
    """The cause of a repeat by one rule, in the words of the worst node.

    :arg nodes: value, detail and host of each node.
    """
    value, detail, _ = max(nodes)
    hosts = ", ".join(sorted(host for _, _, host in nodes))
    return Cause(rule.name, value, f"{_in_words(rule, value, detail)} on {hosts}")


def _in_words(rule: Rule, value: float, detail: str) -> str:
    """`47 % of processor time went to other processes: reframe, cc1`."""
    names = ", ".join(map(_process, filter(None, detail.split(","))))
    percent, number = rounded(100 * value), rounded(value)
    return rule.cause.format(percent=percent, number=number, detail=names)


def _process(text: str) -> str:
    """`1000.reframe` as `reframe (alice)`."""
    uid, dot, command = text.partition(".")
    if not dot or not uid.isdecimal():
        return text
    try:
        # Nodes of a cluster have the users of its login node.
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
    again = {repeat.number for repeat in repeats if repeat.again}
    kept, seen, keep, last = [], [], True, 0
    for line in text.splitlines(keepends=True):
        if match := MARK.fullmatch(line):
            seen.append(int(match[1]))
            keep = seen[-1] not in again
        elif match := END.fullmatch(line):
            last, keep = int(match[1]), True
        elif keep:
            kept.append(line)
    wanted = [repeat.number for repeat in repeats]
    if seen != wanted or last != len(wanted):
        raise EvidenceError(
            f"the output holds repeats {', '.join(map(str, seen)) or 'none'} of {len(wanted)}: "
            "lines were lost"
        )
    return without_usage("".join(kept))
