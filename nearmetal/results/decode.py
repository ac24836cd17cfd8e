"""A session from the JSON that ReFrame stores. A wrong type or a contradiction is an error."""

from __future__ import annotations

import functools
import json
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

import orjson

from nearmetal.model import metrics, naming, settings
from nearmetal.model.facts import DIFFERENCES, NODES
from nearmetal.results import reruns
from nearmetal.results.session import (
    CONFIRMS,
    FACTS,
    XFAIL,
    XPASS,
    Case,
    Cause,
    Disturbed,
    ResultsError,
    Session,
    Value,
)
from nearmetal.util import sanitize, typed_json
from nearmetal.util.typed_json import ShapeError

#: Major version of the session format (ReFrame 4.x writes 4.y).
DATA_VERSION = "4"
#: Reason of a failure that ReFrame gives no reason for, by result.
FAILED = {"fail_deps": "a dependency failed"}
#: Numbers of a case: ReFrame's name and the name in published figures (published.py).
WORKLOAD = {
    "num_tasks": "processes",
    "num_nodes": "nodes",
    "num_tasks_per_node": "processes_per_node",
    "megabytes": "megabytes",
}
#: Beginning of ReFrame's reason for a case that passes, though it is expected to fail. Its result
#: is `fail`.
UNEXPECTED = "unexpected success error: "
#: ReFrame's results of a case.
OUTCOMES = ("pass", "fail", "xfail", "xpass", "abort", "skip", "fail_deps", "<unknown>")
#: Variables that had another name: check and name then, name and unit now.
RENAMED = {("hpcc", "hpl_share"): ("hpl_of_dgemm", "% of DGEMM")}
#: A value is the median of its samples: to six significant digits, or as Python computes it.
DIGITS, EXACT = 6, 1e-9


def loads(blob: bytes) -> dict:
    """A session's JSON. NaN and Infinity, which JSON lacks and ReFrame stores, become texts.

    Raises orjson.JSONDecodeError.
    """
    try:
        return orjson.loads(blob)
    except orjson.JSONDecodeError:
        try:
            found = json.loads(blob.decode(), parse_constant=str, parse_float=_float)
            return orjson.loads(orjson.dumps(found))  # refuses lone surrogates
        except (AttributeError, ValueError, TypeError, RecursionError):
            pass  # the first error says what is wrong
        raise


def _float(text: str) -> float | str:
    """The number; the text itself where it is too large for one."""
    number = float(text)
    return number if math.isfinite(number) else text


def parse_session(data: dict, origin) -> Session:
    """A session from its JSON. Raises ResultsError, which names the wrong key."""
    try:
        return _parse_session(typed_json.mapping(data, "the session"), origin)
    except ShapeError as error:
        raise ResultsError(f"{origin}: {error}") from None


def _parse_session(data: Mapping, origin) -> Session:
    """Raises ShapeError, ResultsError."""
    info = typed_json.mapping(data.get("session_info", {}), "session_info")
    version = str(info.get("data_version", "none"))
    if version.split(".", maxsplit=1)[0] != DATA_VERSION:
        raise ResultsError(
            f"{origin}: session format {version}, but {DATA_VERSION}.x is needed: "
            "use the ReFrame that requirements.lock pins"
        )
    places = {}
    for place, case in _placed(data):
        for name in ("display_name", "name", "partition", "environ", "system"):
            typed_json.name(case, name, place)
        if case.get("result") not in OUTCOMES:
            raise typed_json.wrong(f"{place}.result", "an outcome of a case", case.get("result"))
        places[id(case)] = place
    line = typed_json.text(info, "cmdline", "session_info", "")
    found = reruns.outcomes(data["runs"], line)
    every = [outcome for outcomes in found.values() for outcome in outcomes]
    systems = {case["system"] for case in every}
    # A passed fixture has no values. A failed one is the reason why other cases were not measured.
    done = {
        key
        for key, outcomes in found.items()
        if all(case.get("fixture") and case["result"] == "pass" for case in outcomes)
    }
    missing = max(0, int(typed_json.number(info, "num_cases", "session_info", 0)) - len(found))
    remaining = [case for key in found if key not in done for case in found[key]]
    cases, skipped = _cases(remaining, places, _of_one_name(found))
    reasons = {key: reason for key, reason in skipped.items() if reason}
    cases = [_with_settings(case, line) for case in cases]
    return Session(
        sanitize.name(typed_json.name(info, "uuid", "session_info")),
        sanitize.name(typed_json.name(info, "time_start", "session_info")),
        sanitize.name(",".join(sorted(systems))),
        tuple(cases),
        typed_json.number(info, "time_start_unix", "session_info"),
        sanitize.line(line),
        tuple(skipped),
        len(cases) + len(skipped) + missing,
        typed_json.text(info, "workdir", "session_info", ""),
        typed_json.text(info, CONFIRMS, "session_info", ""),
        next(filter(None, (_selection(case, places[id(case)]) for case in every)), {}),
        sanitize.name(typed_json.text(info, "hostname", "session_info", "")),
        reasons=reasons,
    )


