"""A session from the JSON that ReFrame stores. A wrong type or a contradiction is an error."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import orjson

from nearmetal.model import naming, settings
from nearmetal.results import reruns
from nearmetal.results.outcome import Outcome
from nearmetal.results.session import CONFIRMS, Case, ResultsError, Session
from nearmetal.util import sanitize, typed_json
from nearmetal.util.typed_json import ShapeError

#: Major version of the session format (ReFrame 4.x writes 4.y).
DATA_VERSION = "4"


def loads(blob: bytes) -> dict:
    """A session's JSON. NaN and Infinity, which JSON lacks and ReFrame stores, become texts.

    Raises orjson.JSONDecodeError.
    """
    try:
        return orjson.loads(blob)
    except orjson.JSONDecodeError:
        try:
            data = json.loads(blob.decode(), parse_constant=str, parse_float=_float)
            return orjson.loads(orjson.dumps(data))  # refuses lone surrogates
        except (AttributeError, ValueError, TypeError, RecursionError):
            pass  # the first error says what is wrong
        raise


def _float(text: str) -> float | str:
    """The number; the text itself where it is too large for one."""
    number = float(text)
    if math.isinf(number):
        return text
    return number


def parse_session(data: dict, origin) -> Session:
    """A session from its JSON. Raises ResultsError, which names the wrong key."""
    try:
        return _parse_session(typed_json.mapping(data, "the session"), origin)
    except ShapeError as error:
        raise ResultsError(f"{origin}: {error}") from None


def _parse_session(data: Mapping, origin) -> Session:
    """Raises ShapeError, ResultsError."""
    info = typed_json.mapping(data.get("session_info", {}), "session_info")
    # Other major versions name their keys otherwise.
    version = str(info.get("data_version", "none"))
    if version.split(".", maxsplit=1)[0] != DATA_VERSION:
        raise ResultsError(
            f"{origin}: session format {version}, but {DATA_VERSION}.x is needed: "
            "use the ReFrame that requirements.lock pins"
        )
    runs = _runs(data)
    line = typed_json.text(info, "cmdline", "session_info", "")
    tests = reruns.counted(runs, line)
    systems: set[str] = set()
    selection: dict = {}
    for outcomes in tests.values():
        for outcome in outcomes:
            systems.add(outcome.data["system"])
            selection = selection or outcome.selection()
    missing = max(0, int(typed_json.number(info, "num_cases", "session_info", 0)) - len(tests))
    cases, skipped = _cases(tests, line)
    return Session(
        uuid=sanitize.name(typed_json.name(info, "uuid", "session_info")),
        started=sanitize.name(typed_json.name(info, "time_start", "session_info")),
        system=sanitize.name(",".join(sorted(systems))),
        cases=tuple(cases),
        time=typed_json.number(info, "time_start_unix", "session_info"),
        command=sanitize.line(line),
        skipped=tuple(skipped),
        promised=len(cases) + len(skipped) + missing,
        directory=typed_json.text(info, "workdir", "session_info", ""),
        confirms=typed_json.text(info, CONFIRMS, "session_info", ""),
        selection=selection,
        host=sanitize.name(typed_json.text(info, "hostname", "session_info", "")),
        reasons={where: reason for where, reason in skipped.items() if reason},
    )


def _runs(data: Mapping) -> list[list[Outcome]]:
    """The test cases of each run. Raises ShapeError."""
    runs = []
    for number, run in enumerate(typed_json.sequence(data.get("runs"), "runs")):
        run = typed_json.mapping(run, f"runs.{number}")
        place = f"runs.{number}.testcases"
        outcomes = []
        for index, case in enumerate(typed_json.sequence(run.get("testcases"), place)):
            here = f"{place}.{index}"
            outcome = Outcome(typed_json.mapping(case, here), here)
            outcome.expect_names()
            outcomes.append(outcome)
        runs.append(outcomes)
    return runs


def _cases(
    tests: Mapping[reruns.Identity, list[Outcome]], line: str
) -> tuple[list[Case], dict[tuple[str, str, str], str]]:
    """The cases of all runs, and the cases that their check skipped with the reason.

    :arg tests: the runs of each test that count.
    :arg line: the session's command line.
    """
    # Two tests of one display name differ in ReFrame's unique name alone.
    namesakes = Counter(identity[:3] for identity in tests)
    grouped: dict[tuple[str, str, str], list[Case]] = {}
    skipped: dict[tuple[str, str, str], str] = {}
    for identity, runs in tests.items():
        # A passed fixture has no values. A failed one is the reason why other cases were not
        # measured.
        if all(run.is_passed_fixture for run in runs):
            continue
        count = namesakes[identity[:3]]
        for run in runs:
            case = run.case()
            if count > 1:
                grouped[case.where] = [_ambiguous(case, count)]
            elif run.data["result"] == "skip":
                skipped[case.where] = run.line("skip_reason")
            else:
                grouped.setdefault(case.where, []).append(case)
    cases = []
    for of_one in grouped.values():
        case = reruns.merged(of_one)
        # What the command sets in a check of others may make it another workload.
        if case.foreign:
            given = settings.fact(line, naming.base_name(case.check))
            case = replace(case, facts={**case.facts, **given})
        cases.append(case)
    return cases, skipped


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