def _with_settings(case: Case, line: str) -> Case:
    """A case of others with what the session's command sets in it: it may be another workload."""
    if not case.foreign:
        return case
    return replace(case, facts={**case.facts, **settings.fact(line, case.check.split()[0])})


def _selection(case: Mapping, place: str) -> dict:
    """The requested selection, as site/selection.py recorded it; {} if it is not stored.

    Raises ShapeError.
    """
    if _is_foreign(case) or not case.get("selection") or case["selection"] == typed_json.UNDEFINED:
        return {}
    found = typed_json.mapping(case["selection"], f"{place}.selection")
    lists = {
        key: typed_json.texts(found, key, f"{place}.selection") for key in ("environs", "paths")
    }
    names = ("system", "database")
    texts = {key: typed_json.text(found, key, f"{place}.selection", "") for key in names}
    return {**texts, **lists}


def _placed(data: Mapping) -> Iterator[tuple[str, Mapping]]:
    """Each test case of each run, with its place. Raises ShapeError."""
    for number, run in enumerate(typed_json.sequence(data.get("runs"), "runs")):
        run = typed_json.mapping(run, f"runs.{number}")
        place = f"runs.{number}.testcases"
        for index, case in enumerate(typed_json.sequence(run.get("testcases"), place)):
            yield f"{place}.{index}", typed_json.mapping(case, f"{place}.{index}")


@functools.lru_cache(maxsize=65536)
def parameters(check: str) -> Mapping[str, str]:
    """The parameters in a display name, as text: `pingpong %placement=internode` has one."""
    return MappingProxyType(dict(naming.PARAMETER.findall(check)))


def parse_case(case: dict, place: str = "case") -> Case:
    """A test case as ReFrame stores it. Raises ShapeError."""
    texts = [typed_json.name(case, key, place) for key in ("display_name", "environ", "partition")]
    name = naming.parse(sanitize.name(texts[0]))
    where = name.check, sanitize.name(texts[1]), sanitize.name(texts[2])
    failure, phase = _failure(case, place)
    values: tuple[Value, ...] = ()
    curves: dict[str, dict[int, tuple[float, ...]]] = {}
    evidence: tuple[dict[str, float], ...] = ()
    try:
        values = _values(case, where, name.node, place)
        curves = _curves(case, place)
        evidence = _evidence(case, place)
    except typed_json.OddValueError as error:
        # Other cases are whole. Of this one, nobody knows what else is wrong.
        values, phase = (), None
        odd = f"{error}. Fix: let the check give a finite number"
        failure = "; ".join(filter(None, [odd, failure]))
    return Case(
        where[0],
        where[2],
        where[1],
        values,
        _facts_of(case, place),
        curves,
        failure and (sanitize.text(failure) or case["result"]),
        phase,
        _xfail(case, name.check, place),
        sanitize.every({key: case.get(key, text) for key, text in parameters(where[0]).items()}),
        _own_exemption(case, place),
        typed_json.number(case, "job_completion_time_unix", place, 0.0),
        bool(case.get("fixture")),
        _texts(case, "unreferenced", place),
        _texts(case, "unexpected", place),
        _workload(case, place),
        name.node,
        link_class=sanitize.line(typed_json.text(case, "link_class", place, "")),
        disturbances=_disturbances(case, place),
        evidence=evidence,
        unknown_evidence=_texts(case, "unknown_evidence", place),
        foreign=_is_foreign(case),
        links=dict(_ours(case, "links", place)),
        node_values=dict(_ours(case, "node_values", place)),
        congestion=dict(_ours(case, "congestion", place)),
    )


def _failure(case: Mapping, place: str) -> tuple[str | None, str | None]:
    """Reason and phase of a case's failure; None if it passed, or failed as expected.

    Raises ShapeError.
    """
    if case["result"] in ("pass", XFAIL):
        return None, None
    reason = typed_json.text(case, "fail_reason", place, "")
    if case["result"] == XPASS or reason.startswith(UNEXPECTED):
        told = reason.removeprefix(UNEXPECTED)
        reason = f"{XPASS}: it passed, though it is expected to fail: {told}. Fix: end its xfail"
    phase = sanitize.line(typed_json.text(case, "fail_phase", place, "")) or None
    return reason or FAILED.get(case["result"], case["result"]), phase


def _xfail(case: Mapping, check: str, place: str) -> str:
    """The reason of an expected failure; '' for any other outcome. Raises ShapeError."""
    if case["result"] != XFAIL:
        return ""
    reason = sanitize.line(typed_json.text(case, "fail_reason", place, ""))
    if reason:
        return reason
    file = sanitize.line(typed_json.text(case, "filename", place, "") or "its file")
    return f"it failed as expected. ReFrame stores no reason: see the xfail of {check} in {file}"


def _disturbances(case: Mapping, place: str) -> tuple[Disturbed, ...]:
    """Disturbed repeats. Raises ShapeError."""
    found = case.get("disturbed")
    if found is None or found == typed_json.UNDEFINED:
        return ()
    repeats = []
    for number, one in enumerate(typed_json.sequence(found, f"{place}.disturbed")):
        here = f"{place}.disturbed.{number}"
        parts = list(typed_json.sequence(one, here))
        if [type(part) for part in parts[:2]] != [int, bool]:
            raise typed_json.wrong(here, "a repeat, whether it ran again, and causes", one)
        repeat, again, *causes = parts
        repeats.append(Disturbed(repeat, again, tuple(_cause(why, here) for why in causes)))
    return tuple(repeats)


def _evidence(case: Mapping, place: str) -> tuple[dict[str, float], ...]:
    """The quantities of each repeat, from a list by quantity. Raises ShapeError."""
    if _is_foreign(case):
        return ()  # a check of others, whose `evidence` is its own
    columns = {}
    for name, values in _ours(case, "evidence", place).items():
        here = f"{place}.evidence.{name}"
        known = [value for value in typed_json.sequence(values, here) if value is not None]
        typed_json.numbers(known, here)
        columns[sanitize.name(name)] = values
    if len({len(values) for values in columns.values()}) > 1:
        raise typed_json.wrong(f"{place}.evidence", "one value of each repeat", case["evidence"])
    return tuple(
        {name: value for name, value in zip(columns, row) if value is not None}
        for row in zip(*columns.values())
    )


def _cause(found: object, place: str) -> Cause:
    """Raises ShapeError."""
    parts = found if isinstance(found, list) else []
    if [type(part) for part in parts] not in ([str, int, str], [str, float, str]):
        raise typed_json.wrong(place, "a rule, a value and a text", found)
    rule, value, text = parts
    return Cause(sanitize.line(rule), value, sanitize.line(text))


def _texts(case: Mapping, key: str, place: str) -> tuple[str, ...]:
    """A list of texts that our base check stores; () in sessions before this was stored."""
    found = case.get(key)
    if found is None or found == typed_json.UNDEFINED:
        return ()
    return tuple(map(sanitize.line, typed_json.texts(case, key, place)))


def _workload(case: Mapping, place: str) -> dict:
    found = {name: typed_json.number(case, key, place, 0) for key, name in WORKLOAD.items()}
    return {name: value for name, value in found.items() if value}


def _own_exemption(case: Mapping, place: str) -> str:
    """The check's reason for having no reference; "" if only the partition gives one."""
    # Older versions did not store whether the check or the partition gave the reason. At that time,
    # only duets gave one.
    duet = "duet" in _ours(case, "facts", place)
    own = case.get("no_baseline_of", "check" if duet else "partition") == "check"
    return sanitize.line(typed_json.text(case, "no_baseline", place, "")) if own else ""


def _is_foreign(case: Mapping) -> bool:
    """Whether a check of others stored the case: no facts and no samples."""
    return type(case.get("facts")) is not dict and type(case.get("samples")) is not dict


def _variable(key: str) -> str:
    """The variable of a key SYSTEM:PARTITION:VARIABLE; the variable may hold colons."""
    return key.split(":", 2)[-1]


def _nodes(case: Mapping) -> dict[str, list[str]]:
    """The fact `nodes` of a check of others: the nodes that ReFrame was told of; {} if unknown."""
    nodes = case.get("job_nodelist")
    if not _is_foreign(case) or type(nodes) is not list or not nodes:
        return {}
    return {"nodes": [node for node in nodes if type(node) is str]}


def _ours(case: Mapping, name: str, place: str) -> Mapping:
    """An object that our base check stores; {} in other checks, which may use the same name.

    Our base check stores both facts and samples. One alone means damage.
    """
    found = case.get(name)
    if type(found) is dict:
        return found
    if type(case.get("facts")) is dict and type(case.get("samples")) is dict:
        if found is None or found == typed_json.UNDEFINED:
            return {}  # an older session, in which this was not stored
        raise typed_json.wrong(f"{place}.{name}", "an object", found)
    if type(case.get("facts")) is dict or type(case.get("samples")) is dict:
        raise typed_json.wrong(
            f"{place}.{name}", "an object, though the case has facts or samples", found
        )
    return {}


def _values(case: Mapping, where: tuple[str, str, str], node: str, place: str) -> tuple[Value, ...]:
    """The performance variables of a case. Raises ShapeError if one contradicts its samples."""
    all_samples, all_within = _ours(case, "samples", place), _ours(case, "within", place)
    values: list[Value] = []
    stored: set[str] = set()
    for key, entry in typed_json.items(case, "perfvalues", place):
        here = f"{place}.perfvalues.{key}"
        # ReFrame before 4.9 stores five: value, reference, bounds and unit.
        if type(entry) is not list or len(entry) not in (5, 6):
            raise typed_json.wrong(here, "a list of five or six", entry)
        value, unit, name = entry[0], entry[4], _variable(key)
        if value is None and case["result"] != "pass":
            continue  # the case failed before it had this value
        if value is not None and typed_json.is_odd(value):
            raise typed_json.odd(f"{here}.0", value)
        if type(value) not in typed_json.NUMBERS:
            raise typed_json.wrong(f"{here}.0", "a number", value)
        if type(unit) is not str:
            raise typed_json.wrong(f"{here}.4", "a unit", unit)
        samples = typed_json.numbers(all_samples.get(name, []), f"{place}.samples.{name}")
        within: tuple[tuple[float, ...], ...] = ()
        if name in all_within:
            within = typed_json.rows(all_within[name], f"{place}.within.{name}")
        stored.add(sanitize.name(name))
        if not samples and _is_foreign(case):
            samples = (value,)  # one launch
        better = metrics.of_bounds(*entry[2:4])
        expected = entry[5] if entry[5:] in ([XFAIL], [XPASS]) else ""
        name, unit = RENAMED.get((where[0].split(" ", 1)[0], name), (name, unit))
        values.append(
            Value(
                *(*where, sanitize.name(name), value, sanitize.name(unit)),
                *(samples, within, node, better, expected),
            )
        )
    _refuse_values_beside_their_samples(values, place)
    lost = sorted(set(map(sanitize.name, all_samples)) - stored)
    if lost and case["result"] == "pass":
        raise ShapeError(f"{place}.perfvalues lacks {', '.join(lost)}, which has samples")
    return tuple(values)


def _refuse_values_beside_their_samples(values: list[Value], place: str) -> None:
    """Raise ShapeError unless all values are medians of their samples, or all are means."""
    for middle in (statistics.median, statistics.fmean):
        other = [value for value in values if value.samples and not _is(value, middle)]
        if not other:
            return
        if middle is statistics.median:
            first = other[0]
    raise ShapeError(
        f"{place}.perfvalues: {first.variable} is {first.value!r}, which is not the median of its "
        "samples"
    )


def _is(value: Value, middle) -> bool:
    whole = middle(value.samples)
    if value.value == whole:
        return True
    rounded = float(f"{whole:.{DIGITS}g}")
    return any(math.isclose(value.value, one, rel_tol=EXACT) for one in (whole, rounded))


def _curves(case: Mapping, place: str) -> dict[str, dict[int, tuple[float, ...]]]:
    """Samples by message size. Raises ShapeError."""
    return {
        name: typed_json.curve(curve, f"{place}.curves.{name}")
        for name, curve in _ours(case, "curves", place).items()
    }


def _facts_of(case: Mapping, place: str) -> dict[str, str]:
    """A case's facts. Raises ShapeError."""
    named = {name: case[name] for name in FACTS if case.get(name)}
    if _is_foreign(case):  # whose attributes of these names are its own
        named = {name: value for name, value in named.items() if type(value) is str}
    try:
        packed = orjson.dumps({**_nodes(case), **_ours(case, "facts", place), **named})
        return _facts(packed)
    except ShapeError as error:
        raise ShapeError(f"{place}.facts{error}") from None


@functools.lru_cache(maxsize=4096)
def _facts(packed: bytes) -> dict[str, str]:
    """Facts from JSON. Equal facts share one dictionary, to save time and memory.

    Raises ShapeError.
    """
    found = orjson.loads(packed)
    for name, value in found.items():
        if name == NODES and type(value) is list:
            typed_json.texts(found, name, "")
        elif name != DIFFERENCES and type(value) is not str:
            raise typed_json.wrong(f".{name}", "a text", value)
    return sanitize.every(found)


def _cases(
    outcomes: list[dict], places: dict[int, str], tests: Mapping[tuple[str, str, str], int]
) -> tuple[list[Case], dict[tuple[str, str, str], str]]:
    """The cases of all runs, and the cases that their check skipped with the reason.

    :arg tests: number of tests by display name, partition and environment.
    """
    grouped: dict[tuple[str, str, str], list[Case]] = {}
    skipped: dict[tuple[str, str, str], str] = {}
    for outcome in outcomes:
        case = parse_case(outcome, places[id(outcome)])
        count = tests[outcome["display_name"], outcome["partition"], outcome["environ"]]
        if count > 1:
            grouped[case.where] = [_ambiguous(case, count)]
        elif outcome["result"] == "skip":
            reason = typed_json.text(outcome, "skip_reason", places[id(outcome)], "")
            skipped[case.where] = sanitize.line(reason)
        else:
            grouped.setdefault(case.where, []).append(case)
    return [reruns.merged(runs) for runs in grouped.values()], skipped


def _of_one_name(found: Iterable[reruns.Identity]) -> Counter[tuple[str, str, str]]:
    """Number of tests by display name, partition and environment."""
    return Counter((name, partition, environ) for name, partition, environ, _ in found)


def _ambiguous(case: Case, count: int) -> Case:
    """A case that fails, because several tests have its display name."""
    return replace(
        case,
        values=(),
        curves={},
        phase=None,
        failure=(
            f"{count} tests have this display name, so that their values cannot be told apart, "
            "nor can their stage directories. Fix: let `fmt` of the parameter, or the name of the "
            "check, differ"
        ),
    )
